"""The store's answers for an event loop, which is woken once for all answers of a commit.

`asyncio.wrap_future` wakes the loop for each answer, which took a third of the committer's time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")


async def answer(future: Future[T]) -> T:
    """Return the result of `future`; cancel it with the caller, if it hasn't begun."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not waiting.done():
            waiting.set_result(None)

    on_answer(future, wake)
    try:
        await waiting
    except asyncio.CancelledError:
        future.cancel()
        raise
    return future.result()


def on_answer(future: Future[T], wake: Callable[[], None]) -> None:
    """Call `wake` in the loop that runs now, once `future` is done."""
    loop = asyncio.get_running_loop()
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _LoopWaker(loop)
    future.add_done_callback(lambda _: waker.schedule(wake))


class _LoopWaker:
    """Of the event loop of the thread that makes it. `ring` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, as it is the value to a weak key that is this very loop.
        self._loop = ref(loop)
        self._callbacks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_scheduled = False

    def schedule(self, wake: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            wake()
            return
        self._callbacks.append(wake)
        loop = self._loop()
        with self._lock:
            if self._is_scheduled or loop is None or loop.is_closed():
                return  # No task waits in a loop that is closed.
            self._is_scheduled = True
        loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        with self._lock:
            self._is_scheduled = False
        while self._callbacks:
            self._callbacks.popleft()()


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaker] = WeakKeyDictionary()
