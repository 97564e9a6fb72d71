"""SIGKILL, over a server that is a process of its own, with its folders: every row is counted.

The server is killed in the middle of a batch and started again on the same root and port; Python
processes, drivers and executors are killed at the calls where that hurts most. None is lost and none
doubled. Each death takes seconds: some are for every run, the others are slow.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spoolrack import Client, connect

from tests.spark.dying import Killer
from tests.spark.gate import Gate, Moment
from tests.spark.programs import Move, moving
from tests.support import STUCK
from tests.support.run_processes import Crew, Served

ROWS = 6_000
BODIES = [str(number).encode() for number in range(ROWS)]
SLOW = pytest.mark.slow

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


@pytest.fixture
def served(crew: Crew, tmp_path: Path) -> Served:
    return Served(crew, tmp_path / "root")


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with connect(f"grpc://{served.address}", timeout=120) as client:
        client.create_queue("in")
        client.create_queue("out")
        client.queue("in").send_many(BODIES)
        yield client


@pytest.fixture
def gate(served: Served, client: Client) -> Iterator[Gate]:
    gate = Gate(served.address)
    yield gate
    gate.close()


def start(spark: SparkSession, address: str, checkpoint: Path, batch: int = 2_000) -> StreamingQuery:
    place = {"endpoint": address, "retrySeconds": 120}
    return (
        spark.readStream.format("spoolrack")
        .options(**place, queue="in", maxMessagesPerTrigger=batch, numPartitions=2)
        .load()
        .select("body")
        .writeStream.format("spoolrack")
        .options(**place, queue="out", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def run_to_its_end(spark: SparkSession, address: str, checkpoint: Path) -> int:
    """Start the query until it ends by itself; answers how often it failed."""
    for failures in range(6):
        query = start(spark, address, checkpoint)
        try:
            assert query.awaitTermination(STUCK)
        except StreamingQueryException:
            continue
        return failures
    raise AssertionError("the query failed six times")


def counted(client: Client) -> None:
    found = Counter(one.body for one in client.queue("out").peek())
    assert found == Counter(BODIES)
    counts = client.queue("in").info().counts
    assert (counts.ready_count, counts.leased_count, counts.delayed_count) == (0, 0, 0)


@pytest.mark.parametrize(
    ("kills", "batch"), [(3, 1_000), pytest.param(15, 250, marks=SLOW, id="many times")]
)
def test_a_server_that_is_killed_in_mid_batch_loses_and_doubles_nothing(
    spark: SparkSession, served: Served, client: Client, tmp_path: Path, kills: int, batch: int
) -> None:
    staged = served.root / "staged"
    known: set[str] = set()
    query = start(spark, served.address, tmp_path / "checkpoint", batch)
    for _ in range(kills):
        # In mid-batch: a task has staged, and nothing is published.
        while not (new := {one.name for one in staged.iterdir()} - known):
            assert query.isActive, "it has come to its end before it was killed so often"
            time.sleep(0.005)
        known |= new
        served.kill()
        known |= {one.name for one in staged.iterdir()}
        served.restart()

    assert query.awaitTermination(STUCK)
    counted(client)


@pytest.mark.parametrize(
    ("method", "skip", "is_after"),
    [
        pytest.param("Reserve", 1, True, id="it has reserved", marks=SLOW),
        pytest.param("ExtendReservation", 1, True, id="it has confirmed", marks=SLOW),
        pytest.param("frame", 1, False, id="it reads out", marks=SLOW),
        pytest.param("Stage", 2, True, id="it has staged", marks=SLOW),
        pytest.param("Publish", 1, False, id="it shall publish", marks=SLOW),
        pytest.param("Publish", 1, True, id="it has published"),
        pytest.param("CommitReservations", 1, True, id="it has deleted", marks=SLOW),
    ],
)
def test_a_server_that_is_killed_where_its_answer_is_lost_is_asked_again(
    spark: SparkSession,
    served: Served,
    client: Client,
    gate: Gate,
    tmp_path: Path,
    method: str,
    skip: int,
    is_after: bool,
) -> None:
    killed: list[str] = []

    def kill(_: grpc.ServicerContext) -> None:
        served.kill()
        killed.append(method)
        served.restart()

    gate.moments.append(Moment(method=method, skip=skip, is_after=is_after, action=kill))

    failures = run_to_its_end(spark, gate.address, tmp_path / "checkpoint")

    assert killed == [method]
    assert failures == 0
    counted(client)


@pytest.mark.parametrize(
    ("method", "is_after"),
    [
        pytest.param("Stage", True, id="a writer that has staged", marks=SLOW),
        pytest.param("frame", False, id="a reader in the middle of its slice", marks=SLOW),
        pytest.param("Reserve", True, id="the planner after it has reserved", marks=SLOW),
        pytest.param("ExtendReservation", False, id="the planner before it has extended", marks=SLOW),
        pytest.param("Publish", False, id="the committer before it has published", marks=SLOW),
        pytest.param("Publish", True, id="the committer after it has published"),
        pytest.param("CommitReservations", False, id="the planner before it has deleted", marks=SLOW),
        pytest.param("CommitReservations", True, id="the planner after it has deleted", marks=SLOW),
    ],
)
def test_the_death_of_a_python_process_loses_and_doubles_nothing(
    spark: SparkSession, client: Client, gate: Gate, tmp_path: Path, method: str, is_after: bool
) -> None:
    killer = Killer()
    gate.moments.append(Moment(method=method, skip=1, is_after=is_after, action=killer))

    failures = run_to_its_end(spark, gate.address, tmp_path / "checkpoint")

    assert (len(killer.killed), failures) == (1, 1)
    counted(client)


@pytest.mark.slow
def test_the_server_and_the_committer_die_at_one_moment(
    spark: SparkSession, served: Served, client: Client, gate: Gate, tmp_path: Path
) -> None:
    killer = Killer()

    def kill(context: grpc.ServicerContext) -> None:
        served.kill()
        killer(context)
        served.restart()

    gate.moments.append(Moment(method="Publish", skip=1, is_after=True, action=kill))

    assert run_to_its_end(spark, gate.address, tmp_path / "checkpoint") == 1
    counted(client)


# Programs of their own: drivers, and executors.


@pytest.fixture
def move(gate: Gate, tmp_path: Path) -> Iterator[Move]:
    with moving(tmp_path, gate.address) as run:
        yield run


READ = {"maxMessagesPerTrigger": 2_500, "numPartitions": 4, "holdSeconds": 60}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "skip"),
    [
        pytest.param("Reserve", 1, id="after it has reserved"),
        pytest.param("Stage", 5, id="in mid-batch"),
        pytest.param("Publish", 1, id="after it has published, before Spark wrote it down"),
        pytest.param("CommitReservations", 1, id="after it has deleted"),
    ],
)
def test_a_driver_that_dies_is_started_again(
    client: Client, gate: Gate, move: Move, method: str, skip: int
) -> None:
    killer = Killer(java=True)
    gate.moments.append(Moment(method=method, skip=skip, is_after=True, action=killer))

    assert move("local[2]", read=READ) == 1

    (killed,) = killer.killed
    assert "SparkSubmit" in killed or "moving.py" in killed
    counted(client)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "is_after"), [("Stage", True), ("frame", False)])
def test_an_executor_that_dies_in_mid_batch_is_replaced(
    client: Client, gate: Gate, move: Move, method: str, is_after: bool
) -> None:
    killer = Killer(java=True)
    gate.moments.append(Moment(method=method, skip=5, is_after=is_after, action=killer))

    assert move("local-cluster[2,1,1024]", read=READ) == 0

    (killed,) = killer.killed
    assert "CoarseGrainedExecutorBackend" in killed
    counted(client)


@pytest.mark.slow
def test_a_python_worker_that_dies_is_replaced_whatever_the_order(
    client: Client, gate: Gate, move: Move
) -> None:
    """Spark repeats the task by itself, and the attempt has its rows in another order."""
    killer = Killer()
    gate.moments.append(Moment(method="Stage", skip=5, is_after=True, action=killer))

    assert move("local[2,8]", read=READ, through="in_any_order") == 0

    assert len(killer.killed) == 1
    counted(client)


@pytest.mark.slow
def test_a_server_that_is_killed_under_executors_is_waited_for(
    served: Served, client: Client, gate: Gate, move: Move
) -> None:
    def kill(_: grpc.ServicerContext) -> None:
        served.kill()
        threading.Thread(target=served.restart).start()  # calls of others find no server meanwhile

    gate.moments += [
        Moment(method=method, skip=skip, is_after=True, action=kill)
        for method, skip in (("Stage", 3), ("Publish", 1))
    ]

    assert move("local-cluster[2,1,1024]", read=READ) == 0

    assert [moment.times for moment in gate.moments] == [0, 0]
    counted(client)
