"""Tasks of Spark that are repeated, or run twice at one time: each row is counted.

None is lost and none doubled.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.spark.programs import Move, end_session, moving
from tests.spark.spark_rig import environment
from tests.support import STUCK
from tests.support.ports import free_port
from tests.support.relayed_server import RelayedServer, relayed_server

BODIES = [str(number).encode() for number in range(20_000)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def server() -> Iterator[RelayedServer]:
    with relayed_server("in", "out") as server:
        server.put("in", BODIES)
        yield server


@pytest.fixture
def move(server: RelayedServer, tmp_path: Path) -> Iterator[Move]:
    """Runs the program until it ends well; answers how often it didn't."""
    with moving(tmp_path, server.endpoint) as run:
        yield run


def counted(server: RelayedServer) -> None:
    assert Counter(server.bodies("out")) == Counter(BODIES)
    assert server.bodies("in") == []
    assert server.left("in") == 0


def test_a_repeated_task_with_another_order_loses_and_doubles_nothing(
    server: RelayedServer, move: Move
) -> None:
    read = {"maxMessagesPerTrigger": 8_000, "numPartitions": 2}

    assert move("local[2,4]", read=read, through="in_any_order") == 0

    # The first attempts dropped what they had staged; others that die so leave it to expire.
    assert server.calls["AbortStage"] == 2
    counted(server)


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[str]:
    """A standalone master with a worker on each of two addresses: a second attempt of a task runs only
    on another host than the first."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port = free_port()
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
    server: RelayedServer, move: Move, two_hosts: str, tmp_path: Path
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
