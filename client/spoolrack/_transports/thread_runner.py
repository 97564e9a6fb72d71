"""Blocking work for both runtimes: in the caller's thread, or in a thread beside the event loop.

A thread for each piece of work, and no pool: a few that wait for messages must not delay the others. A
cancelled task leaves its thread to finish, and the result is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from .._runtime import Runtime, Tasks
from .._threads import start_thread

T = TypeVar("T")


def _nothing(*_: object) -> None:
    pass


class ThreadRunner:
    def __init__(self, runtime: Runtime) -> None:
        self._suspends = isinstance(runtime, Tasks)

    async def run(
        self,
        work: Callable[[], T],
        *,
        undo: Callable[[T], object] = _nothing,
        stop: Callable[[], object] = _nothing,
    ) -> T:
        """Return the result of `work`. If the task is cancelled, call `stop` at once, to end what
        waits, and `undo`, beside the event loop, with a result that no caller gets any more."""
        if not self._suspends:
            return work()
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # the task that waits raises it
                future.set_exception(error)

        start_thread(run, "spoolrack-work")
        try:
            return await asyncio.wrap_future(future)
        except (asyncio.CancelledError, GeneratorExit):
            stop()
            # At once, if the result came before the cancellation, and the task did not take it.
            future.add_done_callback(lambda done: _undo(done, undo))
            raise


def _undo(done: Future[T], undo: Callable[[T], object]) -> None:
    if done.exception() is None:
        start_thread(lambda: undo(done.result()), "spoolrack-undo")
