"""Clocks, and texts of times and spans. Time is an argument everywhere else.

Two clocks are needed. The wall clock goes into names, where another process, another host or a
restart must be able to read it. The monotonic clock decides, in memory, when something is due, so
that a step of the wall clock neither ends a lease early nor freezes it. Nothing else in the store
reads a clock.
"""

from __future__ import annotations

import logging
import threading
import time
from calendar import timegm
from typing import Final, NewType, Protocol

log = logging.getLogger(__name__)

Millis = NewType("Millis", int)
"""A span of time, or a Unix time, in milliseconds."""

SECOND = Millis(1_000)
MINUTE = Millis(60_000)
HOUR = Millis(3_600_000)
DAY = Millis(86_400_000)

_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
"""The units of a span in texts, the largest first."""

JUMP: Final = HOUR
"""A wall clock that gains more on the monotonic one between two commits has jumped ahead."""

LAST_MOMENT = Millis(10**13 - 1)
"""The last Unix time that a name has room for, in the year 2286."""


_NANOS = 1_000_000
"""In a millisecond."""


def span_text(span: int) -> str:
    """Return a span of milliseconds in the largest unit that it is a whole number of: "13 h", "1500
    ms"."""
    if span == 0:
        return "0 s"
    for length, unit in _UNITS:
        if span % length == 0:
            return f"{span // length} {unit}"
    return f"{span} ms"


def day_of(moment: Millis) -> str:
    """Return the day of a Unix time in UTC: "2026-11-23"."""
    return time.strftime("%Y-%m-%d", time.gmtime(moment // SECOND))


def second_text(second: int) -> str:
    """Return a Unix time in seconds as RFC 3339 writes it, in UTC: "2026-11-23T10:00:00Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def end_of_day(text: str) -> Millis | None:
    """Return the Unix time at which a day of `day_of` ends; None for another text."""
    try:
        begin = Millis(timegm(time.strptime(text, "%Y-%m-%d")) * SECOND)
    except ValueError:
        return None
    return Millis(begin + DAY) if day_of(begin) == text else None


stopwatch: Final = time.perf_counter
"""Returns the seconds since an arbitrary moment, to measure a duration: no promise depends on it."""


class Clock(Protocol):
    """The time, and waits. Thread-safe."""

    def wall(self) -> Millis:
        """Unix time, which an operator or NTP may step in either direction."""

    def monotonic(self) -> Millis:
        """Time since an unknown moment, which never steps and never goes back. It goes on while the
        machine is suspended, where the system has such a clock."""

    def wait(self, condition: threading.Condition, until: Millis | None) -> None:
        """Wait, with `condition` held, until it is notified or the monotonic time `until` has come.

        With no `until`, wait for the notification alone. May return early: check and wait again.
        """


class CommitClock:
    """A clock that stands still during a commit: all of its work shares one reading of each clock.

    Two readings for one event may differ, and then what they lead to contradicts itself: a lease that
    begins after the record that says when it was made looks like another reader's. Outside a commit it
    is the clock below. Other threads may read it: what they learn is as old as the commit under way.

    What is removed for its age is removed by time that has been seen to pass, `proven_wall`: a wall
    clock that jumps ahead makes everything old at once, and what is removed then is missed when it is
    right again. The first reading is believed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: tuple[Millis, Millis] | None = None
        self._proven, self._read_at = clock.wall(), clock.monotonic()
        self._jumped_at = Millis(0)
        """Monotonic."""
        self.jump = Millis(0)
        """How far the wall clock is ahead of the time that has passed, if it has jumped."""

    def hold(self) -> None:
        """Stand still until `release`."""
        # In this order: a lease may end later than its consumer knows, and never earlier.
        self._held = wall, now = self._clock.wall(), self._clock.monotonic()
        self._proven, self._read_at = Millis(self._proven + now - self._read_at), now
        jump = Millis(wall - self._proven)
        if jump > JUMP:
            if abs(jump - self.jump) > JUMP:
                self._jumped_at = now
                log.warning(
                    "the wall clock has jumped ahead by %s: set it right, or nothing is removed for "
                    "its age before the clock has stood for a day",
                    span_text(jump - jump % SECOND),
                )
            if now - self._jumped_at < DAY:
                self.jump = jump
                return
        if self.jump:
            log.warning("the wall clock is believed again: what is too old by it is removed")
        self._proven, self.jump = wall, Millis(0)

    def proven_wall(self) -> Millis:
        """Return the Unix time by which what is too old is removed: without a jump ahead of the last
        day."""
        if self._held is not None:
            return self._proven
        return Millis(self._proven + self._clock.monotonic() - self._read_at)

    def release(self) -> None:
        self._held = None

    def wall(self) -> Millis:
        held = self._held
        return self._clock.wall() if held is None else held[0]

    def monotonic(self) -> Millis:
        held = self._held
        return self._clock.monotonic() if held is None else held[1]

    def wait(self, condition: threading.Condition, until: Millis | None) -> None:
        self._clock.wait(condition, until)


_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's boot time goes on while the machine is suspended; the monotonic clock stands still there."""
LONGEST_WAIT: Final = SECOND
"""Waits count the monotonic clock: after a suspension what is due is looked at so soon."""


class SystemClock:
    """The machine's own clocks, whose milliseconds begin together.

    A lease ends at a wall time that its consumer knows and, in memory, at a monotonic time. If one
    clock's millisecond began in the midst of the other's, the lease could end a little before the time
    that its consumer knows, and two consumers would hold one message for that moment.
    """

    def __init__(self) -> None:
        # In this order: the monotonic clock may lag by what lies between the calls, and never lead.
        wall = time.time_ns()
        self._phase = (wall - time.clock_gettime_ns(_ELAPSED)) % _NANOS

    def wall(self) -> Millis:
        return Millis(time.time_ns() // _NANOS)

    def monotonic(self) -> Millis:
        return Millis((time.clock_gettime_ns(_ELAPSED) + self._phase) // _NANOS)

    def wait(self, condition: threading.Condition, until: Millis | None) -> None:
        if until is None:
            condition.wait()
            return
        # One millisecond more: the clock above rounds down, and to wake before the moment is to spin.
        left = until - self.monotonic() + 1
        if left > 0:
            condition.wait(min(left, LONGEST_WAIT) / 1_000)
