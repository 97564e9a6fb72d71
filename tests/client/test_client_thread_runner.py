"""Work beside the event loop: a task may be cancelled at any moment, and no result is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest
from spoolrack._runtime import Tasks, Threads, run
from spoolrack._transports.thread_runner import ThreadRunner

from tests.support import STUCK


class Work:
    """Goes on until it is stopped or let go, and remembers what became of it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.advance = threading.Event()
        self.undone = threading.Event()
        self.what_was_undone: list[str] = []
        self.thread = threading.current_thread()

    def __call__(self) -> str:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.advance.wait(STUCK)
        return "result"

    def undo(self, result: str) -> None:
        self.what_was_undone.append(result)
        self.undone.set()

    def start(self) -> asyncio.Task[str]:
        runner = ThreadRunner(Tasks())
        return asyncio.create_task(runner.run(self, undo=self.undo, stop=self.advance.set))


async def begin(work: Work) -> asyncio.Task[str]:
    task = work.start()
    await asyncio.sleep(0)
    assert work.begun.wait(STUCK)
    return task


async def test_a_task_gets_the_result_of_a_thread() -> None:
    work = Work()
    task = await begin(work)
    work.advance.set()
    assert await task == "result"
    assert work.thread is not threading.current_thread()
    assert not work.undone.is_set()


async def test_a_task_gets_the_error_of_a_thread() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ThreadRunner(Tasks()).run(fail)


async def test_a_cancelled_task_stops_the_work_and_undoes_its_result() -> None:
    work = Work()
    task = await begin(work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.advance.is_set()
    # The loop hears of the result, and hands it on.
    assert await asyncio.to_thread(work.undone.wait, STUCK)
    assert work.what_was_undone == ["result"]


async def test_a_task_that_is_cancelled_after_its_result_came_undoes_it() -> None:
    work = Work()
    task = await begin(work)
    work.advance.set()
    work.thread.join(STUCK)
    # The result is on its way to the task, and the cancellation overtakes it.
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.undone.wait(STUCK)
    assert work.what_was_undone == ["result"]


def test_a_result_that_comes_when_the_loop_has_ended_is_undone() -> None:
    work = Work()

    async def leave() -> None:
        runner = ThreadRunner(Tasks())
        task = asyncio.create_task(runner.run(work, undo=work.undo))
        await asyncio.sleep(0)
        assert work.begun.wait(STUCK)
        task.cancel()

    asyncio.run(leave())
    work.advance.set()
    assert work.undone.wait(STUCK)


def test_for_threads_it_is_done_in_place() -> None:
    assert run(ThreadRunner(Threads()).run(threading.current_thread)) is threading.current_thread()
