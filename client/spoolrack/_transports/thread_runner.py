"""Blocking work for both runtimes: in the caller's thread, or in a thread beside the event loop.

A thread for each piece of work, and no pool: a few that wait for messages must not delay the others. A
cancelled task leaves its thread to finish, and the result is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def start_undoing(result: T) -> None:
            start_thread(lambda: undo(result), "spoolrack-undo")

        def fail(error: BaseException) -> None:
            if not done.cancelled():
                done.set_exception(error)

        def hand_over(result: T) -> None:
            if done.cancelled():
                start_undoing(result)
            else:
                done.set_result(result)

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  # the task that waits raises it
                _soon(loop, lambda error=error: fail(error))  # type: ignore[misc]
            else:
                if not _soon(loop, lambda: hand_over(result)):
                    undo(result)

        start_thread(run, "spoolrack-work")
        try:
            return await done
        except asyncio.CancelledError:
            stop()
            # It may have been cancelled after the result came, and before it took it.
            if done.done() and not done.cancelled() and done.exception() is None:
                start_undoing(done.result())
            raise


def _soon(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> bool:
    """Call `action` in the event loop; False if that has ended."""
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:
        return False
    return True
