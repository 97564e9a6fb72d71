"""Answers of the store's thread for an event loop, which is woken once for all that come together.

A commit answers many calls at once. To wake the loop for each of them, as `asyncio.wrap_future` does,
took a third of the committer's time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


async def answer(future: Future[T]) -> T:
    """What `future` brings. If the caller is cancelled before, so is `future`, if it hasn't begun."""
    loop = asyncio.get_running_loop()
    bell = _bells.get(loop)
    if bell is None:
        bell = _bells[loop] = _Bell()
    waiting: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda _: bell.ring(waiting))
    try:
        await waiting
    except asyncio.CancelledError:
        future.cancel()
        raise
    return future.result()


class _Bell:
    """Of the event loop of the thread that makes it. `ring` may be called from any thread."""

    def __init__(self) -> None:
        self._come: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_ringing = False

    def ring(self, waiting: asyncio.Future[None]) -> None:
        self._come.append(waiting)
        with self._lock:
            if self._is_ringing or waiting.get_loop().is_closed():
                return  # Nobody waits in a loop that is closed.
            self._is_ringing = True
        loop = waiting.get_loop()
        if threading.get_ident() == self._thread:
            loop.call_soon(self._hear)
        else:
            loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        with self._lock:
            self._is_ringing = False
        while self._come:
            waiting = self._come.popleft()
            if not waiting.done():
                waiting.set_result(None)


_bells: WeakKeyDictionary[asyncio.AbstractEventLoop, _Bell] = WeakKeyDictionary()
