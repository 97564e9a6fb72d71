"""Limits of leases: how many there may be at a time, and how many may begin in a second, of a queue and
of each of its groups.

A rate is a token bucket: `burst` leases may begin at once, and one more after each 1 / `rate` s. The
buckets are in memory, and each process has its own: a start begins with full ones, and `n` processes
that serve one root begin up to `n` times the rate. The bounds on leases are exact, since each commit
knows the names of all processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

from ..model.clock import Millis
from ..model.settings import QueueSettings
from .deadlines import Deadlines

_LEASE: Final = 1_000_000
"""What one lease takes of a bucket. A millisecond brings the rate, in leases of a thousand seconds."""


class RateBucket:
    """The leases that may begin. Pure: the monotonic time is an argument. Not thread-safe."""

    __slots__ = ("_level", "_since", "burst", "rate")

    def __init__(self, rate: int, burst: int, now: Millis) -> None:
        self.rate, self.burst = rate, burst
        self._level, self._since = burst * _LEASE, now

    def be_set(self, rate: int, burst: int, now: Millis) -> None:
        """Apply the settings: what the former rate has brought stays, up to the burst."""
        if (rate, burst) != (self.rate, self.burst):
            self._fill(now)
            self.rate, self.burst = rate, burst
            self._level = min(self._level, burst * _LEASE)

    def _fill(self, now: Millis) -> None:
        brought = max(0, now - self._since) * self.rate
        self._level = min(self._level + brought, self.burst * _LEASE)
        self._since = max(now, self._since)

    def left(self, now: Millis) -> int:
        """Return how many leases may begin now."""
        self._fill(now)
        return max(0, self._level // _LEASE)

    def take(self, count: int, now: Millis) -> None:
        """Count leases that begin."""
        self._fill(now)
        self._level -= count * _LEASE

    def next(self, now: Millis) -> Millis:
        """Return when the next lease may begin."""
        self._fill(now)
        missing = max(0, _LEASE - self._level)
        return Millis(now - (-missing // self.rate))

    def is_full(self, now: Millis) -> bool:
        """Return whether nothing is known of it that a new one wouldn't know."""
        self._fill(now)
        return self._level >= self.burst * _LEASE


class QueueLimits:
    """The limits of one queue. Not thread-safe."""

    def __init__(self) -> None:
        self.now = Millis(0)
        """Monotonic, of the present look."""
        self.max_leased = self.group_max_leased = 0
        self._rate: RateBucket | None = None
        self._group_rate = self._group_burst = 0
        self._groups: dict[str, RateBucket] = {}
        self._full = Deadlines[str]()
        """When the buckets of groups may be full, and are dropped."""
        self._waiting_groups = Deadlines[str]()
        """Groups that wait for their rate, and until when."""
        self._commit = self._begun = 0
        """How many leases a commit has begun whose names haven't moved yet."""

    def be_set(self, settings: QueueSettings, now: Millis) -> None:
        """Apply the settings at the monotonic time `now`."""
        self.now = now
        self.max_leased, self.group_max_leased = settings.max_leased, settings.group_max_leased
        if not settings.rate:
            self._rate = None
        elif self._rate is None:
            self._rate = RateBucket(settings.rate, settings.rate_burst, now)
        else:
            self._rate.be_set(settings.rate, settings.rate_burst, now)
        group_rate = settings.group_rate, settings.group_rate_burst
        if group_rate != (self._group_rate, self._group_burst):
            self._group_rate, self._group_burst = group_rate
            for bucket in self._groups.values():
                if self._group_rate:
                    bucket.be_set(*group_rate, now)
            if not self._group_rate:
                self._groups.clear()
                self._full.clear()
        while (group := self._full.pop(now)) is not None:
            if self._groups[group].is_full(now):
                del self._groups[group]
            else:
                self._full.set(group, self._when_full())

    def _when_full(self) -> Millis:
        return Millis(self.now - (-self._group_burst * _LEASE // self._group_rate))

    @property
    def of_groups(self) -> tuple[int, int, int] | None:
        """The limits of each group; None: there are none."""
        if not self.group_max_leased and not self._group_rate:
            return None
        return self.group_max_leased, self._group_rate, self._group_burst

    def pop_due_groups(self) -> Iterator[str]:
        """Remove and yield the groups for which the rate lets a lease begin again."""
        while (group := self._waiting_groups.pop(self.now)) is not None:
            yield group

    def room(self, leased: int, commit: int) -> float:
        """Return how many leases of the queue, which has so many, may begin in a commit."""
        left: float = inf
        if self.max_leased:
            left = self.max_leased - leased - (self._begun if self._commit == commit else 0)
        if self._rate is not None:
            left = min(left, self._rate.left(self.now))
        return max(0, left)

    def begin(self, count: int, commit: int) -> None:
        """Count leases that begin."""
        self._begun = count if self._commit != commit else self._begun + count
        self._commit = commit
        if self._rate is not None:
            self._rate.take(count, self.now)

    def next(self) -> Millis | None:
        """Return the monotonic time at which the rate lets a lease of the queue begin; None: it does
        now."""
        if self._rate is None or self._rate.left(self.now):
            return None
        return self._rate.next(self.now)

    def next_of_any(self) -> Millis | None:
        """Return the monotonic time at which a rate lets a lease begin that it held back; None: it
        holds back none."""
        times = [time for time in (self.next(), self._waiting_groups.next()) if time is not None]
        return min(times, default=None)

    def group_room(self, group: str, leased: int, begun: int) -> float:
        """Return how many leases of a group may begin, which has so many, and has `begun` others."""
        left: float = self.group_max_leased - leased - begun if self.group_max_leased else inf
        if self._group_rate:
            bucket = self._groups.get(group)
            tokens = self._group_burst if bucket is None else bucket.left(self.now)
            if not tokens and bucket is not None:
                self._waiting_groups.set(group, bucket.next(self.now))
            left = min(left, tokens)
        return max(0, left)

    def begin_in_group(self, group: str, count: int) -> None:
        """Count leases of a group that begin."""
        if not self._group_rate:
            return
        bucket = self._groups.get(group)
        if bucket is None:
            bucket = RateBucket(self._group_rate, self._group_burst, self.now)
            self._groups[group] = bucket
            self._full.set(group, self._when_full())
        bucket.take(count, self.now)

    def next_of_group(self, group: str) -> Millis | None:
        """Return the monotonic time at which its rate lets a lease of a group begin; None: it does
        now."""
        bucket = self._groups.get(group)
        return None if bucket is None or bucket.left(self.now) else bucket.next(self.now)
