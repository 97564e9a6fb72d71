"""Executors that have no Spoolrack get it with the job, from a built archive."""

from __future__ import annotations

import json
import shutil
import site
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import spoolrack
from spoolrack.testing import RunningServer, running_server

from tests.spark.spark_rig import HERE, bare, submit

LOCAL = "local[2]"
CLUSTER = "local-cluster[1,2,1024]"
"""An executor with two cores, in a process and with a folder of its own."""
BESIDE = ("google", "grpc", "typing_extensions.py")
"""The packages of others that the client needs."""
ROWS = {str(number).encode() for number in range(20)}


@pytest.fixture
def queues() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


def place(queues: RunningServer) -> str:
    return queues.url.removeprefix("grpc://")


def bodies(client: spoolrack.Client) -> set[bytes]:
    return {message.body for message in client.queue("jobs").peek()}


@pytest.mark.slow
@pytest.mark.parametrize("master", [LOCAL, CLUSTER])
def test_executors_write_and_read_with_the_wheel_that_came_by_py_files(
    wheel: Path, queues: RunningServer, tmp_path: Path, master: str
) -> None:
    # Of what comes by --py-files only a .zip, an .egg or a .jar is put on the path.
    archive = shutil.copy(wheel, tmp_path / "spoolrack.zip")
    environment = bare(tmp_path, Path(site.getsitepackages()[0]))
    with spoolrack.connect(queues.url) as client:
        client.create_queue("jobs")

        printed = submit(
            environment,
            master,
            *("--py-files", archive, HERE / "archived_job.py", place(queues), "jobs", "source"),
            folder=tmp_path,
        )

        (found,) = json.loads(printed)
        assert found.endswith("/spoolrack.zip/spoolrack/__init__.py")
        assert bodies(client) == ROWS


@pytest.mark.slow
def test_executors_write_with_all_they_need_from_an_archive(
    wheel: Path, queues: RunningServer, tmp_path: Path
) -> None:
    packages = Path(site.getsitepackages()[0])
    library = tmp_path / "library"
    ZipFile(wheel).extractall(library)
    for name in BESIDE:
        if (packages / name).is_dir():
            shutil.copytree(packages / name, library / name)
        else:
            shutil.copy(packages / name, library)
    with tarfile.open(tmp_path / "library.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(library, ".")
    # The executors have pyspark, which is Spark's own, and nothing else; the driver has the package.
    environment = bare(tmp_path, library)
    with spoolrack.connect(queues.url) as client:
        client.create_queue("jobs")

        printed = submit(
            environment,
            CLUSTER,
            *("--archives", f"{tmp_path}/library.tar.gz#shipped"),
            *("--conf", "spark.executorEnv.PYTHONPATH=shipped"),
            *(HERE / "archived_job.py", place(queues), "jobs", "rows"),
            folder=tmp_path,
        )

        (found,) = json.loads(printed)
        assert found.endswith("/shipped/spoolrack/__init__.py")
        assert bodies(client) == ROWS
