"""Deadlines: the keys of what waits for a time, the next one first.

A heap, in which the entry of a key that was removed or has another time by now stays behind. Such
entries are half of the heap at most. Pure: a time is a number, and the caller says what time it is.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from ..model.clock import Millis

Key = TypeVar("Key", str, tuple[str, int], tuple[int, str])

_FEW: Final = 64


class Deadlines(Generic[Key]):
    """Keys, each with a time. Each call costs the logarithm of their number. Not thread-safe."""

    __slots__ = ("_heap", "times")

    def __init__(self) -> None:
        self.times: dict[Key, Millis] = {}
        """The time of each key. It is only read."""
        self._heap: list[tuple[Millis, Key]] = []

    def set(self, key: Key, time: Millis) -> None:
        """Add a key, or change its time."""
        self.times[key] = time
        heappush(self._heap, (time, key))
        if len(self._heap) > 2 * len(self.times) + _FEW:
            heap = [(time, key) for key, time in self.times.items()]
            heapify(heap)
            self._heap = heap  # Once it is one: `earliest` is asked in any thread.

    def discard(self, key: Key) -> None:
        """Remove a key, if it is there."""
        self.times.pop(key, None)
        if not self.times:
            self._heap.clear()

    def clear(self) -> None:
        """Remove all keys."""
        self.times.clear()
        self._heap.clear()

    @property
    def earliest(self) -> Millis | None:
        """A time before or at that of the next key; None if there are no keys. In any thread."""
        first = self._heap[:1]
        return first[0][0] if first else None

    def next(self) -> Millis | None:
        """Return the time of the next key; None if there are no keys."""
        while self._heap:
            time, key = self._heap[0]
            if self.times.get(key) == time:
                return time
            heappop(self._heap)
        return None

    def pop(self, now: Millis) -> Key | None:
        """Remove and return the next key whose time has come; None if there is none."""
        time = self.next()
        if time is None or time > now:
            return None
        key = heappop(self._heap)[1]
        del self.times[key]
        return key
