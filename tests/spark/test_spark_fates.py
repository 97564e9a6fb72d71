"""Programs of Spark that die: executors, drivers, tasks that are repeated or run twice.

Each is a program of its own; it is started again, as an orchestrator would, until it ends by itself.
Each row is counted: none is lost and none doubled.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from benchmarks.null_server import NullServer
from benchmarks.null_state import Fault
from tests.spark.dying import Killer
from tests.spark.programs import Move, end_session, moving
from tests.spark.spark_rig import environment
from tests.support import STUCK

BODIES = [str(number).encode() for number in range(20_000)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def server() -> Iterator[NullServer]:
    server = NullServer(["in", "out"])
    server.start()
    server.put("in", BODIES)
    yield server
    server.stop()


@pytest.fixture
def move(server: NullServer, tmp_path: Path) -> Iterator[Move]:
    """Runs the program until it ends well; answers how often it didn't."""
    with moving(tmp_path, server.endpoint) as run:
        yield run


def counted(server: NullServer) -> None:
    assert Counter(server.bodies("out")) == Counter(BODIES)
    assert server.bodies("in") == []
    assert server.deleted["in"] == len(BODIES)


def test_a_repeated_task_with_another_order_loses_and_doubles_nothing(
    server: NullServer, move: Move
) -> None:
    read = {"maxMessagesPerTrigger": 8_000, "numPartitions": 2}

    assert move("local[2,4]", read=read, through="in_any_order") == 0

    # The first attempts dropped what they had staged; others that die so leave it to expire.
    assert server.calls["AbortStage"] == 2
    counted(server)


def test_a_python_worker_that_dies_after_it_sent_is_replaced(server: NullServer, move: Move) -> None:
    killer = Killer()
    server.faults.append(Fault(method="Stage", skip=5, is_after=True, action=killer))

    read = {"maxMessagesPerTrigger": 8_000, "numPartitions": 2}
    assert move("local[2,4]", read=read) == 0

    assert len(killer.killed) == 1
    counted(server)


@pytest.mark.parametrize(("method", "is_after"), [("Stage", True), ("frame", False)])
def test_an_executor_that_dies_in_mid_batch_is_replaced(
    server: NullServer, move: Move, method: str, is_after: bool
) -> None:
    killer = Killer(java=True)
    server.faults.append(Fault(method=method, skip=5, is_after=is_after, action=killer))

    read = {"maxMessagesPerTrigger": 8_000, "numPartitions": 4}
    assert move("local-cluster[2,1,1024]", read=read) == 0

    (killed,) = killer.killed
    assert "CoarseGrainedExecutorBackend" in killed
    counted(server)


@pytest.mark.parametrize(
    ("method", "skip", "is_after"),
    [
        pytest.param("Reserve", 0, True, id="after its first reservation"),
        pytest.param("Reserve", 1, True, id="after it has reserved"),
        pytest.param("ExtendReservation", 1, False, id="before it has confirmed"),
        pytest.param("Stage", 9, True, id="in mid-batch"),
        pytest.param("Publish", 1, True, id="after it has published, before Spark wrote it down"),
        pytest.param("CommitReservations", 1, True, id="after it has deleted"),
    ],
)
def test_a_driver_that_dies_is_started_again(
    server: NullServer, move: Move, method: str, skip: int, is_after: bool
) -> None:
    killer = Killer(java=True)
    server.faults.append(Fault(method=method, skip=skip, is_after=is_after, action=killer))

    # A first reservation that Spark never wrote down is unknown: its messages come back after the hold.
    read = {"maxMessagesPerTrigger": 8_000, "numPartitions": 2, "holdSeconds": 60}
    failures = move("local[2]", read=read)

    assert failures == 1
    (killed,) = killer.killed
    assert "moving.py" in killed or "SparkSubmit" in killed
    if (method, skip) == ("Reserve", 0):
        for stream, sequence_number in list(server.holds):
            server.release(stream, sequence_number)
        assert len(server.bodies("in")) == 8_000
        assert move("local[2]", read=read) == 0
    counted(server)


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[str]:
    """A standalone master with a worker on each of two addresses: a second attempt of a task runs only
    on another host than the first."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    variables = {**os.environ, **environment(tmp_path)}
    deploy = "org.apache.spark.deploy"
    common = ["--webui-port", "0"]
    commands = {
        "127.0.0.1": [f"{deploy}.master.Master", "--port", str(port), *common],
        "127.0.0.2": [f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *common, master],
        "127.0.0.3": [f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *common, master],
    }
    with contextlib.ExitStack() as stack:
        for host, command in commands.items():
            log = stack.enter_context((tmp_path / host).open("wb"))
            program = subprocess.Popen(
                [str(spark_class), command[0], "--host", host, *command[1:]],
                env={
                    **variables,
                    "SPARK_LOCAL_IP": host,
                    "SPARK_WORKER_DIR": str(tmp_path / f"work-{host}"),
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            stack.callback(program.wait, STUCK)
            stack.callback(end_session, program.pid)
        yield master


def test_a_task_that_runs_twice_at_once_is_written_once(
    server: NullServer, move: Move, two_hosts: str, tmp_path: Path
) -> None:
    read = {"maxMessagesPerTrigger": 10_000, "numPartitions": 2}
    conf = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.minTaskRuntime": "200ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
    }

    assert move(two_hosts, read=read, through="slow_once", conf=conf) == 0

    assert (tmp_path / "marks" / "overtaken").exists()
    counted(server)
