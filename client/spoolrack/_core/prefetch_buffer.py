"""Prefetch buffer: items from one producer for waiting threads or tasks, in order.

Knows nothing of the items. It has no bound of its own: the producer's credits bound it.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from .._runtime import Runtime, Signal
from ..errors import SpoolrackError

Item = TypeVar("Item")


class PrefetchBuffer(Generic[Item]):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._items: deque[Item] = deque()
        self._waiters: deque[tuple[Signal, int]] = deque()
        """Signals of the waiters, and how many items each takes."""
        self._closed = False
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Item]:
        """Return the items that no waiter has taken, without taking them."""
        with self._lock:
            return list(self._items)

    @property
    def has_news(self) -> bool:
        """Whether `get_many` returns or raises at once."""
        return bool(self._items) or self._closed

    def put(self, items: Iterable[Item]) -> bool:
        """Add items, and wake as many waiters; False if the buffer is closed and took none."""
        with self._lock:
            if self._closed:
                return False
            self._items.extend(items)
            woken = self._to_be_woken()
        for signal in woken:
            signal.set()
        return True

    def _to_be_woken(self) -> list[Signal]:
        """Return the signals of as many waiters as it takes for all items. With the lock held."""
        woken: list[Signal] = []
        left = len(self._items)
        while left > 0 and self._waiters:
            signal, most = self._waiters.popleft()
            woken.append(signal)
            left -= most
        return woken

    def close(self, failure: Exception | None = None) -> list[Item]:
        """Accept no more items; return those that no waiter has taken.

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
            woken = [signal for signal, _ in self._waiters]
            self._waiters.clear()
        for signal in woken:
            signal.set()
        return left

    async def get_many(self, most: int, deadline: float | None = None) -> list[Item]:
        """Return up to `most` items, as soon as there is one; none when the buffer is closed, or at
        `deadline`, of the runtime's monotonic clock."""
        while True:
            with self._lock:
                if self._items:
                    take = self._items.popleft
                    return [take() for _ in range(min(most, len(self._items)))]
                if self._failure is not None:
                    raise _again(self._failure)
                if self._closed:
                    return []
                signal = self._runtime.signal()
                self._waiters.append((signal, most))
            left = None if deadline is None else deadline - self._runtime.monotonic()
            try:
                came = await signal.wait(left) if left is None or left > 0 else False
            except BaseException:
                self._stop_waiting(signal)
                raise
            if not came:
                self._stop_waiting(signal)
                return []

    def _stop_waiting(self, signal: Signal) -> None:
        with self._lock:
            waited = len(self._waiters)
            self._waiters = deque(each for each in self._waiters if each[0] is not signal)
            # If it was woken, it was for what it will not take now: others must.
            woken = [] if len(self._waiters) < waited else self._to_be_woken()
        for waiter in woken:
            waiter.set()


def _again(failure: Exception) -> Exception:
    """Copy the failure for one of many threads: one exception raised by all would mix their tracebacks.
    A defect is raised as it is, with its traceback."""
    return copy.copy(failure) if isinstance(failure, SpoolrackError) else failure
