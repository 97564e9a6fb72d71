"""Celery on `sqs://`, as it talks to Amazon SQS: nothing but the broker's settings name this server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.celery import celery_app
from tests.celery.tasks import Tasks
from tests.celery.worker_rig import configure, until, worker
from tests.support import STUCK
from tests.support.real_server import RealServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery-sqs")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RealServer]:
    server = RealServer(folder / "data", folder / "server.log", after=("--sqs", "127.0.0.1:0"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def broker(server: RealServer, folder: Path) -> Iterator[str]:
    """Return the broker's URL; the app of this process sends to it."""
    (folder / "results").mkdir()
    port = until(lambda: re.search(r"sqs=http://127\.0\.0\.1:(\d+)", server.log), "it serves SQS")[1]
    url = f"sqs://any:any@127.0.0.1:{port}"
    with configure(url, folder / "results"):
        yield url


@pytest.fixture(scope="module")
def running(broker: str, folder: Path) -> Iterator[None]:
    with worker("sqs", broker, folder):
        yield


class TestTasks(Tasks):
    """The broker is this server."""


@pytest.mark.usefixtures("running")
def test_every_task_that_ran_is_deleted(server: RealServer) -> None:
    celery_app.add.delay(1, 1).get(timeout=STUCK)
    until(lambda: not server.queue("celery").info().counts.leased_count, "all are acknowledged")


@pytest.mark.slow
def test_a_task_of_a_killed_worker_runs_on_another(
    server: RealServer, broker: str, tmp_path: Path
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    with worker("killed", broker, tmp_path, "--queues", "late") as killed:
        celery_app.wait_for.apply_async((str(gate), str(log)), queue="late")
        until(log.exists, "the task runs")
        killed.kill()
    gate.touch()
    with worker("second", broker, tmp_path, "--queues", "late"):
        until(lambda: len(log.read_text().splitlines()) == 2, "the task runs again")
        until(lambda: not server.queue("late").info().counts.leased_count, "it is acknowledged")
