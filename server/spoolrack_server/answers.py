"""Answers of the store's thread for an event loop, which is woken once for all that come together.

A commit answers many calls at once. To wake the loop for each of them, as `asyncio.wrap_future` does,
took a third of the committer's time.
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
    """What `future` brings. If the caller is cancelled before, so is `future`, if it hasn't begun."""
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
    bell = _bells.get(loop)
    if bell is None:
        bell = _bells[loop] = _Bell(loop)
    future.add_done_callback(lambda _: bell.ring(wake))


class _Bell:
    """Of the event loop of the thread that makes it. `ring` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, as it is the value to a weak key that is this very loop.
        self._loop = ref(loop)
        self._come: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_ringing = False

    def ring(self, wake: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            wake()
            return
        self._come.append(wake)
        loop = self._loop()
        with self._lock:
            if self._is_ringing or loop is None or loop.is_closed():
                return  # Nobody waits in a loop that is closed.
            self._is_ringing = True
        loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        with self._lock:
            self._is_ringing = False
        while self._come:
            self._come.popleft()()


_bells: WeakKeyDictionary[asyncio.AbstractEventLoop, _Bell] = WeakKeyDictionary()
