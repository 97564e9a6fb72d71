"""Views of queues: settings and counts, without a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Final

from ..model.clock import Millis
from ..model.members import lowest
from ..model.message_ids import sent_at
from ..model.operations import OLDEST_LEASES, Blocking, Counts, Obstacle, OldLease, Queue, Traffic
from ..model.reservation_requests import Reservation
from ..model.statistics import Ages, QueueMetrics
from ..model.transitions import State
from .catalog import Catalog, QueueRecord
from .entries import Entry
from .index import Index, QueueIndex
from .moves import Moves

MANY_RECEIVES: Final = 3
"""The oldest message is said to block its queue after so many receives."""


_NO_MESSAGES: Final = QueueIndex(Index().unpack)
"""Of a queue that never had one: many have none, and need no memory."""


class QueueViews:
    """The read-only views of queues. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog) -> None:
        self._moves = moves
        self._catalog = catalog

    def queue(self, record: QueueRecord) -> Queue:
        index = self._moves.index.queue(record.name)
        oldest = _oldest(index)
        return Queue(
            name=record.name,
            settings=record.settings,
            created_at=record.created_at,
            version=record.version,
            labels=record.labels,
            counts=Counts(
                ready_count=index.counts[State.READY],
                leased_count=index.counts[State.LEASED],
                delayed_count=index.counts[State.DELAYED],
                byte_count=index.bytes,
                oldest=None if oldest is None else sent_at(oldest.first_id),
            ),
            blocking=self._blocking(record, oldest),
            traffic=Traffic(entered=index.entered, left=index.left),
        )

    def described(
        self, record: QueueRecord, reservations: Mapping[str, Reservation], *, is_disk_full: bool
    ) -> Queue:
        """Return a queue with its obstacles and its oldest leases.

        `reservations` are by the tokens of their leases. The oldest leases are those of the oldest
        messages.
        """
        queue = self.queue(record)
        leased = self._moves.index.queue(record.name).orders[State.LEASED].since("")
        oldest = [entry for _, entry in islice(leased, OLDEST_LEASES)]
        leases = (
            lease for entry in oldest for lease in _leases_of(entry, reservations.get(entry.name.token))
        )
        return replace(
            queue,
            obstacles=self._obstacles(queue, list(reservations.values()), is_disk_full),
            oldest_leases=list(islice(leases, OLDEST_LEASES)),
        )

    def queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        """Return up to `limit` queues by name, above the name `after`."""
        records, names = self._catalog.records, self._catalog.names.since(max(prefix, after))
        found = islice((name for name in names if name != after), limit)
        return [self.queue(records[name]) for name in found if name.startswith(prefix)]

    def ages(self, name: str, bounds: Sequence[Millis]) -> Ages | None:
        """Return a queue's ready messages by age; None if there is no such queue."""
        if name not in self._catalog.records:
            return None
        index, now = self._moves.index.queue(name), self._moves.clock.wall()
        older = [index.sent.before(now - bound) for bound in bounds]
        counts = [more - less for more, less in pairwise([index.counts[State.READY], *older, 0])]
        return Ages(counts=tuple(counts))

    def metrics_of(self, name: str) -> QueueMetrics | None:
        """Return a queue's metrics; None if there is no such queue."""
        if name not in self._catalog.records:
            return None
        index = self._moves.index.queues.get(name, _NO_MESSAGES)
        head = index.head()
        return QueueMetrics(
            name=name,
            ready=index.counts[State.READY],
            leased=index.counts[State.LEASED],
            delayed=index.counts[State.DELAYED],
            bytes=index.bytes,
            oldest_ready=None if head is None else sent_at(head.first_id),
            oldest_ready_receives=0 if head is None else head.name.receives,
            entered=index.entered,
            left=index.left,
        )

    def _obstacles(
        self, queue: Queue, reservations: Sequence[Reservation], is_disk_full: bool
    ) -> list[Obstacle]:
        counts, settings = queue.counts, queue.settings
        index = self._moves.index.queue(queue.name)
        obstacles: list[tuple[str, str]] = []
        if settings.sending == "paused":
            obstacles.append(("SENDING_PAUSED", "sending is paused"))
        for limit, there, unit in (
            (settings.max_messages, index.total, "messages"),
            (settings.max_bytes, index.bytes, "bytes"),
        ):
            if limit and there >= limit:
                obstacles.append(("QUEUE_FULL", f"it is full, with {there} of {limit} {unit}"))
        if is_disk_full:
            obstacles.append(
                ("DISK_FULL", "the disk under the root is full, or nearly: no send is stored")
            )
        if settings.receiving == "paused":
            obstacles.append(("RECEIVING_PAUSED", "receiving is paused"))
        if not counts.ready_count and index.total:
            states = f"{counts.leased_count} leased, {counts.delayed_count} delayed"
            obstacles.append(("NOTHING_READY", f"no message is ready: {states}"))
        blocked = counts.ready_count - index.available(settings)
        if blocked and settings.group_order == "strict":
            why = f"{blocked} of {counts.ready_count} ready messages wait for one of their group"
            obstacles.append(("GROUPS_BLOCKED", f"{why}, which is leased or delayed"))
        for each in reservations:
            count = "1 message" if each.messages == 1 else f"{each.messages} messages"
            what = f"the reservation {each.sequence_number} of the stream {each.stream}"
            obstacles.append(("RESERVED", f"{what} holds {count}"))
        if queue.blocking is not None:
            obstacles.append(("MESSAGE_BLOCKS", f"message {queue.blocking.id}: {queue.blocking.why}"))
        return [Obstacle(reason=reason, explanation=text) for reason, text in obstacles]

    def _blocking(self, record: QueueRecord, oldest: Entry | None) -> Blocking | None:
        """Return the message that comes back again and again, if the oldest is one."""
        if oldest is None:
            return None
        id, receives = oldest.first_id, oldest.name.receives
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
        return Blocking(id=id, receives=receives, why=why)


def _leases_of(entry: Entry, reservation: Reservation | None) -> Iterator[OldLease]:
    """Yield the leases of an entry by consumer, and last what no known consumer holds."""
    due = entry.name.due if reservation is None else reservation.expires_at
    unknown = entry.held
    found: list[tuple[int, str, Millis | None]] = []
    for share in entry.shares:
        if share.consumer:
            found.append((share.members, share.consumer, share.since))
            unknown &= ~share.members
    for members, consumer, since in (*found, (unknown, "", None)):
        if members:
            yield OldLease(
                id=entry.batch.stem.message_id(lowest(members)),
                count=members.bit_count(),
                first=entry.name.first,
                due=due or Millis(0),
                receives=entry.name.receives,
                stream="" if reservation is None else reservation.stream,
                consumer=consumer,
                since=since,
            )


def _oldest(index: QueueIndex) -> Entry | None:
    """Return the entry that holds the oldest message that is ready or leased."""
    heads = (index.head(State.READY), index.head(State.LEASED))
    return min((head for head in heads if head is not None), key=_first_id, default=None)


def _first_id(entry: Entry) -> str:
    return entry.first_id
