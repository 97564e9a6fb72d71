"""Counts and measures of the store: plain numbers.

Knows no format and no reader. Each number has one writer, and readers in other threads see it a moment
late at most. Counts of messages cost one addition for all messages of a request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .clock import Millis, stopwatch
from .errors import StoreError
from .message_ids import sent_at
from .operations import Delete, Outcome, Purge, Receive, Request, Unfinished
from .reservation_requests import Reservation, Reserve
from .shards import Shard

SECONDS: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""Upper ends of the ranges in which spans of time are counted."""
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0, 20_000.0)
"""The same for how many there were at once."""


class Histogram:
    """Counts of values by range, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are upper ends, which belong to their ranges; beyond the last there is one more."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Statistics:
    """The work of one store since it was opened."""

    def __init__(self, watch: Callable[[], float] = stopwatch) -> None:
        """`watch` returns seconds. It decides whether syncs run at once, and nothing else."""
        self.watch = watch
        self.commits = Histogram(SECONDS)
        """Seconds from the first change of a commit to its answers."""
        self.requests = Histogram(SIZES)
        """Requests that were answered by one commit."""
        self.syncs = Histogram(SECONDS)
        """Seconds that a sync took which succeeded."""
        self.failed_syncs = 0
        self.messages: dict[str, dict[str, int]] = {}
        """By queue and what was done: so many messages."""

    def count(self, queue: str, what: str, messages: int) -> None:
        if messages:
            counts = self.messages.get(queue)
            if counts is None:
                counts = self.messages[queue] = {}
            counts[what] = counts.get(what, 0) + messages

    def commit(
        self, requests: Sequence[Request[Any]], outcomes: Sequence[Outcome], began: float
    ) -> None:
        """Count a commit from its start to its answers.

        One addition for each request, none for a message. All else is counted where a file moves:
        `send`, `requeue`, `expire`, `dead_letter`, `publish`, `commit` and `redrive`.
        """
        if not requests:
            return
        self.commits.observe(self.watch() - began)
        self.requests.observe(len(requests))
        for request, outcome in zip(requests, outcomes, strict=True):
            if not isinstance(outcome, StoreError | Unfinished):
                self._answered(request, outcome)

    def _answered(self, request: Request[Any], outcome: Outcome) -> None:
        if isinstance(request, Receive):
            messages = 0
            for each in outcome:
                messages += len(each.ids)
            self.count(request.queue, "receive", messages)
        elif isinstance(request, Delete):
            self.count(request.queue, "delete", outcome.count(None))
        elif isinstance(request, Purge):
            self.count(request.queue, "purge", outcome)
        elif isinstance(request, Reserve) and isinstance(outcome, Reservation) and outcome.is_new:
            self.count(request.queue, "reserve", outcome.message_count)

    def keep_only(self, queues: Container[str]) -> None:
        """Drop the counts of all queues but these, so that deleted queues take no memory."""
        for queue in [queue for queue in list(self.messages) if queue not in queues]:
            self.messages.pop(queue, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMetrics:
    """The counts of a queue at the end of a commit, with all that was answered until then."""

    name: str
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    bytes: int = 0
    """Of bodies and attributes; without those of batches that weren't listed yet."""
    first_ready: str = ""
    """The id of the oldest message that is ready; "": none is."""
    oldest_ready_receives: int = 0
    """How often it was received before."""
    first: str = ""
    """The id of the oldest message that is ready or leased."""
    receives: int = 0
    """How often that was received."""
    entered: int = 0
    """Messages that this process brought into the queue, as in `Traffic`."""
    left: int = 0
    """Messages that this process deleted, let expire or moved away."""

    @property
    def oldest_ready(self) -> Millis | None:
        """Unix time at which the oldest message that is ready was sent; None: none is."""
        return sent_at(self.first_ready) if self.first_ready else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootMetrics:
    """The metrics of a root, without those of its queues."""

    id: str
    """Its identity."""
    shard: Shard | None
    """Which shard it is; None: it is none."""
    queues: int
    quarantined: int
    """Files and folders put into quarantine since the start."""
    unlinked: int
    """Messages unlinked since the start."""
    to_be_unlinked: int
    """Files whose messages are all deleted, and that wait here for the reaper."""
    overdue: Millis
    """How long ago the first one should have been brought back of what is hidden; 0: nothing should."""
    clock_jump: Millis
    """How far the wall clock is ahead of the time that has passed, if it has jumped in the last day."""
    deduplication_keys: int
    reservations_held: int
    reservations_lost: int
    redrives: int
    """Those that this process drives."""
    dead_letter_queues: frozenset[str]
    """Those that others name as theirs."""
    stages: int | None
    """None: other processes may make some, and the store hasn't looked."""
    waiting: int
    """Receives that wait for a message."""
    failed: bool
    """Nothing is promised any more before a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The ready messages of one queue by age."""

    counts: tuple[int, ...]
    """The youngest first: those younger than the first bound, and so on; the last: older than all.
    Each age is told to an eighth of a second; the sum is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that has the root open, or died with it open a moment ago."""

    name: str
    about: str
    """Its process id and its host, in its own words."""
    is_me: bool
