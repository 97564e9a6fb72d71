"""A standalone cluster of two workers and a Spark Connect server get Spoolrack as one wheel, and show
no credentials."""

from __future__ import annotations

import json
import os
import shutil
import site
from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from spoolrack_server.access.security import Security

from tests.spark.clustered_job import ROWS
from tests.spark.spark_rig import HERE, bare, printed, running, submit, wait_for_port
from tests.support.access_rig import Files, in_a_thread
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUEUES = ("jobs", "done", "copies")
BODIES = [str(number) for number in range(ROWS)]


class Guarded:
    """A server that wants to know who asks."""

    def __init__(self, address: str, files: Files) -> None:
        self.address = address
        self.token = files.tokens["query"]
        self.credentials = f"file={files.write('credentials', f'token={self.token}')}"
        self.client = spoolrack.connect(f"grpc://{address}", token=files.tokens["owner"])

    def bodies(self, queue: str) -> list[str]:
        return sorted((m.text for m in self.client.queue(queue).peek(limit=1_000)), key=int)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    (tmp_path / "etc").mkdir()
    files = Files(tmp_path / "etc")
    security = Security(
        tokens=files.write_tokens("query", "owner"),
        permissions=files.write_permissions(
            "owner all *", *(f"query receive,monitor,send {queue}" for queue in QUEUES)
        ),
    )
    with in_a_thread(tmp_path / "root", security) as address:
        made = Guarded(address, files)
        with made.client:
            for queue in QUEUES:
                made.client.create_queue(queue)
            yield made


def on_the_path(environment: dict[str, str], archive: Path) -> dict[str, str]:
    return environment | {"PYTHONPATH": f"{archive}{os.pathsep}{environment['PYTHONPATH']}"}


def assert_shown_nowhere(secret: str, *folders: Path) -> None:
    shown = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert not shown


def test_a_standalone_cluster_of_two_workers_gets_the_wheel_with_the_job(
    wheel: Path, guarded: Guarded, tmp_path: Path
) -> None:
    archive = shutil.copy(wheel, tmp_path / "spoolrack.zip")
    environment = bare(tmp_path, Path(site.getsitepackages()[0]))
    port = free_port()
    logs, work = tmp_path / "logs", tmp_path / "work"
    for folder in (logs, work, tmp_path / "out"):
        folder.mkdir()
    url = f"spark://127.0.0.1:{port}"
    main = "org.apache.spark.deploy"
    master = ("--host", "127.0.0.1", "--port", port, "--webui-port", free_port())
    with running(environment, logs, "master", "spark-class", f"{main}.master.Master", *master) as told:
        wait_for_port(port, told)
        worker = ("--host", "127.0.0.1", "--cores", 1, "--memory", "1g", "--webui-port", "0", url)
        start = ("spark-class", f"{main}.worker.Worker", "--work-dir")
        with (
            running(environment, logs, "first", *start, work / "first", *worker),
            running(environment, logs, "second", *start, work / "second", *worker),
        ):
            # Spark plans a stream in a process of the driver's that doesn't get --py-files.
            said = submit(
                on_the_path(environment, archive),
                url,
                *("--py-files", archive),
                *("--conf", "spark.eventLog.enabled=true"),
                *("--conf", f"spark.eventLog.dir={logs}"),
                *("--conf", "spark.eventLog.compress=false"),
                *("--conf", "spark.executor.memory=512m"),
                *("--conf", "spark.executor.cores=1"),
                *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
                *("--conf", "spark.scheduler.maxRegisteredResourcesWaitingTime=200s"),
                *(HERE / "clustered_job.py", guarded.address, guarded.credentials, tmp_path / "out"),
                "stream",
                folder=tmp_path,
            )
    found = json.loads(said.splitlines()[-1])
    assert {Path(folder).parents[1].name for folder, _ in found} == {"first", "second"}
    assert all(package.endswith("/spoolrack.zip/spoolrack/__init__.py") for _, package in found)
    assert guarded.bodies("copies") == BODIES
    assert not guarded.bodies("jobs")
    assert [path for path in logs.iterdir() if "app-" in path.name]
    assert_shown_nowhere(guarded.token, logs, work, tmp_path / "out")
    assert guarded.token not in said


@pytest.mark.parametrize("way", ["batch", "stream"])
def test_a_connect_server_gets_the_wheel_as_an_artifact_and_for_streams_on_its_path(
    wheel: Path, guarded: Guarded, tmp_path: Path, way: str
) -> None:
    pytest.importorskip("grpc_status")
    archive = shutil.copy(wheel, tmp_path / "spoolrack.zip")
    environment = bare(tmp_path, Path(site.getsitepackages()[0]))
    port = free_port()
    logs = tmp_path / "logs"
    for folder in (logs, tmp_path / "out"):
        folder.mkdir()
    server = (
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.eventLog.enabled=true"),
        *("--conf", f"spark.eventLog.dir={logs}"),
        *("--conf", "spark.eventLog.compress=false"),
    )
    with_wheel = on_the_path(environment, archive)
    servers = with_wheel if way == "stream" else environment
    with running(servers, logs, "connect", "spark-submit", *server) as told:
        wait_for_port(port, told)
        job = (HERE / "clustered_job.py", guarded.address, guarded.credentials, tmp_path / "out", way)
        remote = (f"sc://127.0.0.1:{port}", *([archive] if way == "batch" else []))
        said = printed(with_wheel, with_wheel["PYSPARK_PYTHON"], *job, *remote, folder=tmp_path)
    assert all("spoolrack.zip" in package for _, package in json.loads(said.splitlines()[-1]))
    assert guarded.bodies("copies") == BODIES
    assert guarded.bodies("jobs") == ([] if way == "stream" else BODIES)
    assert_shown_nowhere(guarded.token, logs, tmp_path / "out")
    assert guarded.token not in said
