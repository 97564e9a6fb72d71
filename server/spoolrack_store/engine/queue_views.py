"""Views of queues: their settings, and their metrics as of the last commit.

Oldest leases, ages and the messages that a group blocks can't be counted in constant time: those are
looked up while no commit changes the index, in time that doesn't grow with what waits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final

from ..model.clock import Millis
from ..model.members import lowest
from ..model.message_ids import sent_at
from ..model.operations import (
    OLDEST_LEASES,
    BlockingMessage,
    Counts,
    Obstacle,
    OldLease,
    Queue,
    Traffic,
)
from ..model.reservation_requests import Reservation
from ..model.statistics import Ages, QueueMetrics
from ..model.transitions import State
from .catalog import Catalog, QueueRecord
from .entries import Entry
from .lease_limits import QueueLimits
from .moves import Moves

GROUPS_SHOWN: Final = 3
"""Groups at their limits that are named."""
MANY_RECEIVES: Final = 3
"""The oldest message is said to block its queue after so many receives."""


class QueueViews:
    """The read-only views of queues. Thread-safe, but for `described` and `ages`."""

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        limits_of: Callable[[QueueRecord], QueueLimits | None] = lambda record: None,
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._limits_of = limits_of

    def metrics(self, name: str) -> QueueMetrics:
        """Return the metrics of a queue. In any thread."""
        return self._moves.index.metrics.get(name) or QueueMetrics(name=name)

    def queue(self, record: QueueRecord) -> Queue:
        """Return a queue as of the last commit. In any thread."""
        metrics = self.metrics(record.name)
        return Queue(
            name=record.name,
            settings=record.settings,
            created_at=record.created_at,
            version=record.version,
            labels=record.labels,
            counts=Counts(
                ready_count=metrics.ready,
                leased_count=metrics.leased,
                delayed_count=metrics.delayed,
                byte_count=metrics.bytes,
                oldest=sent_at(metrics.first) if metrics.first else None,
            ),
            blocking_message=self._blocking(record, metrics),
            traffic=Traffic(entered=metrics.entered, left=metrics.left),
        )

    def described(
        self,
        record: QueueRecord,
        reservations: Mapping[str, Reservation],
        staged: tuple[int, int] = (0, 0),
        *,
        is_disk_full: bool,
    ) -> Queue:
        """Return a queue with its obstacles and its oldest leases, which are those of the oldest
        messages. `reservations` are by the tokens of their leases; `staged` are the messages and bytes
        that are staged for the queue."""
        queue = self.queue(record)
        oldest: list[Entry] = []
        if queue.counts.leased_count:
            leased = self._moves.index.queue(record.name).orders[State.LEASED]
            oldest = list(islice(leased, OLDEST_LEASES))
        leases = (
            lease for entry in oldest for lease in _leases_of(entry, reservations.get(entry.name.token))
        )
        return replace(
            queue,
            obstacles=self._obstacles(queue, list(reservations.values()), staged, is_disk_full),
            oldest_leases=list(islice(leases, OLDEST_LEASES)),
        )

    def with_obstacles(
        self, queue: Queue, staged: tuple[int, int] = (0, 0), *, is_disk_full: bool
    ) -> Queue:
        """Return a view of a queue without leases, reservations and strict groups with its
        obstacles. In any thread."""
        return replace(queue, obstacles=self._obstacles(queue, (), staged, is_disk_full))

    def queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        """Return up to `limit` queues by name, above the name `after`. In any thread."""
        records = self._catalog.listing()
        first = bisect_left(records, prefix, key=_NAME_OF)
        start = max(first, bisect_right(records, after, key=_NAME_OF))
        return [
            self.queue(record)
            for record in records[start : start + limit]
            if record.name.startswith(prefix)
        ]

    def ages(self, name: str, bounds: Sequence[Millis]) -> Ages | None:
        """Return a queue's ready messages by age; None if there is no such queue."""
        if name not in self._catalog.records:
            return None
        index, now = self._moves.index.queue(name), self._moves.clock.wall()
        older = [index.ready_by_age.before(now - bound) for bound in bounds]
        counts = [more - less for more, less in pairwise([index.counts[State.READY], *older, 0])]
        return Ages(counts=tuple(counts))

    def _obstacles(
        self,
        queue: Queue,
        reservations: Sequence[Reservation],
        staged: tuple[int, int],
        is_disk_full: bool,
    ) -> list[Obstacle]:
        counts, settings = queue.counts, queue.settings
        total = counts.ready_count + counts.leased_count + counts.delayed_count
        obstacles: list[tuple[str, str]] = []
        if settings.sending == "paused":
            obstacles.append(("SENDING_PAUSED", "sending is paused"))
        for limit, there, of_stages, unit in (
            (settings.max_messages, total, staged[0], "messages"),
            (settings.max_bytes, counts.byte_count, staged[1], "bytes"),
        ):
            if limit and there + of_stages >= limit:
                share = f", {of_stages} of them in stages" if of_stages else ""
                why = f"it is full, with {there + of_stages} of {limit} {unit}{share}"
                obstacles.append(("QUEUE_FULL", why))
        if is_disk_full:
            obstacles.append(
                ("DISK_FULL", "the disk under the root is full, or nearly: no send is stored")
            )
        if settings.receiving == "paused":
            obstacles.append(("RECEIVING_PAUSED", "receiving is paused"))
        if not counts.ready_count and total:
            states = f"{counts.leased_count} leased, {counts.delayed_count} delayed"
            obstacles.append(("NOTHING_READY", f"no message is ready: {states}"))
        blocked = 0
        if settings.limits_leases:
            obstacles += self._limited(queue)
        elif settings.group_order == "strict":
            index = self._moves.index.queue(queue.name)
            blocked = index.counts[State.READY] - index.available(settings, None)
        if blocked:
            why = f"{blocked} of {counts.ready_count} ready messages wait for one of their group"
            obstacles.append(("GROUPS_BLOCKED", f"{why}, which is leased or delayed"))
        for each in reservations:
            count = "1 message" if each.message_count == 1 else f"{each.message_count} messages"
            what = f"the reservation {each.sequence_number} of the stream {each.stream}"
            obstacles.append(("RESERVED", f"{what} holds {count}"))
        if queue.blocking_message is not None:
            obstacles.append(
                (
                    "MESSAGE_BLOCKS",
                    f"message {queue.blocking_message.id}: {queue.blocking_message.explanation}",
                )
            )
        return [Obstacle(reason=reason, explanation=text) for reason, text in obstacles]

    def _limited(self, queue: Queue) -> Iterator[tuple[str, str]]:
        """Yield what the limits of a queue hold back now."""
        record, index = self._catalog.records[queue.name], self._moves.index.queue(queue.name)
        limits = self._limits_of(record)
        ready, leased = index.counts[State.READY], index.counts[State.LEASED]
        if limits is None or not ready:
            return
        if limits.max_leased and leased >= limits.max_leased:
            yield "MAX_LEASED", f"{leased} of {limits.max_leased} leased, {ready} wait"
        if (next := limits.next()) is not None:
            yield "RATE", f"the rate is used up: the next lease begins in {self._in(next)}"
        available = index.available(record.settings, limits)
        if index.groups is None:
            return
        for group, held, waiting in islice(index.groups.limited_groups(), GROUPS_SHOWN):
            if limits.group_max_leased and held >= limits.group_max_leased:
                why = f"{held} of {limits.group_max_leased} leased, {waiting} wait"
                yield "GROUP_MAX_LEASED", f"group {group}: {why}"
            elif (next := limits.next_of_group(group)) is not None:
                why = f"its rate is used up: the next lease begins in {self._in(next)}"
                yield "GROUP_RATE", f"group {group}: {why}"
        if (others := len(index.groups.limited) - GROUPS_SHOWN) > 0:
            yield "GROUPS_LIMITED", f"{others} more groups wait for their limits"
        held_back = ready - available
        if record.settings.group_order == "strict" and not index.groups.limited and held_back:
            why = f"{held_back} of {ready} ready messages wait for one of their group"
            yield "GROUPS_BLOCKED", f"{why}, which is leased or delayed"

    def _in(self, moment: Millis) -> str:
        return f"{max(100, moment - self._moves.clock.monotonic()) / 1_000:.1f} s"

    def _blocking(self, record: QueueRecord, metrics: QueueMetrics) -> BlockingMessage | None:
        """Return the message that comes back again and again, if the oldest is one."""
        id, receives = metrics.first, metrics.receives
        limit, target = record.settings.max_receives, record.settings.dead_letter_queue
        if limit and receives >= limit and target not in self._catalog.records:
            why = (
                f"it was received {receives} times, and its dead-letter queue {target} is missing: "
                f"create {target}, or delete the message"
            )
        elif receives >= MANY_RECEIVES:
            why = (
                f"it is the oldest, and was received {receives} times without a delete: look at it, "
                "and at what its consumers say"
            )
        else:
            return None
        return BlockingMessage(id=id, receive_count=receives, explanation=why)


def _leases_of(entry: Entry, reservation: Reservation | None) -> Iterator[OldLease]:
    """Yield the leases of an entry by consumer, and last what no known consumer holds."""
    due = entry.name.due if reservation is None else reservation.expires_at
    unknown = entry.members
    found: list[tuple[int, str, Millis | None]] = []
    for share in entry.shares:
        if share.consumer:
            found.append((share.members, share.consumer, share.since))
            unknown &= ~share.members
    for members, consumer, since in (*found, (unknown, "", None)):
        if members:
            yield OldLease(
                message_id=entry.batch.stem.message_id(lowest(members)),
                message_count=members.bit_count(),
                first_received_at=entry.name.first,
                lease_expires_at=due or Millis(0),
                receive_count=entry.name.receives,
                stream="" if reservation is None else reservation.stream,
                consumer=consumer,
                received_at=since,
            )


_NAME_OF: Final = attrgetter("name")
