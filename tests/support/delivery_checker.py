"""The fate of every message of a run: a checker after Jepsen's total queue.

It knows nothing of servers and processes, only facts. Delivery is at least once: that a message was
delivered again is counted, and no fault. These are faults:

lost         acknowledged or delivered once, without a lease now, and no call can have deleted it
resurrected  delivered under a lease that began after its deletion was acknowledged, or still there
doubled      in two hands at once: delivered twice under one lease, or under two that overlap invented
delivered, and never sent, or refused when it was copied       one attempt to send has become two
messages altered      another body than the one that was sent, or one id for two messages
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.support.ledger import (
    Deleted,
    Deleting,
    Delivery,
    Fact,
    Kept,
    Published,
    Received,
    Refused,
    Releasing,
    Seen,
    Sending,
    Sent,
)

FAULTS: Final = ("lost", "resurrected", "doubled", "invented", "copied", "altered")
_SHOWN: Final = 5
_TICK_MS: Final = 1
"""A lease is timed by the monotonic clock and told by the wall clock, both in whole milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Ids by what became of them."""

    acknowledged: Set[str]
    delivered: Set[str]
    deleted: Set[str]
    """Deleted for certain: acknowledged."""
    redelivered: Set[str]
    """Delivered under more than one lease, which is allowed."""
    recovered: Set[str]
    """Delivered, though the answer to the send was never seen."""

    lost: Set[str]
    resurrected: Set[str]
    doubled: Set[str]
    invented: Set[str]
    copied: Set[str]
    altered: Set[str]

    bodies: Mapping[str, str]
    """The digest of each delivered copy's body."""

    @property
    def faults(self) -> dict[str, list[str]]:
        """Ids by fault, where there are any."""
        found = {fault: sorted(getattr(self, fault)) for fault in FAULTS}
        return {fault: ids for fault, ids in found.items() if ids}

    def __str__(self) -> str:
        counted = ("acknowledged", "delivered", "deleted", "redelivered", "recovered", *FAULTS)
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name in counted)
        shown = "; ".join(f"{fault}: {', '.join(ids[:_SHOWN])}" for fault, ids in self.faults.items())
        return f"{counts}{'; ' if shown else ''}{shown}"


def judge(facts: Iterable[Fact], *, left: Collection[str] = ()) -> Verdict:
    """Return the verdict on a run that has ended, with the messages `left` in the queue."""
    known = _Known()
    for fact in facts:
        known.learn(fact)
    return known.verdict(frozenset(left))


class _Known:
    """All facts, by what they are about."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.ids: dict[str, set[str]] = defaultdict(set)
        """Of each copy, acknowledged or seen. Of one that was sent again under a deduplication id, too,
        there is one."""
        self.acknowledged: set[str] = set()
        self.published: set[str] = set()
        """Copies."""
        self.refused: set[str] = set()
        self.deliveries: dict[str, list[Delivery]] = defaultdict(list)
        self.released: set[str] = set()
        self.asked: Counter[str] = Counter()
        """How many calls may have deleted an id: those that were answered with "no" are taken off."""
        self.deleted_at: dict[str, int] = {}
        """When the first deletion of an id was known to be acknowledged."""

    def learn(self, fact: Fact) -> None:
        match fact:
            case Sending(digests):
                self.digests.update(digests)
            case Sent(ids):
                self.acknowledged.update(ids.values())
                for copy, id in ids.items():
                    self.ids[copy].add(id)
            case Published(copies):
                self.published.update(copies)
            case Seen(copies_of):
                for id, copy in copies_of.items():
                    self.ids[copy].add(id)
            case Refused(copies):
                self.refused.update(copies)
            case Received(deliveries):
                for delivery in deliveries:
                    self.deliveries[delivery.id].append(delivery)
            case Releasing(receipts):
                self.released.update(receipts)
            case Deleting(_, ids):
                self.asked.update(ids)
            case Kept(_, ids):
                self.asked.subtract(ids)
            case Deleted(_, ids, at_ms):
                for id in ids:
                    self.deleted_at[id] = min(at_ms, self.deleted_at.get(id, at_ms))

    def verdict(self, left: frozenset[str]) -> Verdict:
        delivered = frozenset(self.deliveries)
        all_deliveries = [one for each in self.deliveries.values() for one in each]
        ids_of_copies = defaultdict(set, {copy: set(ids) for copy, ids in self.ids.items()})
        for delivery in all_deliveries:
            ids_of_copies[delivery.copy].add(delivery.id)
        # A published message never seen has no id; it counts, and is lost, by its copy's name.
        published = {id for copy in self.published for id in ids_of_copies.get(copy, {copy})}
        acknowledged = frozenset(self.acknowledged | published)
        return Verdict(
            acknowledged=acknowledged,
            delivered=delivered,
            deleted=frozenset(self.deleted_at),
            redelivered={
                id for id, each in self.deliveries.items() if len({one.receipt for one in each}) > 1
            },
            recovered=delivered - acknowledged,
            lost={id for id in acknowledged | delivered if self.asked[id] <= 0 and id not in left},
            resurrected={id for id in self.deleted_at if id in left or self._came_back(id)},
            doubled={id for id, each in self.deliveries.items() if self._overlap(each)},
            invented={
                one.id
                for one in all_deliveries
                if one.copy not in self.digests or one.copy in self.refused
            },
            copied={id for ids in ids_of_copies.values() if len(ids) > 1 for id in ids},
            altered=self._altered(all_deliveries),
            bodies={one.copy: one.digest for one in all_deliveries},
        )

    def _came_back(self, id: str) -> bool:
        # The clock counts milliseconds: events of the same one prove nothing.
        return any(one.began_ms > self.deleted_at[id] for one in self.deliveries.get(id, ()))

    def _overlap(self, deliveries: list[Delivery]) -> bool:
        in_order = sorted(deliveries, key=lambda one: (one.began_ms, one.due_ms))
        return any(
            one.receipt == next.receipt
            or (next.began_ms + _TICK_MS < one.due_ms and one.receipt not in self.released)
            for one, next in pairwise(in_order)
        )

    def _altered(self, deliveries: Iterable[Delivery]) -> set[str]:
        copies_of_ids: dict[str, set[str]] = defaultdict(set)
        altered = set()
        for copy, ids in self.ids.items():
            for id in ids:
                copies_of_ids[id].add(copy)
        for one in deliveries:
            copies_of_ids[one.id].add(one.copy)
            if one.digest != self.digests.get(one.copy, one.digest):
                altered.add(one.id)
        return altered | {id for id, copies in copies_of_ids.items() if len(copies) > 1}
