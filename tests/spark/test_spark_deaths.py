"""Deaths of Spark's processes in the middle of a batch: each row is counted, none is lost and none
doubled.

The queries of the shared session are started again from their checkpoint, as an orchestrator would.
Repeated tasks, and deaths with the driver, are in test_spark_fates. Each death takes seconds:
some are for every run, the others are slow.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from benchmarks.null_server import NullServer
from benchmarks.null_state import Fault
from tests.spark.dying import Killer
from tests.support import STUCK

BODIES = [str(number).encode() for number in range(6_000)]
SLOW = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[NullServer]:
    server = NullServer(["in", "out"])
    server.start()
    server.put("in", BODIES)
    yield server
    server.stop()


def run_to_its_end(spark: SparkSession, server: NullServer, checkpoint: Path) -> int:
    """Start the query until it ends by itself; answers how often it failed."""
    place = {"endpoint": server.endpoint, "retrySeconds": 30}
    frame = spark.readStream.format("spoolrack").options(
        **place, queue="in", maxMessagesPerTrigger=2_000, numPartitions=2
    )
    for failures in range(10):
        query = (
            frame.load()
            .select("body")
            .writeStream.format("spoolrack")
            .options(**place, queue="out", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(STUCK)
        except StreamingQueryException:
            continue
        return failures
    raise AssertionError("the query failed ten times")


def counted(server: NullServer) -> None:
    assert Counter(server.bodies("out")) == Counter(BODIES)
    assert server.bodies("in") == []
    assert server.deleted["in"] == len(BODIES)


@pytest.mark.parametrize(
    ("method", "skip", "is_after"),
    [
        pytest.param("Stage", 1, True, id="a writer that has staged"),
        pytest.param("frame", 1, False, id="a reader in the middle of its slice", marks=SLOW),
        pytest.param("Reserve", 1, True, id="the planner after it has reserved", marks=SLOW),
        pytest.param(
            "ExtendReservation", 1, False, id="the planner before it has confirmed", marks=SLOW
        ),
        pytest.param("CommitReservations", 1, False, id="the planner before it has deleted"),
        pytest.param("CommitReservations", 1, True, id="the planner after it has deleted", marks=SLOW),
        pytest.param("Publish", 1, False, id="the committer before it has published", marks=SLOW),
        pytest.param("Publish", 1, True, id="the committer after it has published"),
    ],
)
def test_the_death_of_a_python_process_loses_and_doubles_nothing(
    spark: SparkSession, server: NullServer, tmp_path: Path, method: str, skip: int, is_after: bool
) -> None:
    killer = Killer()
    server.faults.append(Fault(method=method, skip=skip, is_after=is_after, action=killer))

    failures = run_to_its_end(spark, server, tmp_path)

    assert len(killer.killed) == 1
    assert failures == 1
    counted(server)


def test_calls_that_a_server_ends_as_it_stops_are_made_again(
    spark: SparkSession, server: NullServer, tmp_path: Path
) -> None:
    for method in ("Stage", "frame", "Reserve", "Publish", "CommitReservations"):
        server.faults.append(Fault(method=method, skip=1, code=grpc.StatusCode.CANCELLED))

    failures = run_to_its_end(spark, server, tmp_path)

    assert not any(fault.times for fault in server.faults), "all of them have come about"
    assert failures == 0
    counted(server)


@pytest.mark.parametrize(
    "method",
    [
        "Stage",
        *(
            pytest.param(one, marks=SLOW)
            for one in ("frame", "Reserve", "Publish", "CommitReservations")
        ),
    ],
)
def test_a_server_that_is_away_for_a_moment_is_waited_for(
    spark: SparkSession, server: NullServer, tmp_path: Path, method: str
) -> None:
    away = threading.Event()

    def leave(_: grpc.ServicerContext) -> None:
        away.set()

    def restart() -> None:
        away.wait(STUCK)
        server.stop()
        server.start()

    server.faults.append(Fault(method=method, skip=1, is_after=True, action=leave))
    restarts = threading.Thread(target=restart)
    restarts.start()

    failures = run_to_its_end(spark, server, tmp_path)

    restarts.join(STUCK)
    assert failures == 0
    counted(server)
