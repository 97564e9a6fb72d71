"""A clock that a test moves, so that all rules about time are tested without a sleep.

Give a `ManualClock` to whatever takes a `Clock`. It stands still until the test advances it, so a
test that waits for something which never comes hangs until the test's own time limit.
"""

from __future__ import annotations

import threading
from typing import Final

from .model.clock import Clock, Millis

_SOME_DAY: Final = Millis(1_700_000_000_000)
_SOME_UPTIME: Final = Millis(1_000_000)


class ManualClock(Clock):
    """A clock that stands still until it is moved. Thread-safe.

    Locks: a waiter takes the clock's own lock while it holds its condition, never the other way round.
    `advance` and `step_wall` may therefore be called with any condition held, also one on which a
    thread waits here: it is woken once the condition is free.

    With `ticks` both clocks go on by a millisecond at each reading, which wakes no waiter. So two
    readings for one event differ, as they may on a real clock. Without them a test knows exact times.
    """

    def __init__(
        self, wall: Millis = _SOME_DAY, monotonic: Millis = _SOME_UPTIME, *, ticks: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self.ticks = ticks
        self._wall = wall
        self._monotonic = monotonic
        self._waiters: list[threading.Condition] = []

    def wall(self) -> Millis:
        with self._lock:
            self._wall = Millis(self._wall + self.ticks)
            self._monotonic = Millis(self._monotonic + self.ticks)
            return self._wall

    def monotonic(self) -> Millis:
        with self._lock:
            self._wall = Millis(self._wall + self.ticks)
            self._monotonic = Millis(self._monotonic + self.ticks)
            return self._monotonic

    def wait(self, condition: threading.Condition, until: Millis | None) -> None:
        """Wait, with `condition` held, until it is notified or the clock is advanced, however little.

        Returns at once if the monotonic time `until` has come. No real time ends the wait.
        """
        with self._lock:
            if until is not None and until <= self._monotonic:
                return
            self._waiters.append(condition)
        # An advance that falls between these lines can't be missed: it wakes with the condition held,
        # and we hold that until we wait.
        try:
            condition.wait()
        finally:
            with self._lock:
                self._waiters.remove(condition)

    def advance(self, millis: int) -> None:
        """Move both clocks forward, and wake all waiting threads.

        Returns before the waiters have done anything. Raises `ValueError` for a negative span.
        """
        if millis < 0:
            raise ValueError(f"time can't go back by {-millis} ms: step_wall sets the wall clock back")
        with self._lock:
            self._wall = Millis(self._wall + millis)
            self._monotonic = Millis(self._monotonic + millis)
            waiting = set(self._waiters)
        for condition in waiting:
            _wake(condition)

    def step_wall(self, millis: int) -> None:
        """Move the wall clock alone, either way, as an operator or NTP does. Wakes no thread."""
        with self._lock:
            self._wall = Millis(self._wall + millis)


def _wake(condition: threading.Condition) -> None:
    if condition.acquire(blocking=False):
        _notify_and_release(condition)
        return
    # It is held: for a moment, or until our own thread goes on, or by our own thread.
    threading.Thread(target=_wake_later, args=(condition,), name="manual-clock", daemon=True).start()


def _wake_later(condition: threading.Condition) -> None:
    condition.acquire()
    _notify_and_release(condition)


def _notify_and_release(condition: threading.Condition) -> None:
    try:
        condition.notify_all()
    finally:
        condition.release()
