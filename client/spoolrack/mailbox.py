"""Hands things from one producer to the threads or tasks that ask for them, in order.

Knows nothing of what it carries. It has no bound of its own: its producer has one.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from .runtime import Runtime, Signal

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._items: deque[Item] = deque()
        self._waiting: deque[Signal] = deque()
        self._closed = False
        self._failure: Exception | None = None

    def put(self, items: Iterable[Item]) -> bool:
        """Add items, and wake as many of those who wait; False if it is closed and none was taken."""
        with self._lock:
            if self._closed:
                return False
            self._items.extend(items)
            woken = [self._waiting.popleft() for _ in range(min(len(self._items), len(self._waiting)))]
        for signal in woken:
            signal.set()
        return True

    def close(self, failure: Exception | None = None) -> list[Item]:
        """Take no more; gives back what nobody has asked for.

        With a `failure`, what is there is still handed out, and then the failure is raised.
        """
        with self._lock:
            self._closed = True
            left: list[Item] = []
            if failure is None:
                left.extend(self._items)
                self._items.clear()
            else:
                self._failure = failure
            woken = list(self._waiting)
            self._waiting.clear()
        for signal in woken:
            signal.set()
        return left

    async def get(self) -> Item | None:
        """The next item, when there is one; None when the mailbox is closed."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                if self._failure is not None:
                    raise copy.copy(self._failure)
                if self._closed:
                    return None
                signal = self._runtime.signal()
                self._waiting.append(signal)
            try:
                await signal.wait()
            except BaseException:
                self._stop_waiting(signal)
                raise

    def _stop_waiting(self, signal: Signal) -> None:
        heir = None
        with self._lock:
            if signal in self._waiting:
                self._waiting.remove(signal)
            elif self._items and self._waiting:
                # It was woken for an item that it will not take now: another one must.
                heir = self._waiting.popleft()
        if heir is not None:
            heir.set()
