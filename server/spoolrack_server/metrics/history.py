"""An hour of each queue's metrics, one sample every ten seconds, for the dashboard's charts.

Memory is bounded: 24 bytes a sample, `SLOTS` samples a queue, `MOST_QUEUES` queues, 8.3 MiB in all.
With more queues than that, the queue that has been idle longest gives its place to one that isn't idle.
A restart begins the history anew. The counts are of the root. The rates are of this process alone, so
`combined` adds up the processes of one server.

Knows no clock and no store: both come with each sample. Not thread-safe.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.statistics import QueueMetrics

EVERY: Final = Millis(10_000)
"""From one sample to the next. A sample belongs to the slot of this length in which it was taken."""
SLOTS: Final = 360
"""An hour."""
MOST_QUEUES: Final = 1_000
TREND: Final = 30
"""Points of a trend, two minutes each."""
_LARGEST: Final = 2**32 - 1
"""A larger number is kept as this one."""

COUNTS: Final = ("ready", "leased", "delayed", "oldest")
"""Kept of each queue: messages by state, and the age in seconds of the oldest that is ready."""
RATES: Final = ("entered", "left")
"""Kept of each queue: messages since the sample before; shown as messages a second."""

Series = dict[str, Any]
"""`first`, the slot of the first value; `every`, the length of a slot in milliseconds; and for each of
`COUNTS` and `RATES` a list of values, None where there is no sample."""


class _Ring:
    """The samples of one queue."""

    __slots__ = ("active", "began", "values")

    def __init__(self, slot: int) -> None:
        self.began = slot
        self.active = slot
        """The last slot in which the queue held a message, or one came or went."""
        self.values = {name: array("I", bytes(4 * SLOTS)) for name in (*COUNTS, *RATES)}


class History:
    def __init__(self, most: int = MOST_QUEUES) -> None:
        self._most = most
        self._rings: dict[str, _Ring] = {}
        """By queue, the one that is idle longest first."""
        self._totals: dict[str, tuple[int, int]] = {}
        """Totals entered and left of all queues at the last sample, kept or not."""
        self._slots = array("q", [-1]) * SLOTS
        """By place: which slot was sampled there last."""
        self._spans = array("I", bytes(4 * SLOTS))
        """By place: milliseconds since the sample before, 0 if there was none."""
        self._last: int | None = None
        self._sampled_at = Millis(0)

    @property
    def bytes(self) -> int:
        """Return the memory of the samples."""
        return sum(
            len(values) * values.itemsize
            for ring in self._rings.values()
            for values in ring.values.values()
        )

    def sample(self, metrics: Iterable[QueueMetrics], wall: Millis, monotonic: Millis) -> None:
        """Keep the metrics of all queues; a second sample in one slot is dropped.

        A wall clock that is set back by more than a slot begins the history anew.
        """
        slot = wall // EVERY
        if self._last is not None and self._last - 1 <= slot <= self._last:
            return
        if self._last is not None and slot < self._last:
            self._rings.clear()
            self._slots = array("q", [-1]) * SLOTS
            self._last = None
        is_first, place = self._last is None, slot % SLOTS
        totals: dict[str, tuple[int, int]] = {}
        without_ring: list[tuple[QueueMetrics, int, int]] = []
        for queue in metrics:
            totals[queue.name] = (queue.entered, queue.left)
            before = (queue.entered, queue.left) if is_first else self._totals.get(queue.name, (0, 0))
            entered, left = _since(queue.entered, before[0]), _since(queue.left, before[1])
            ring = self._rings.get(queue.name)
            if ring is None and len(self._rings) < self._most:
                ring = self._rings[queue.name] = _Ring(slot)
            if ring is None:
                without_ring.append((queue, entered, left))
            else:
                _store_sample(ring, place, slot, queue, entered, left, wall)
                if ring.active == slot:
                    self._rings[queue.name] = self._rings.pop(queue.name)
        for name in [name for name in self._rings if name not in totals]:
            del self._rings[name]
        for queue, entered, left in without_ring:
            ring = self._make_room(queue.name, slot) if _is_busy(queue, entered, left) else None
            if ring is not None:
                _store_sample(ring, place, slot, queue, entered, left, wall)
        self._totals = totals
        self._slots[place] = slot
        self._spans[place] = 0 if is_first else min(_LARGEST, max(1, monotonic - self._sampled_at))
        self._last, self._sampled_at = slot, monotonic

    def _make_room(self, queue: str, slot: int) -> _Ring | None:
        """Return a ring for `queue` in the place of the one that is idle longest; None: no queue is
        idle."""
        if len(self._rings) >= self._most:
            idle = next(iter(self._rings), None)
            if idle is None or self._rings[idle].active == slot:
                return None
            del self._rings[idle]
        ring = self._rings[queue] = _Ring(slot)
        return ring

    def of(self, queue: str) -> Series | None:
        """Return the last hour of a queue up to the last sample; None if it isn't kept."""
        ring = self._rings.get(queue)
        if ring is None or self._last is None:
            return None
        slots = range(max(ring.began, self._last - SLOTS + 1), self._last + 1)
        series: Series = {"first": slots[0], "every": EVERY}
        for name in COUNTS:
            values = ring.values[name]
            series[name] = [values[s % SLOTS] if self._slots[s % SLOTS] == s else None for s in slots]
        for name in RATES:
            values = ring.values[name]
            series[name] = [
                round(values[s % SLOTS] * 1_000 / self._spans[s % SLOTS], 3)
                if self._slots[s % SLOTS] == s and self._spans[s % SLOTS]
                else None
                for s in slots
            ]
        return series

    def trends(self, queues: Iterable[str]) -> dict[str, list[int | None]]:
        """Return the maximum of ready messages in each thirtieth of the hour; without queues that had
        none."""
        if self._last is None:
            return {}
        width = SLOTS // TREND
        first = self._last - SLOTS + 1
        places = [
            [s % SLOTS for s in range(start, start + width) if self._slots[s % SLOTS] == s]
            for start in range(first, self._last, width)
        ]
        by_queue = {}
        for name in queues:
            ring = self._rings.get(name)
            if ring is not None:
                ready = ring.values["ready"]
                trend = [max((ready[place] for place in part), default=None) for part in places]
                if any(trend):
                    by_queue[name] = trend
        return by_queue


def combined(series: Series | None, others: Mapping[int, Series | None]) -> Series:
    """Return the hour of one queue in one server of several processes.

    Counts are this process's, and another's where this one has no sample, as all see the same root.
    Rates are added up. `partial_before` is the slot before which a process was not there to count, or
    None; `silent` are the processes that did not answer (None), whose rates are missing throughout.
    """
    silent = sorted(number for number, answer in others.items() if answer is None)
    answers = [answer for answer in (series, *others.values()) if answer]
    if not answers:
        return {"is_kept": False, "silent": silent}
    starts = [answer["first"] for answer in answers]
    slots = range(min(starts), max(answer["first"] + len(answer["ready"]) for answer in answers))
    hour: Series = {"is_kept": True, "silent": silent, "first": slots[0], "every": EVERY}
    hour["partial_before"] = max(starts) if max(starts) > slots[0] else None
    for name in (*COUNTS, *RATES):
        by_slot = [
            [value for answer in answers if (value := _at(answer, name, slot)) is not None]
            for slot in slots
        ]
        if name in COUNTS:
            hour[name] = [values[0] if values else None for values in by_slot]
        else:
            hour[name] = [round(sum(values), 3) if values else None for values in by_slot]
    return hour


def _store_sample(
    ring: _Ring,
    place: int,
    slot: int,
    queue: QueueMetrics,
    entered: int,
    left: int,
    wall: Millis,
) -> None:
    values = ring.values
    age = 0 if queue.oldest_ready is None else max(0, wall - queue.oldest_ready) // 1_000
    for name, value in zip(
        (*COUNTS, *RATES), (queue.ready, queue.leased, queue.delayed, age, entered, left), strict=True
    ):
        values[name][place] = min(value, _LARGEST)
    if _is_busy(queue, entered, left):
        ring.active = slot


def _is_busy(queue: QueueMetrics, entered: int, left: int) -> bool:
    return bool(queue.ready or queue.leased or queue.delayed or entered or left)


def _since(total: int, before: int) -> int:
    """Return the increase since; a total that fell belongs to a new queue of the same name."""
    return total - before if total >= before else total


def _at(series: Series, name: str, slot: int) -> float | None:
    at = slot - series["first"]
    values: Sequence[float | None] = series[name]
    return values[at] if 0 <= at < len(values) else None
