"""Leases: receives, extensions, releases and expiry.

A receive takes the oldest ready messages. Those of one file and one commit move together, by one link
or rename, also if several receives take them: each receive gets a range of that name. A lease
that is over goes back to `queues/` with its count of receives; the place in the order is the id's.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from random import Random
from types import MappingProxyType
from typing import Any, Final

from ..model import receipts
from ..model.background_work import BackgroundWork
from ..model.batch_file import Damaged
from ..model.clock import Millis
from ..model.dead_letter_records import REJECTED, check_explanation
from ..model.errors import NoDeadLetterQueue, StaleReceipt, StoreError
from ..model.field_checks import check_number, check_span
from ..model.members import effort, indexes, lowest
from ..model.message_content import MAX_DELAY, Attributes, size_of
from ..model.message_ids import first_id_of, sent_at
from ..model.names import Name
from ..model.operations import (
    LARGE_BODY,
    UNFINISHED,
    ChangeVisibility,
    Delivery,
    GiveBack,
    LastReceive,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Unfinished,
)
from ..model.receipts import is_set_token, make_token
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import Move, State
from .catalog import Catalog, QueueRecord
from .dead_letters import DeadLetters
from .deadlines import Deadlines
from .entries import Entry, Groups, LeaseShare
from .index import Index
from .lease_limits import QueueLimits
from .moves import Moves, NameVanished, begin_lease
from .part import DUE_NOW, RETRY, Part, postponing
from .reader import Reader, told_records
from .turns import outcome_of

log = logging.getLogger(__name__)

QUEUES_OF_A_TICK: Final = 1_000
"""Queues that one tick looks at for their retention. A receive looks at its own, too."""
LOOKS: Final = 100
"""Messages whose age began anew that one look for messages past the retention passes over."""
WHOLE_LEASES: Final = 2
"""After so many receives a message is leased under a name of its own: one of its neighbours may kill
consumers."""


@dataclass(slots=True, eq=False)
class _Lease:
    """Messages of one entry that a commit leases, for any number of receives."""

    entry: Entry
    visibility: Millis
    members: int
    is_prefetch: bool = False
    """Whether one of the receives is of a consumer that prefetches."""
    since: Millis = Millis(0)
    """Unix time."""
    leased: list[Entry] = field(default_factory=list)
    """Their new entries."""
    refused: StoreError | None = None
    """Why the disk leased none of them, or not all."""


_Share = tuple[_Lease, int]
"""A lease, and the members of it that one receive gets."""
_NAME_OF: Final = attrgetter("name")
_QUEUE_OF: Final = attrgetter("queue")


class Targets:
    """Messages that requests name, by the entries that hold them: those of one name move together."""

    def __init__(self) -> None:
        self.members: dict[Entry, int] = {}
        self.places: dict[Entry, list[tuple[int, Any, list[Any], int]]] = {}
        """By entry the indexes of its messages, the request for each, the results of that, and the
        position in them."""

    def add(self, found: tuple[Entry, int], request: Any, results: list[Any], position: int) -> None:
        entry, index = found
        self.members[entry] = self.members.get(entry, 0) | 1 << index
        self.places.setdefault(entry, []).append((index, request, results, position))

    def answer(self, entry: Entry, result: object) -> None:
        for _, _, results, position in self.places[entry]:
            results[position] = result

    def refuse(self, entry: Entry, error: StoreError) -> None:
        """Note why messages of an entry didn't move."""
        for index, _, results, position in self.places[entry]:
            if isinstance(error, NameVanished):
                results[position] = StaleReceipt(id=entry.batch.stem.message_id(index))
            # Of a list that is divided over several names a part may have moved.
            elif entry.members >> index & 1:
                results[position] = error


class Leaser(Part):
    """The leases of all queues. Not thread-safe."""

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        reader: Reader,
        dead_letters: DeadLetters,
        random: Random,
        background: BackgroundWork,
    ) -> None:
        self._moves = moves
        self._index: Index = moves.index
        self._catalog = catalog
        self._reader = reader
        self._dead_letters = dead_letters
        self._clock = moves.clock
        self._background = background
        self._began = moves.clock.monotonic()
        self._random = random
        self._new_entries: Mapping[str, Sequence[Entry]] = {}
        self._queues_to_expire: dict[str, None] = {}
        """Queues that have messages older than their retention."""
        self._expired_up_to: dict[str, str] = {}
        """Of queues with messages whose age began anew, the id from which on `expire` looks next."""
        self._limits: dict[str, QueueLimits] = {}
        """By queue."""
        self._rate_dues = Deadlines[str]()
        """Queues whose rates hold leases back, and until when."""
        self._last_queue = ""
        """The next tick looks for those above this name."""
        self.pending = (
            moves.index.dues.times,
            moves.index.unread_group_files,
            reader.refused_files,
            self._queues_to_expire,
            self._rate_dues.times,
        )
        self._blocked_queues: set[str] = set()
        """Queues in which this commit has met more dead or old messages than may move at a time."""

    # Receives.

    def receive(
        self, requests: Sequence[Receive], written: Mapping[str, Sequence[Entry]]
    ) -> list[list[Delivery] | StoreError | Unfinished]:
        """Lease ready messages, and then those that this commit has `written`, by queue.

        The answers hold once the commit is synced, and `hand_out` has moved what it has written. One
        that waits for no message is unfinished where dead messages have to move first.
        """
        self._new_entries = written
        self._blocked_queues.clear()
        leases: list[_Lease] = []
        chosen: dict[Entry, int] = {}
        for queue in dict.fromkeys(map(_QUEUE_OF, requests)):
            if queue in self._catalog.records:
                self.expire(self._catalog.records[queue])  # Nothing moves once a request has chosen.
        choices: list[list[_Share] | StoreError] = []
        for request in requests:
            choices.append(outcome_of(self._choose, request, leases, chosen))
        for lease in leases:
            self._lease(lease)
        outcomes: list[list[Delivery] | StoreError | Unfinished] = []
        for request, choice in zip(requests, choices, strict=True):
            outcomes.append(choice if isinstance(choice, StoreError) else self._answer(request, choice))
        return outcomes

    def _answer(
        self, request: Receive, shares: Sequence[_Share]
    ) -> list[Delivery] | StoreError | Unfinished:
        answer: list[Delivery] = []
        refused: StoreError | None = None
        for lease, members in shares:
            self._deliver(request, lease, members, answer)
            refused = lease.refused or refused
        if answer:
            return answer
        # An empty answer says that nothing is ready.
        if request.wait == 0 and request.queue in self._blocked_queues:
            return UNFINISHED
        return answer if refused is None else refused

    def hand_out(
        self, request: Receive, chosen: Entry, leased: Entry, visibility: Millis, since: Millis
    ) -> list[Delivery]:
        """Return the answer to a receive that got all of one lease."""
        lease = _Lease(chosen, visibility, leased.members, since=since, leased=[leased])
        if request.credits is not None:
            request.credits.charge(leased.members.bit_count())
        answer: list[Delivery] = []
        self._deliver(request, lease, leased.members, answer)
        return answer

    def check(self, request: Receive) -> tuple[QueueRecord, Millis]:
        """Return the queue and the visibility timeout of a receive; raise its `StoreError`."""
        record = self._catalog.require_same(request)
        visibility = request.visibility_timeout
        if visibility is None:
            visibility = record.settings.visibility_timeout
        check_span("visibility_timeout", visibility, 1, MAX_VISIBILITY)
        if request.max_messages < 1:
            check_number("max_messages", request.max_messages, 1)
        return record, visibility

    def _choose(self, request: Receive, leases: list[_Lease], chosen: dict[Entry, int]) -> list[_Share]:
        """Decide what a request gets. Nothing moves before all requests have chosen."""
        record, visibility = self.check(request)
        room = request.max_messages
        max_bytes = request.max_bytes
        if request.credits is not None:
            room = min(room, request.credits.free)
            max_bytes = min(max_bytes, request.credits.free_bytes)
        shares: list[_Share] = []
        count = 0
        written = self._just_written(record.name, chosen)
        for entry, members in self.pick(record, room, max_bytes, chosen, written):
            count += members.bit_count()
            shares += _shares(entry, visibility, members, request, leases)
        if request.credits is not None:
            request.credits.charge(count)
        return shares

    def pick(
        self,
        record: QueueRecord,
        room: int,
        bytes_left: int,
        chosen: dict[Entry, int],
        written: Iterable[tuple[Entry, int]] = (),
        *,
        max_effort: int | None = None,
        at_least_one: bool = True,
    ) -> list[tuple[Entry, int]]:
        """Return up to `room` messages to be leased, in order: those ready, and then those `written`.

        It is no more than `bytes_left`, but perhaps `at_least_one`, and no more files than
        `max_effort` allows. They are `chosen` now, as are those that die. While receiving is paused
        there are none, and as long as messages have to `expire` before.
        """
        if record.settings.receiving == "paused":
            return []
        if record.name in self._queues_to_expire:
            self._blocked_queues.add(record.name)
            return []
        index, limits = self._index.queue(record.name), self.limits_of(record)
        if limits is not None:
            room = int(min(room, limits.room(index.counts[State.LEASED], self._moves.commit)))
        picked: list[tuple[Entry, int]] = []
        dead: list[tuple[Entry, int]] = []
        old: list[tuple[Entry, int]] = []
        dead_room = self._moves.effort.share()
        has_retention = record.settings.retention > 0
        # Closed before the index changes: a group's turn is over with its last run.
        runs = index.runs(room, chosen, record.settings, limits, self._moves.commit)
        with closing(runs) as ready:
            for entry, members in chain(ready, written):
                if room <= 0 or (max_effort is not None and max_effort <= 0):
                    break
                is_old = has_retention and self.is_too_old(record, entry)
                if is_old or self._dead_letters.is_dead(entry):
                    if dead_room <= 0:
                        # The messages behind them wait until they have moved: a look past all of them
                        # would take the longer the more there are.
                        self._blocked_queues.add(record.name)
                        break
                    dead_room -= 1
                    chosen[entry] = chosen.get(entry, 0) | members
                    (old if is_old else dead).append((entry, members))
                    continue
                try:
                    if not self._reader.is_readable(entry):
                        continue
                except StoreError:
                    if not picked:
                        raise
                    break
                is_first = at_least_one and not picked
                fitting = self._fitting(entry, members, room, bytes_left, is_first=is_first)
                if not fitting:
                    break
                chosen[entry] = chosen.get(entry, 0) | fitting
                room -= fitting.bit_count()
                bytes_left -= entry.batch.counted_bytes_of(fitting)
                max_effort = None if max_effort is None else max_effort - effort(fitting)
                picked.append((entry, fitting))
                if fitting != members:
                    break
        if limits is not None:
            self.begin(record, limits, sum(members.bit_count() for _, members in picked))
        if dead:
            self._moves.effort.spend(len(dead))
            self._bury(dead)
        for entry, members in old:
            self._moves.effort.spend()
            self._expire(record.name, entry, members)
        return picked

    def ready(self, record: QueueRecord) -> int:
        """Return the number of messages that a receive could lease."""
        if record.settings.receiving == "paused":
            return 0
        index, limits = self._index.queue(record.name), self.limits_of(record)
        found = index.available(record.settings, limits)
        if limits is None:
            return found
        self._await_rate(record.name, limits)
        return int(min(found, limits.room(index.counts[State.LEASED], self._moves.commit)))

    def limits_of(self, record: QueueRecord) -> QueueLimits | None:
        """Return the limits of a queue, as they are now; None if it has none."""
        if not record.settings.limits_leases:
            return None
        limits = self._limits.get(record.name)
        if limits is None:
            limits = self._limits[record.name] = QueueLimits()
        limits.be_set(record.settings, self._clock.monotonic())
        return limits

    def begin(self, record: QueueRecord, limits: QueueLimits, count: int) -> None:
        """Count leases that this commit begins."""
        limits.begin(count, self._moves.commit)
        self._await_rate(record.name, limits)

    def _await_rate(self, queue: str, limits: QueueLimits) -> None:
        """Let those that wait for a queue look again when its rates let a lease begin."""
        next = limits.next_of_any()
        if next is None:
            self._rate_dues.discard(queue)
        else:
            self._rate_dues.set(queue, next)

    def _bury(self, dead: Sequence[tuple[Entry, int]]) -> None:
        """Move messages that were received too often; those that the disk refuses die another time."""
        now = self._clock.monotonic()
        for (entry, _), error in zip(dead, self._dead_letters.bury(dead), strict=True):
            if error is not None:
                log.warning("%s has dead letters that have to wait: %s", entry.name.path, error)
                if entry.members and entry.name.state is State.LEASED:
                    self._index.schedule(entry, Millis(now + RETRY))

    def _just_written(self, queue: str, chosen: Mapping[Entry, int]) -> Iterator[tuple[Entry, int]]:
        """Yield what this commit has written for a queue, the oldest first, and no receive has taken.

        It is younger than all that is ready: nothing is overtaken. A message with a group or a priority
        waits for the next commit, where it takes its place.
        """
        for entry in self._new_entries.get(queue, ()):
            if entry.batch.stem.is_grouped or entry.batch.stem.priority:
                continue
            members = entry.members & ~chosen.get(entry, 0)
            if members:
                yield entry, members

    def withhold(self, leased: Iterable[Entry]) -> None:
        """Let no consumer hold leases that the disk keeps in `new/`, where no other process finds them.
        They are enqueued later, and come back when they end."""
        for entry in leased:
            _undeliver(entry, entry.members)
            self._index.end_shares(entry)

    def tick(self) -> None:
        if not self._background.brings_back:
            return
        for name in self._expired_up_to.keys() - self._catalog.records.keys():
            del self._expired_up_to[name]
        for name in self._limits.keys() - self._catalog.records.keys():
            del self._limits[name]
        records = self._catalog.listing()
        first = bisect_right(records, self._last_queue, key=_NAME_OF)
        part = records[first : first + QUEUES_OF_A_TICK]
        for record in part:
            ready = self._index.queue(record.name).ready if record.settings.retention else None
            oldest = None if ready is None else ready.first()
            if oldest is not None and oldest < self._sent_before(record):
                self._queues_to_expire[record.name] = None
        self._last_queue = part[-1].name if len(part) == QUEUES_OF_A_TICK else ""
        self._continue_expiry()

    def expire(self, record: QueueRecord) -> bool:
        """Delete ready messages that are older than the queue's retention, the oldest first, as many
        as the commit may; return whether there are more.

        Those whose age began anew stand among them by their ids. It passes over a few, and the next
        call begins behind them: `pick` finds what is too old in front."""
        self._queues_to_expire.pop(record.name, None)
        if not record.settings.retention:
            return False
        end = self._sent_before(record)
        ready, after = self._index.queue(record.name).ready, self._expired_up_to.pop(record.name, "")
        left, looks = self._moves.effort.share(), LOOKS
        while (found := next(ready.since(after), None)) is not None and found[0] < end:
            if left <= 0:
                self._queues_to_expire[record.name] = None  # Behind the other queues.
                return True
            if looks <= 0:
                self._expired_up_to[record.name] = after
                return False
            first, entry = found
            if not self.is_too_old(record, entry):
                after, looks = f"{first}~", looks - 1
                continue
            if not self._expire(record.name, entry, entry.members):
                return False
            left -= 1
            self._moves.effort.spend()
        return False

    def _expire(self, queue: str, entry: Entry, members: int) -> bool:
        """Delete messages that are too old; return False if the disk refuses it."""
        count = members.bit_count()
        try:
            self._moves.delete(entry, members)
        except StoreError as error:
            log.warning("%s is too old, and has to wait: %s", entry.name.path, error)
            return False
        self._moves.statistics.count(queue, "expire", count)
        return True

    def _sent_before(self, record: QueueRecord) -> str:
        """Return the id below which messages are older than the queue's retention, unless their age
        began anew."""
        return first_id_of(Millis(self._clock.proven_wall() - record.settings.retention + 1))

    def is_too_old(self, record: QueueRecord, entry: Entry) -> bool:
        """Return whether an entry's messages are older than the retention of their queue."""
        return entry.name.age_began + record.settings.retention <= self._clock.proven_wall()

    def _fitting(
        self, entry: Entry, members: int, room: int, bytes_left: int, *, is_first: bool
    ) -> int:
        """Return the first of `members` that a receive has room for; at least one if it has none
        yet."""
        stem = entry.batch.stem
        count = members.bit_count()
        is_whole = count == (stem.count or 1)
        if is_whole and count <= room and stem.size + stem.attributes <= bytes_left:
            return members
        try:
            line = self._reader.line(entry)
        except (Damaged, StoreError):
            # An unreadable message is leased alone, and put aside then.
            return 1 << lowest(members) if is_first else 0
        fitting = 0
        for index in indexes(members):
            size = line.sizes[index] + size_of(line.attributes.get(index, {}))
            if room <= 0 or (size > bytes_left and not (is_first and not fitting)):
                break
            fitting |= 1 << index
            room -= 1
            bytes_left -= size
        return fitting

    def _lease(self, lease: _Lease) -> None:
        old = lease.entry.name
        wall = lease.since = self._clock.wall()
        until = Millis(wall + lease.visibility), self._clock.monotonic() + lease.visibility
        token = make_token(self._random)
        try:
            lease.leased = begin_lease(
                self._moves, lease.entry, lease.members, until, token, is_prefetch=lease.is_prefetch
            )
        except StoreError as error:
            # It stays ready, but for a part of a list that is divided over several names.
            if old.state is State.READY and not isinstance(error, NameVanished):
                lease.refused = error
            log.warning("%s can't be leased for now: %s", old.path, error)
            lease.leased = [each for each in lease.entry.batch.entries if each.name.token == token]
        if old.state is State.SENT:
            self._moves.to_enqueue += lease.leased
            if not lease.entry.members:
                self._moves.to_enqueue.append(lease.entry)  # Nothing is left in it to enqueue.

    def _deliver(self, request: Receive, lease: _Lease, members: int, answer: list[Delivery]) -> None:
        """Add `members` of a lease to the answer of a receive."""
        delivered = 0
        for entry in lease.leased:
            if there := members & entry.members:
                delivered |= self._deliver_of(entry, there, request, lease.since, answer)
        missing = (members & ~delivered).bit_count()
        if missing and request.credits is not None:
            request.credits.give_back(missing, is_answer=False)

    def _deliver_of(
        self, entry: Entry, members: int, request: Receive, since: Millis, answer: list[Delivery]
    ) -> int:
        """Add messages of an entry, leased since then, to an answer; return those that can be read. The
        others go to quarantine."""
        name, stem = entry.name, entry.batch.stem
        assert name.due is not None
        found: Sequence[tuple[int, bytes | Damaged]]
        is_left_out = not (request.with_large_bodies or stem.count) and stem.size > LARGE_BODY
        try:
            found = self._reader.bodies(entry, members, is_left_out=is_left_out)
        except Damaged as why:
            found = [(index, why) for index in indexes(members)]
        except StoreError as error:
            # They are leased, and tried again when the lease ends.
            log.error("%s can't be read for now: %s", name.path, error)
            return 0
        where: list[int] = []
        bodies: list[bytes] = []
        for index, body in found:
            if isinstance(body, Damaged):
                self._quarantine(entry, index, body)
                members &= ~(1 << index)
            else:
                where.append(index)
                bodies.append(body)
        if not where:
            return 0
        ids = stem.message_ids(where)
        attributes: dict[int, Attributes] = {}
        if stem.attributes:
            named = self._reader.line(entry).attributes
            attributes = {at: named[index] for at, index in enumerate(where) if index in named}
        credits, consumer = request.credits, request.consumer
        if credits is not None or consumer:
            size = number = 0
            if credits is not None:
                size = entry.batch.counted_bytes_of(members)
                credits.charge(0, size)
                number = credits.deliver(len(where))
            entry.shares += (LeaseShare(members, size, credits, consumer, since, number, members),)
        answer.append(
            Delivery(
                queue=name.queue,
                sent_at=sent_at(stem.id),
                receive_count=name.receives,
                first_received_at=name.first,
                lease_expires_at=name.due,
                ids=ids,
                receipts=receipts.make(name.queue, name.token, zip(where, ids, strict=True)),
                bodies=bodies,
                attributes=attributes,
                groups=_groups_of(entry.batch.groups, where) if entry.batch.groups else {},
                dead_letter_records=() if name.death is None else told_records(self._moves.disk, name),
                priority=stem.priority,
                external_size=stem.size if stem.is_external else None,
                left_out=stem.size if is_left_out else None,
            )
        )
        return members

    def _quarantine(self, entry: Entry, index: int, why: Damaged) -> None:
        id, queue = entry.batch.stem.message_id(index), entry.name.queue
        log.error("message %s of the queue %s goes to quarantine: %s", id, queue, why)
        with postponing(log, "the quarantine of message %s until its lease ends", id):
            self._moves.move(entry, 1 << index, Move.QUARANTINE)

    # The end of a lease.

    def find(self, queue: str, text: str, last: LastReceive | None = None) -> tuple[Entry, int] | None:
        """Return the lease of a receipt; None if the message is gone. Raise `StaleReceipt`,
        `InvalidReceipt`.

        With `last`, return a message whose lease is over, too, if that was its last receive.
        """
        receipt = receipts.parse(queue, text)
        found = self._index.holder(receipt.id)
        if found is None or found[0].name.state in (State.REMOVED, State.QUARANTINED):
            return None
        entry, index = found
        name = entry.name
        if (
            name.state is not State.LEASED
            or name.queue != queue
            or not receipts.fits(receipt, name.token, index)
        ) and not _is_last(name, queue, last):
            raise StaleReceipt(id=receipt.id)
        return entry, index

    def change(self, request: ChangeVisibility) -> list[Millis | StoreError]:
        """Extend or release leases. Messages of one name move together."""
        record = self._catalog.require(request.queue)
        visibility = request.visibility_timeout
        check_span("visibility_timeout", visibility, 0, MAX_VISIBILITY)
        results: list[Millis | StoreError] = [Millis(0)] * len(request.receipts)
        settings = record.settings
        # A lease that is over begins no other one past an order or a bound.
        is_bounded = settings.group_order == "strict" or settings.limits_leases
        targets = self._find_all(request, results, {} if is_bounded else request.last_receives)
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        result = Millis(wall + visibility if visibility else 0)
        until = result, monotonic + visibility
        for entry, members in targets.members.items():
            targets.answer(entry, result)
            try:
                if visibility:
                    # A message whose lease is over is leased again, with a token of its own.
                    token = entry.name.token or make_token(self._random)
                    self._moves.move(entry, members, Move.EXTEND, until=until, token=token)
                elif entry.name.state is not State.READY:
                    self.bring_back(entry, members)
            except StoreError as error:
                targets.refuse(entry, error)
        return results

    def _find_all(
        self,
        request: ChangeVisibility | ReleaseMessages | RejectMessages | GiveBack,
        results: list[Any],
        last_receives: Mapping[int, LastReceive] = MappingProxyType({}),
    ) -> Targets:
        """Return the messages of the request's receipts; those that are gone, or another consumer's,
        have errors in `results`."""
        targets = Targets()
        for position, text in enumerate(request.receipts):
            try:
                found = self.find(request.queue, text, last_receives.get(position))
                if found is None:
                    raise StaleReceipt(id=receipts.parse(request.queue, text).id)
                targets.add(found, request, results, position)
            except StoreError as error:
                results[position] = error
        return targets

    def release(self, request: ReleaseMessages) -> list[Millis | StoreError]:
        """End leases, and hide the messages for the delay of the request or the queue's back-off.
        Messages of one name move together."""
        record = self._catalog.require(request.queue)
        check_explanation(request.reason)
        if request.delay is not None:
            check_span("delay", request.delay, 0, MAX_DELAY)
        results: list[Millis | StoreError] = [Millis(0)] * len(request.receipts)
        targets = self._find_all(request, results)
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        for entry, members in targets.members.items():
            delay = request.delay
            if delay is None:
                delay = self._back_off(record, entry)
            targets.answer(entry, Millis(wall + delay))
            is_dead = not request.uncounted and self._dead_letters.dies_with_lease(entry)
            try:
                if is_dead:
                    self._dead_letters.bury_one(entry, members, request.reason)
                else:
                    count = entry.name.receives
                    if request.uncounted:
                        count = max(0, count - 1)
                    self._postpone(entry, members, (Millis(wall + delay), monotonic + delay), count)
            except StoreError as error:
                targets.refuse(entry, error)
        return results

    def _back_off(self, record: QueueRecord, entry: Entry) -> Millis:
        """Return how long the messages of a lease are hidden once it is over."""
        name = entry.name
        first = name.stem.message_id(lowest(name.members))
        return record.settings.backoff(first, name.receives)

    def _postpone(self, entry: Entry, members: int, until: tuple[Millis, int], receives: int) -> None:
        """End the lease of `members`, and hide them until then, if that isn't past."""
        if until[1] > self._clock.monotonic():
            self._moves.move(entry, members, Move.POSTPONE, until=until, receives=receives)
        else:
            self._moves.move(entry, members, Move.REQUEUE, receives=receives)

    def reject(self, request: RejectMessages) -> list[StoreError | None]:
        """Move leased messages to the dead-letter queue with this commit."""
        record = self._catalog.require(request.queue)
        check_explanation(request.reason)
        if record.settings.dead_letter_queue not in self._catalog.records:
            raise NoDeadLetterQueue(queue=record.name)
        results: list[StoreError | None] = [None] * len(request.receipts)
        targets = self._find_all(request, results)
        wanted = list(targets.members.items())
        refused = self._dead_letters.bury(wanted, reason=REJECTED, explanation=request.reason)
        for entry, error in zip(targets.members, refused, strict=True):
            if error is not None:
                targets.refuse(entry, error)
        return results

    def give_back(self, request: GiveBack) -> None:
        """Undo leases that no consumer has seen; an expired one is a success."""
        self._catalog.require(request.queue)
        expired: list[Any] = [None] * len(request.receipts)
        self._index.is_answer = False
        try:
            for entry, members in self._find_all(request, expired).members.items():
                _undeliver(entry, members)
                self._uncount(entry, members)
        finally:
            self._index.is_answer = True

    def _uncount(self, entry: Entry, members: int) -> None:
        """End leases of messages that no consumer has begun: ready again, and not received."""
        self._moves.move(entry, members, Move.REQUEUE, receives=max(0, entry.name.receives - 1))

    def bring_back(self, entry: Entry, members: int) -> None:
        """End the lease or the delay of `members`; a message received too often becomes a dead letter,
        here or as the next receive reaches it."""
        if entry.name.state is State.LEASED and self._dead_letters.dies_with_lease(entry):
            self._dead_letters.bury_one(entry, members)
        else:
            self._moves.move(entry, members, Move.REQUEUE)

    def next_due(self) -> Millis | None:
        if self._index.unread_group_files or self._queues_to_expire:
            return DUE_NOW
        dues = [*self._reader.refused_files.values()]
        if (rate := self._rate_dues.next()) is not None:
            dues.append(rate)
        due = self._index.dues.next()
        if due is not None and self._background.brings_back:
            wait = self._background.wait
            dues.append(Millis(max(due, self._began) + wait) if wait else due)
        return min(dues, default=None)

    def advance(self) -> None:
        """Requeue due messages: those whose lease or delay is over, and those whose file is to be read
        again."""
        now = self._clock.monotonic()
        while (queue := self._rate_dues.pop(now)) is not None:
            self._index.changed_queues[queue] = None
        self._reader.try_again(now)
        if self._background.brings_back:
            self._bring_due_back(now)
        self._continue_expiry()
        self._read_groups()

    def _bring_due_back(self, now: Millis) -> None:
        effort = self._moves.effort
        dead: list[tuple[Entry, int]] = []
        self._index.is_answer = False
        try:
            over = self._index.due(Millis(now - self._background.wait))
            for entry in list(islice(over, effort.share())):
                effort.spend()
                token = entry.name.token
                if not entry.members or (token and is_set_token(token)):
                    continue  # It was listed twice: see `Index.disappear`; a set says when it ends.
                count = entry.members.bit_count()
                try:
                    if self._expire_lease(entry):
                        dead.append((entry, entry.members))
                    if entry.name.state is State.LEASED:
                        self._moves.statistics.count(entry.name.queue, "requeue", count)
                except StoreError:
                    self._index.schedule(entry, Millis(now + RETRY))
            if dead:
                self._bury(dead)
        finally:
            self._index.is_answer = True

    def _continue_expiry(self) -> None:
        """Delete more of what is too old, a part in each queue."""
        for name in list(islice(self._queues_to_expire, self._moves.effort.share())):
            record = self._catalog.records.get(name)
            if record is None:
                del self._queues_to_expire[name]
            else:
                self.expire(record)

    def _expire_lease(self, entry: Entry) -> bool:
        """Bring back what an entry holds whose lease or delay is over; with a back-off, hide it on.
        Return whether the rest of it dies.

        The end of that is told by the lease's name and the queue's settings alone: whichever process
        does it, and when, makes no difference. But the process that leased messages knows which of
        them were prefetched and not begun: they are ready at once, and their receive isn't counted.
        """
        name = entry.name
        if entry.shares and (prefetched := entry.prefetched):
            for share in entry.shares:
                if share.credits is not None and share.prefetched:
                    share.credits.be_silent(share.first + share.delivered.bit_count())
            self._uncount(entry, prefetched)
            if not entry.members:
                return False
        if name.state is State.LEASED and self._dead_letters.dies_with_lease(entry):
            return True
        record = self._catalog.records.get(name.queue)
        if (
            name.due is None
            or name.state is not State.LEASED
            or record is None
            or record.settings.backoff_at == "release"
        ):
            self._moves.move(entry, entry.members, Move.REQUEUE)
            return False
        pause = self._back_off(record, entry)
        until = Millis(name.due + pause), entry.due + pause
        self._postpone(entry, entry.members, until, name.receives)
        return False

    def _read_groups(self) -> None:
        """Read the groups of files that another process has written, or a start has found, as many as
        the commit may."""
        refused: StoreError | None = None
        grouped, effort = self._index.unread_group_files, self._moves.effort
        for batch in list(islice(grouped, effort.share())) if grouped else ():
            effort.spend()
            try:
                self._reader.line(batch.entries[0])
            except Damaged:
                # Its messages go to quarantine as they are delivered: no order is to be kept.
                self._index.learn_groups(batch, {})
            except StoreError as error:
                refused = error
                grouped[batch] = grouped.pop(batch)  # Behind the others.
        if refused is not None:
            raise refused


def _shares(
    entry: Entry, visibility: Millis, members: int, request: Receive, leases: list[_Lease]
) -> list[_Share]:
    """Return the shares by which a receive gets `members`, of leases that other receives of the commit
    share."""
    is_prefetch = request.credits is not None and request.credits.concurrency > 0
    is_alone = entry.name.receives >= WHOLE_LEASES
    for lease in () if is_alone else reversed(leases):
        if lease.entry is entry and lease.visibility == visibility:
            lease.members |= members
            lease.is_prefetch |= is_prefetch
            return [(lease, members)]
    shares: list[_Share] = []
    for part in [1 << index for index in indexes(members)] if is_alone else (members,):
        leases.append(_Lease(entry, visibility, part, is_prefetch))
        shares.append((leases[-1], part))
    return shares


def _undeliver(entry: Entry, members: int) -> None:
    """Let consumers that number their messages know that these, the last ones, don't reach them."""
    for share in entry.shares:
        if share.credits is not None:
            share.credits.undeliver((share.members & members).bit_count())


def _is_last(name: Name, queue: str, last: LastReceive | None) -> bool:
    """Return whether a message was received last by `last`, and no reservation holds it."""
    return (
        last is not None
        and name.queue == queue
        and name.state in (State.LEASED, State.READY, State.DELAYED)
        and (name.receives, name.first) == last
        and not (name.token and is_set_token(name.token))
    )


def _groups_of(groups: Groups, where: Sequence[int]) -> dict[int, str]:
    """Return the groups of delivered messages by their position."""
    named = ((position, groups.of(index)) for position, index in enumerate(where))
    return {position: group for position, group in named if group}
