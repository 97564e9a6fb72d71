"""Background tasks go on after an error, and the error is told: once in the log, and for as long as it
lasts in the health's details and in a metric."""

from __future__ import annotations

import asyncio
import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.app.background_tasks import BackgroundTasks
from spoolrack_server.app.health import Health
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.process.supervisor import Supervisor
from spoolrack_server.system.logs import make_log
from spoolrack_store.files.removed import ReaperThread, RemovedFiles
from spoolrack_store.model.errors import DiskFull

from tests.support import STUCK
from tests.support.http_rig import http_to
from tests.support.memory_disk import MemoryDisk
from tests.support.waiting import until


class Rounds:
    """A round that fails as it is told, and counts."""

    def __init__(self, *errors: BaseException | None) -> None:
        self._errors = iter(errors)
        self.count = 0
        self.ended = asyncio.Event()

    async def __call__(self) -> None:
        self.count += 1
        error = next(self._errors, self.ended)
        if error is self.ended:
            self.ended.set()
            await asyncio.Event().wait()
        if isinstance(error, BaseException):
            raise error


async def told_of(*errors: BaseException | None) -> tuple[list[str], Health]:
    """Return the log lines of a task whose rounds raise these, and the health after them."""
    lines, health = io.StringIO(), Health()
    tasks = BackgroundTasks(health, make_log(stream=lines), pause=0)
    rounds = Rounds(*errors)
    tasks.start("rounds", rounds)
    await rounds.ended.wait()
    await tasks.stop()
    assert rounds.count == len(errors) + 1, "a round ended the task"
    return [line for line in lines.getvalue().splitlines() if "event=" in line], health


async def test_a_task_goes_on_after_any_error_of_a_round() -> None:
    _, health = await told_of(ValueError(), OSError(), asyncio.CancelledError(), MemoryError())
    assert health.failing == ["rounds"]
    assert health.is_serving, "the server serves without the task"


async def test_a_task_that_fails_on_and_on_is_logged_once_and_once_more_when_it_works() -> None:
    error = OSError("no descriptor")
    lines, health = await told_of(error, error, error, None, None)
    assert [("level=error" in line, "no descriptor" in line) for line in lines] == [
        (True, True),
        (False, False),
    ]
    assert health.failing == []


async def test_a_fault_is_logged_with_its_traceback_and_an_error_of_the_store_without() -> None:
    lines, _ = await told_of(ValueError("odd"))
    assert "Traceback" in lines[0]
    lines, _ = await told_of(DiskFull(detail="0 bytes are left"))
    assert "Traceback" not in lines[0]


async def test_a_server_shows_which_of_its_tasks_fail_and_stays_ready(tmp_path: Path) -> None:
    async with Server(tmp_path / "root") as server, http_to(server) as http:
        rounds = Rounds(OSError("x"))
        server.background.start("odd", rounds)
        await rounds.ended.wait()
        for path in ("/-/health", "/-/health/ready"):
            answer = await http.ask("GET", path)
            assert (answer.status, answer.json["failing"]) == (200, ["odd"])
        page = (await http.ask("GET", "/-/metrics")).body.decode()
    assert 'spoolrack_background_failing{process="0",task="odd"} 1' in page
    for task in ("memory", "samples", "schedules"):
        assert f'spoolrack_background_failing{{process="0",task="{task}"}} 0' in page


def test_the_reaper_goes_on_after_a_fault(tmp_path: Path) -> None:
    removed = RemovedFiles(MemoryDisk())
    unlinked: list[int] = []

    def unlink(most: int) -> int:
        unlinked.append(most)
        if len(unlinked) == 1:
            raise ValueError("a fault")
        return 0

    removed.unlink = unlink  # type: ignore[method-assign, assignment]
    reaper = ReaperThread(removed)
    removed.waits.set()
    until(lambda: len(unlinked) >= 2)
    reaper.stop()


async def test_a_supervisor_that_can_start_no_worker_ends_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*program: str, **options: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    lines = io.StringIO()
    supervisor = Supervisor(ServeSettings(root=str(tmp_path)), 2, make_log(stream=lines))
    async with asyncio.timeout(STUCK):
        await supervisor.run(lambda: None)
    assert supervisor.code == os.EX_OSERR
    assert "Too many open files" in lines.getvalue()


async def test_a_worker_that_can_not_be_started_now_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, starts = asyncio.create_subprocess_exec, 0

    async def start_a_shell(*program: str, **options: Any) -> asyncio.subprocess.Process:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        if starts == 3:
            supervisor.end()
        return await start("/bin/sh", "-c", "echo ready", **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_a_shell)
    lines = io.StringIO()
    supervisor = Supervisor(ServeSettings(root=str(tmp_path)), 1, make_log(stream=lines))
    async with asyncio.timeout(STUCK):
        await supervisor.run(lambda: None)
    assert starts == 3
    assert "Too many open files" in lines.getvalue()
