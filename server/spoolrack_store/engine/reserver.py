"""Reservations: sets of leases under a name, which their reader may read again until it commits them.

    reserved/<stream>.<seq>@<due>[~read]     a set's record: its hold ends then
    reserved/<stream>.<seq>@<ended>[~read]~lost     the same, once the hold is over
    reserved/<stream>.<seq>                  a marker: the stream is committed up to this number

A set is a record, written once, and lease names in `delay/` that share its token. One commit makes
both, the record first. The hold ends when the record's name says. The due in a lease's name doesn't
count, so that an extension is one rename. The leases of a set are brought back, deleted and undone
here only: `leaser` passes over them, and no consumer has a receipt of them.

- A record of which a message is not gone, and not under the token, was never answered, unless it is
  lost: it is undone, which means that its record goes. Leases whose token no record has are undone.
- Messages of a large set are leased, and later brought back or deleted, in slices: the commits of other
  callers come between. The record is written with the last slice. A token names the process that made
  it: leases that have no record yet are that process's as long as it lives.
- A record is durably `~lost` before a message of the set is ready again. It stays until its leases
  are durably gone: without it they would be undone, and a lost lease counts as a receive.
- A commit of a set that was read and then lost deletes those of its messages that no one has leased
  since. If these are all, they are leased under its token again, and the marker names the set. Else it
  stays lost. A release ends that claim: the name of a set that was released isn't `~read`.
- A marker names the sets that it commits, and is durable before the first of their messages is deleted.
  Their records go when that is durable; an older marker goes when a newer one is.

A set whose queue is deleted is lost for its reader, also if another queue has the name by now. A commit
of it is a success: its messages are gone.

The token is random: a set that is made again under its number has another one. Any process may finish
work that several could. While a file of `reserved/` can't be read, no request about sets is answered,
and no hold ends: the file may be the marker of a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from operator import itemgetter
from random import Random
from typing import Final

from ..files.disk import NOT_A_FILE, explained
from ..model.batch_file import Damaged, Line
from ..model.clock import Clock, Millis
from ..model.errors import (
    NameTaken,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
    ReservationUnread,
    StoreError,
)
from ..model.field_checks import check_number, check_span, check_word
from ..model.members import below, effort, first_of, runs
from ..model.message_content import Attributes, size_of
from ..model.message_ids import sent_at
from ..model.names import NotAName, body_path
from ..model.operations import MAX_BODY_IN_MEMORY, UNFINISHED, Message, MessageRun, Unfinished
from ..model.receipts import make_set_token, mark_in, mark_of
from ..model.reservation_names import Marker, ReservationName, parse_reservation_name
from ..model.reservation_records import ReservationRecord
from ..model.reservation_requests import (
    MAX_EFFORT,
    MAX_RESERVED_MESSAGES,
    MAX_SEQUENCE_NUMBER,
    MAX_STREAM_NAME,
    MEMORY,
    MIN_RESERVATION_TIMEOUT,
    SLICE_EFFORT,
    CommitReservations,
    Committed,
    ExtendReservation,
    MarkRead,
    Page,
    QuarantineReserved,
    Release,
    Reservation,
    Reserve,
    UndoReservation,
)
from ..model.sealed import NotWhole, Torn
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import State
from .catalog import Catalog
from .dead_letters import DeadLetters
from .entries import Entry, Groups
from .leaser import Leaser
from .moves import Moves, begin_lease, received
from .part import DUE_NOW, RETRY, Part, Turn
from .reader import Reader

log = logging.getLogger(__name__)

FOLDER: Final = "reserved"
PAGE_MESSAGES: Final = 4_000
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Of bodies and attributes, but always one message: half of what a gRPC client takes."""
_GONE: Final = (State.REMOVED, State.QUARANTINED)

Key = tuple[str, int]
"""A stream and a number in it."""


@dataclass(slots=True)
class _PartialSet:
    """A set that is leased in slices, and has no record yet."""

    queue: str
    token: str
    runs: list[tuple[str, int, int]] = field(default_factory=list)
    """Files, members and receives, as in `ReservationRecord`."""


@dataclass(slots=True, eq=False)
class HeldSet:
    """A set that was reserved, held or lost."""

    name: ReservationName
    record: ReservationRecord
    ends: Millis
    """When the hold is over, monotonic."""
    changed: int
    """The commit that made, lost or found it: durable before it is finished."""
    is_told: bool = True
    """Whether a caller was told of it that has not made it."""
    is_discarded: bool = False
    """Whether it is lost, and its record goes with its last lease."""

    @property
    def key(self) -> Key:
        return self.name.stream, self.name.sequence_number

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.name}"

    @property
    def due(self) -> Millis:
        assert self.name.due is not None
        return self.name.due

    def is_over(self, now: Millis) -> bool:
        """Return whether the hold is over at the monotonic time `now`, noted or not."""
        return self.name.is_lost or self.ends <= now


@dataclass(frozen=True, slots=True)
class _StreamCommit:
    """The newest marker of a stream."""

    sequence_number: int
    marker: Marker
    made: int
    """The store's commit that made or found it."""


class Reserver(Part):
    """Not thread-safe."""

    folders = (FOLDER,)

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        reader: Reader,
        dead_letters: DeadLetters,
        leaser: Leaser,
        clock: Clock,
        random: Random,
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._dead_letters = dead_letters
        self._leaser = leaser
        self._clock = clock
        self._random = random
        self.sets: dict[Key, HeldSet] = {}
        self.markers: dict[str, _StreamCommit] = {}
        """By stream."""
        self._partial: dict[Key, _PartialSet] = {}
        self._reads: dict[str, int] = {}
        """How often each set was read from its beginning, by its token."""
        self._changed: dict[Key, None] = {}
        """Sets and markers whose files were read: all of a set's leases may not be there."""
        self._ends: list[tuple[Millis, Key]] = []
        """When holds end, the next one first. An entry counts as long as its set says the same."""
        self._over: dict[HeldSet, None] = {}
        """Sets that are lost or committed, and not done with."""
        self._unnamed: dict[str, None] = {}
        """Tokens of leases that are of no set, and are to be undone."""
        self._stale: dict[str, int] = {}
        """Files that don't count, and the commit that must be durable before they go."""
        self.pending = (self._changed, self._ends, self._over, self._unnamed, self._stale)
        self.slice_effort = SLICE_EFFORT
        self._effort_left = SLICE_EFFORT
        """For what this commit may still bring back, undo or delete."""
        self._retry_at = Millis(0)
        self.turns = (
            Turn(UndoReservation, self._unreserve),
            Turn(QuarantineReserved, self._quarantine),
            Turn(MarkRead, self._mark_read),
            Turn(Release, self._release),
            Turn(ExtendReservation, self._extend),
            Turn(CommitReservations, self._commit),
        )
        """But for `reserve`, which comes after the receives."""

    # The requests.

    def reserve(self, request: Reserve) -> Reservation | Unfinished | None:
        """Lease what is ready under a name, or find it there; None if nothing is ready."""
        key = request.stream, request.sequence_number
        _check_name(*key)
        check_number("max_messages", request.max_messages, 1, MAX_RESERVED_MESSAGES)
        check_number("max_bytes", request.max_bytes, 1)
        _check_hold(request.visibility_timeout)
        if key not in self._partial:
            self._require_own(request.stream, request.allowed)
        there = self.sets[key].record if key in self.sets else self._partial.get(key)
        if there is not None and there.queue != request.queue and key[1] > self.committed(key[0]):
            raise NameTaken(kind="stream", name=request.stream)
        begun = _PartialSet(request.queue, make_set_token(self._moves.owner, self._random))
        partial_set = self._partial.setdefault(key, begun)
        outcome: Reservation | Unfinished | None = None
        try:
            self._refuse_committed(*key)
            self._unlink_stale()
            if key in self.sets:
                held = self._find(*key)
                held.is_told = True
                return self._shown(held)
            outcome = self._lease_slice(partial_set, request)
            return outcome
        finally:
            if outcome is not UNFINISHED:
                del self._partial[key]

    def _lease_slice(
        self, partial_set: _PartialSet, request: Reserve
    ) -> Reservation | Unfinished | None:
        """Lease the next slice of a set; with the last one its record is written."""
        self._catalog.require_same(request)
        queue, token = self._catalog.require(partial_set.queue), partial_set.token
        self._leave_out_unleased(partial_set)
        if self._leaser.expire(queue):
            return UNFINISHED
        batches, runs = self._moves.index.batches, partial_set.runs
        left = MAX_EFFORT - sum(effort(members) for _, members, _ in runs)
        # Of a strict group, only one slice could lease.
        most = left if queue.settings.group_order == "strict" else min(left, self.slice_effort)
        picked = self._leaser.pick(
            queue,
            request.max_messages - sum(members.bit_count() for _, members, _ in runs),
            request.max_bytes
            - sum(batches[text].counted_bytes_of(members) for text, members, _ in runs),
            {},
            max_effort=most,
            at_least_one=not runs,
        )
        runs += [(entry.batch.stem.text, members, received(entry)) for entry, members in picked]
        if not runs:
            return None
        timeout = request.visibility_timeout
        if timeout is None:
            timeout = max(MIN_RESERVATION_TIMEOUT, queue.settings.visibility_timeout)
        wall = self._clock.wall()
        until = Millis(wall + timeout), Millis(self._clock.monotonic() + timeout)
        if most <= sum(effort(members) for _, members in picked) < left:
            self._lease(picked, token, until)
            return UNFINISHED
        held = HeldSet(
            ReservationName(
                stream=request.stream, sequence_number=request.sequence_number, due=until[0]
            ),
            ReservationRecord(
                queue=queue.name,
                queue_created_at=queue.created_at,
                token=token,
                visibility_timeout=timeout,
                made_at=wall,
                size=sum(batches[text].bytes_of(members) for text, members, _ in runs),
                files=tuple((text, members) for text, members, _ in runs),
                receives=tuple(receives for _, _, receives in runs),
            ),
            until[1],
            self._moves.commit,
            is_told=False,
        )
        # It comes before the last leases: a process that finds this one dead finds by it what to undo.
        self._moves.create_file(held.path, held.record.encode())
        self._add(held)
        try:
            self._lease(picked, token, until)
        except StoreError:
            self._attempt(partial(self._give_up, held))
            raise
        return self._shown(held, is_new=True)

    def _lease(
        self, runs: Sequence[tuple[Entry, int]], token: str, until: tuple[Millis, Millis]
    ) -> None:
        together: dict[Entry, int] = {}
        for entry, members in runs:
            together[entry] = together.get(entry, 0) | members
        for entry, members in together.items():
            begin_lease(self._moves, entry, members, until, token)

    def _leave_out_unleased(self, partial_set: _PartialSet) -> None:
        """Leave out what is no longer leased under the token: it was deleted since."""
        left: dict[str, int] = {}
        for entry in self._moves.index.leases_of.get(partial_set.token, ()):
            text = entry.batch.stem.text
            left[text] = left.get(text, 0) | entry.held
        partial_set.runs = [
            (text, there, receives)
            for text, members, receives in partial_set.runs
            if (there := members & left.get(text, 0))
        ]

    def _extend(self, request: ExtendReservation) -> Reservation:
        _check_hold(request.visibility_timeout)
        held = self._find(request.stream, request.sequence_number, request.allowed)
        visibility_timeout = request.visibility_timeout
        if visibility_timeout is None:
            visibility_timeout = held.record.visibility_timeout
        self._rename(held, replace(held.name, due=Millis(self._clock.wall() + visibility_timeout)))
        held.ends = Millis(self._clock.monotonic() + visibility_timeout)
        heappush(self._ends, (held.ends, held.key))
        return self._shown(held)

    def _release(self, request: Release) -> None:
        held = self._require(request.stream, request.sequence_number, request.allowed)
        self._lose(held)
        self._rename(held, replace(held.name, is_read=False))

    def _commit(self, request: CommitReservations) -> Committed:
        stream, last_sequence_number = request.stream, request.last_sequence_number
        check_word("stream", stream, MAX_STREAM_NAME)
        check_number("last_sequence_number", last_sequence_number, 0, MAX_SEQUENCE_NUMBER)
        self._require_own(stream, request.allowed)
        before = self.committed(stream)
        keys = sorted(key for key in self.sets if key[0] == stream and key[1] <= last_sequence_number)
        mine = [self.sets[key] for key in keys]
        if last_sequence_number > before and (stream, last_sequence_number) not in self.sets:
            # Its messages may be ready: in this root, or in the one that the stream is of.
            raise ReservationNotFound(stream=stream, sequence_number=last_sequence_number)
        now = self._clock.monotonic()
        lost = [held for held in mine if held.is_over(now) and not self._is_committed(held)]
        done = [held for held in mine if held not in lost]
        deleted = 0
        if last_sequence_number > before:
            for held in done:
                if request.only_read and not held.name.is_read:
                    raise ReservationUnread(stream=stream, sequence_number=held.name.sequence_number)
            for held in lost:
                self._lose(held)
            for held in list(lost):
                if held.name.sequence_number <= before or not held.name.is_read:
                    continue
                untouched = self._untouched(held)
                count = sum(members.bit_count() for _, members in untouched)
                if count == held.record.messages:
                    self._lease_again(held)
                    lost.remove(held)
                    done.append(held)
                else:
                    # No marker is needed: a lost set is read by no one, and stays lost.
                    for entry, members in untouched:
                        self._moves.delete(entry, members)
                    deleted += count
            numbers = sorted(held.name.sequence_number for held in done)
            queues = tuple(sorted({held.record.queue for held in mine})) or self._queues_of(stream)
            self._write_marker(stream, last_sequence_number, numbers, queues)
            self._over.update(dict.fromkeys(done))
            for held in lost:
                if held.name.sequence_number <= before:
                    self._discard(held)
                    held.changed = self._moves.commit  # The marker must be durable before.
            lost = [held for held in lost if held.name.sequence_number > before]
        elif not mine and self.markers[stream].marker.made_at < self._clock.wall() - MEMORY // 2:
            # An idle reader that asks now and then is remembered for as long as it does. All sets of
            # the old marker are done with.
            queues = self._queues_of(stream)
            self._moves.unlink_file(_marker_path(stream, before))
            del self.markers[stream]
            self._write_marker(stream, before, [], queues)
        # Else what was told before is told again: that answer may not have been heard.
        deleted += sum(entry.held.bit_count() for held in done for entry in self._leases(held))
        return Committed(messages=deleted, lost=[held.name.sequence_number for held in lost])

    def _write_marker(
        self, stream: str, sequence_number: int, sets: Sequence[int], queues: tuple[str, ...]
    ) -> None:
        marker = Marker(sets=tuple(sets), queues=queues, made_at=self._clock.wall())
        self._moves.create_file(_marker_path(stream, sequence_number), marker.encode(), urgent=True)
        self._mark(stream, _StreamCommit(sequence_number, marker, self._moves.commit))

    def _mark_read(self, request: MarkRead) -> None:
        held = self._find(request.stream, request.sequence_number, request.allowed)
        self._rename(held, replace(held.name, is_read=True))

    def _unreserve(self, request: UndoReservation) -> None:
        held = self.sets.get((request.stream, request.sequence_number))
        # Answers of other processes aren't known; a caller that asks for the set again finds it.
        changes = self._moves.changes
        if held is None or held.is_told or (changes is not None and changes.is_shared):
            return
        if not held.is_over(self._clock.monotonic()) and not self._is_committed(held):
            self._give_up(held)
            self._effort_left = self.slice_effort
            self._undo_unnamed()

    def _quarantine(self, request: QuarantineReserved) -> None:
        held = self.sets.get((request.stream, request.sequence_number))
        found = self._moves.index.holder(request.id)
        if held is None or found is None or found[0].name.token != held.record.token:
            return
        entry, index = found
        try:
            self._reader.message(entry, index)  # It may only have moved.
        except Damaged:
            log.error("message %s goes to quarantine: %s", request.id, request.why)
            self._moves.move(entry, 1 << index, State.QUARANTINED)

    # Questions. Where other processes are, they are asked while the index is exact.

    def committed(self, stream: str) -> int:
        """Return up to where the stream is committed; -1 if nothing is."""
        newest = self.markers.get(stream)
        return -1 if newest is None else newest.sequence_number

    def shown(self, queue: str, stream: str, after: Key, limit: int) -> list[Reservation]:
        """Return up to `limit` sets above `after`, by stream and number, that aren't committed."""
        found = sorted(
            (held.key, held)
            for held in self._uncommitted()
            if held.key > after
            and stream in ("", held.name.stream)
            and queue in ("", held.record.queue)
        )
        return [self._shown(held) for _, held in found[:limit]]

    def held_in(self, queue: str) -> dict[str, Reservation]:
        """Return the sets of a queue that are held, by the tokens of their leases."""
        now = self._clock.monotonic()
        return {
            held.record.token: self._shown(held)
            for held in self._uncommitted()
            if held.record.queue == queue and not held.is_over(now)
        }

    def count(self) -> tuple[int, int]:
        """Return how many sets are held, and how many are lost."""
        now = self._clock.monotonic()
        over = [held.is_over(now) for held in self._uncommitted()]
        return len(over) - sum(over), sum(over)

    def _uncommitted(self) -> Iterator[HeldSet]:
        for held in self.sets.values():
            if held.name.sequence_number > self.committed(held.name.stream):
                yield held

    def due_of(self, token: str) -> Millis | None:
        """Return the Unix time at which leases with this token of a set end, which their names don't
        say."""
        return next((held.due for held in self.sets.values() if held.record.token == token), None)

    def begin_reading(
        self,
        stream: str,
        sequence_number: int,
        begin: int,
        end: int,
        allowed: Callable[[str], bool] | None = None,
    ) -> int:
        """Return the place before which a read ends; an `end` of 0 is the set's.

        Raise what a read of the set must be told.
        """
        check_number("begin", begin, 0, MAX_RESERVED_MESSAGES)
        check_number("end", end, 0, MAX_RESERVED_MESSAGES)
        held = self._find(stream, sequence_number, allowed)
        if not begin:
            token = held.record.token
            self._reads[token] = self._reads.get(token, 0) + 1
        held.is_told = True
        return min(end or held.record.messages, held.record.messages)

    def page(self, stream: str, sequence_number: int, begin: int, end: int) -> Page:
        """Read messages at the places from `begin` to before `end`, in order, as many as a page holds;
        without those deleted. Raise `DiskError`, or what a read must be told."""
        held = self._find(stream, sequence_number)
        page, place = Page(following=begin), 0
        end = min(end, begin + PAGE_MESSAGES)
        for text, members in held.record.files:
            count = members.bit_count()
            if place + count > begin:
                wanted = first_of(members, end - place) & ~first_of(members, max(0, begin - place))
                for first, last, entry in self._leased_runs(held, text, wanted):
                    unread = self._add_run(page, held, entry, first, last)
                    if unread is not None:
                        page.following = place + below(members, unread).bit_count()
                        return page
                page.following = min(place + count, end)
            place += count
            if place >= end:
                break
        return page

    def _leased_runs(self, held: HeldSet, text: str, wanted: int) -> list[tuple[int, int, Entry]]:
        """Return the messages of a file that are still in the set, by unbroken runs of indexes."""
        batch = self._moves.index.batches.get(text)
        found = [
            (first, last, entry)
            for entry in ([] if batch is None else batch.entries)
            if entry.name.token == held.record.token
            for first, last in runs(entry.held & wanted)
        ]
        return sorted(found, key=itemgetter(0))

    def _add_run(self, page: Page, held: HeldSet, entry: Entry, first: int, last: int) -> int | None:
        """Read messages from the index `first` to `last`; return the index of the first one that the
        page has no room for."""
        try:
            line = self._reader.line(entry)
            until, size = first, page.size
            while until <= last:
                more = _size_in_memory(entry, line, until)
                if size + more > PAGE_BYTES and (page.runs or until > first):
                    break
                size, until = size + more, until + 1
            if until > first:
                page.runs.append(self._run(held, entry, line, first, until - 1))
                page.size = size
            return until if until <= last else None
        except Damaged as why:
            if first < last:
                # One by one: the others can be read.
                for index in range(first, last + 1):
                    if self._add_run(page, held, entry, index, index) is not None:
                        return index
                return None
            (stream, number), id = held.key, entry.batch.stem.message_id(first)
            gone = QuarantineReserved(stream=stream, sequence_number=number, id=id, why=str(why))
            page.damaged.append(gone)
            return None

    def _run(self, held: HeldSet, entry: Entry, line: Line, first: int, last: int) -> MessageRun:
        batch, name = entry.batch, entry.name
        bodies = self._reader.joined_bodies(entry, first, last)
        places = range(last + 1 - first)
        attributes: dict[int, Attributes] = {}
        groups: dict[int, str] = {}
        if said := line.attributes:
            attributes = {place: each for place in places if (each := said.get(first + place))}
        if line.groups:
            by_index = batch.groups or Groups(line.groups, batch.stem.full)
            groups = {place: group for place in places if (group := by_index.of(first + place))}
        id, is_external = batch.stem.message_id(first), batch.stem.is_external
        return MessageRun(
            first=Message(
                queue=name.queue,
                id=id,
                state=State.LEASED,
                body=b"",
                attributes={},
                priority=batch.stem.priority,
                size=batch.stem.size if is_external else 0,
                body_path=body_path(id) if is_external else "",
                sent_at=sent_at(id),
                receives=name.receives,
                first_receive=name.first,
                due=held.due,
                receipt=None,
            ),
            bodies=bodies,
            sizes=[len(bodies)] if is_external else line.sizes[first : last + 1],
            attributes=attributes,
            groups=groups,
        )

    # Work between requests.

    @property
    def _is_end_due(self) -> bool:
        """Whether a hold is over, and that isn't noted."""
        first = self._first_to_end()
        return first is not None and first.ends <= self._clock.monotonic()

    def next_due(self) -> Millis | None:
        if self._retry_at > self._clock.monotonic():
            return self._retry_at
        if self._changed or self._over or self._unnamed or self._stale:
            return DUE_NOW
        first = self._first_to_end()
        return None if first is None else first.ends

    def _first_to_end(self) -> HeldSet | None:
        """Return the set whose hold is over next, and isn't noted as over."""
        while self._ends:
            ends, key = self._ends[0]
            held = self.sets.get(key)
            if held is not None and held.ends == ends and not held.name.is_lost:
                return held
            heappop(self._ends)
        return None

    @property
    def has_durable(self) -> bool:
        return self._clock.monotonic() >= self._retry_at and any(
            self._is_committed(held)
            and self._committed_in(held) <= self._moves.synced
            and held.record.token in self._moves.index.leases_of
            for held in self._over
        )

    def is_coming_back(self, queue: str) -> bool:
        """Return whether a hold is over, which has to be durable before its messages are ready."""
        now, synced = self._clock.monotonic(), self._moves.synced
        return any(
            held.record.queue == queue
            and (held.changed > synced if held.name.is_lost else held.ends <= now)
            and not self._is_committed(held)
            for held in (self.sets.values() if self._is_end_due else self._over)
        )

    @property
    def is_in_slices(self) -> bool:
        """Whether the next commit leases, brings back, undoes or deletes more of a set."""
        if self._partial or self._effort_left > 0:
            return bool(self._partial)
        due = self.next_due()
        return due is not None and due <= self._clock.monotonic()

    def advance(self) -> None:
        self._effort_left = self.slice_effort
        self._attempt(self._apply_changes)
        self._attempt(self._end_holds)
        self._attempt(self._undo_unnamed)
        for held in list(self._over):
            self._attempt(partial(self._finish, held))
        self._attempt(self._unlink_stale)

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            self._moves.require_read(self.folders)
            step()
        except StoreError as error:
            log.warning("reservations have to wait: %s", error)
            self._retry_at = Millis(self._clock.monotonic() + RETRY)

    def _apply_changes(self) -> None:
        """Undo what was never answered, and follow the markers of other processes."""
        if not self._changed:
            return
        for key in self._changed:
            held = self.sets.get(key)
            if held is not None and not held.name.is_lost and self._has_slipped(held):
                self._give_up(held)
        for held in self.sets.values():
            if self._is_committed(held):
                self._over[held] = None
                if held.name.is_lost:
                    # A power cut may have kept the marker, and not the leases that came before it.
                    self._lease_again(held)
            elif held.name.sequence_number <= self.committed(held.name.stream):
                self._lose(held)  # It was lost before that commit, by a clock that was ahead.
        self._changed.clear()

    def _end_holds(self) -> None:
        now = self._clock.monotonic()
        while (held := self._first_to_end()) is not None and held.ends <= now:
            if not self._is_committed(held):
                self._lose(held)
            heappop(self._ends)

    def _finish(self, held: HeldSet) -> None:
        """Bring the messages of a lost set back, and delete those of a committed one, once that is
        durable."""
        is_committed = self._is_committed(held)
        if (self._committed_in(held) if is_committed else held.changed) > self._moves.synced:
            return
        leases = self._leases(held)
        for entry in leases:
            if self._effort_left <= 0:
                break
            self._effort_left -= effort(entry.held)
            if is_committed:
                count = entry.held.bit_count()
                self._moves.delete(entry, entry.held)
                self._moves.statistics.count(held.record.queue, "commit", count)
            else:
                self._leaser.bring_back(entry, entry.held)
        if leases:
            return  # The rest is for the next commits.
        if not is_committed and not held.is_discarded:
            del self._over[held]
            return
        batches = self._moves.index.batches
        changed = [batches[text].changed for text, _ in held.record.files if text in batches]
        if max(changed, default=0) <= self._moves.synced:
            self._moves.unlink_file(held.path)
            self._drop(held)

    def tick(self) -> None:
        """Find what dead processes have leased for no set; forget what is long over."""
        self._find_unnamed()
        before = self._clock.wall() - MEMORY
        for held in self.sets.values():
            if held.name.is_lost and held.due < before:
                self._discard(held)
        known = {held.record.token for held in self.sets.values()}
        self._reads = {token: reads for token, reads in self._reads.items() if token in known}
        for stream in self.markers.keys() - {stream for stream, _ in self.sets}:
            if self.markers[stream].marker.made_at < before:
                self._moves.unlink_file(_marker_path(stream, self.committed(stream)))
                del self.markers[stream]

    # The sets and markers.

    def recover(self) -> None:
        for known in (self.sets, self.markers, self._changed, self._over, self._unnamed, self._stale):
            known.clear()
        # In the order of their names: of two records of a set the one that ends first is kept.
        for path in sorted(f"{FOLDER}/{each.name}" for each in self._moves.scan(FOLDER)):
            try:
                self._read(path)
            except StoreError as error:
                log.error("%s can't be read, so reservations have to wait: %s", path, error)
                self._moves.unread[path] = None
            self._moves.syncer.lone_file_written(path)
        self._moves.syncer.folder_changed(FOLDER)
        self._find_unnamed()

    def path_changed(self, path: str) -> None:
        try:
            name = parse_reservation_name(path.removeprefix(f"{FOLDER}/"))
        except NotAName:
            return
        held = self.sets.get((name.stream, name.sequence_number))
        if name.due is None:
            if self.committed(name.stream) == name.sequence_number:
                del self.markers[name.stream]
        elif held is not None and held.name == name:
            self._drop(held)
        self._read(path)

    def _read(self, path: str) -> None:
        """Take in a file that may be there; `_apply_changes` follows. Raise `DiskError`, `DiskFull`."""
        self._stale.pop(path, None)
        try:
            name = parse_reservation_name(path.removeprefix(f"{FOLDER}/"))
            self._changed[name.stream, name.sequence_number] = None
            content = self._moves.disk.read(path, afresh=True)
            if name.due is None:
                commit = _StreamCommit(name.sequence_number, Marker.decode(content), self._moves.commit)
                self._mark(name.stream, commit)
            else:
                self._keep(name, ReservationRecord.decode(content))
        except NotAName:
            log.warning("%a is none of ours", path)
        except FileNotFoundError:
            pass
        except Torn as error:
            log.info("%s was never written whole: %s", path, error)
            self._stale[path] = 0
        except NotWhole as error:
            self._moves.quarantine(path, f"this reservation's file is damaged: {error}")
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise explained(error) from error
            self._moves.quarantine(path, "it is no file")

    def _keep(self, name: ReservationName, record: ReservationRecord) -> None:
        assert name.due is not None
        left = min(name.due - self._clock.wall(), MAX_VISIBILITY)
        found = HeldSet(name, record, Millis(self._clock.monotonic() + left), self._moves.commit)
        useless = self.sets.get(found.key)
        if useless is None or (useless.record.token == record.token and name.is_lost):
            self._add(found)
        else:
            useless = found
        # Of two sets the older one was undone, and that isn't durable: none of them was answered.
        if useless is not None:
            self._stale[useless.path] = 0

    def _add(self, held: HeldSet) -> None:
        """Take in a set, in place of one under the same key."""
        there = self.sets.get(held.key)
        if there is not None:
            self._drop(there)
        self.sets[held.key] = held
        heappush(self._ends, (held.ends, held.key))
        if held.name.is_lost:
            self._over[held] = None
        self._unnamed.pop(held.record.token, None)

    def _drop(self, held: HeldSet) -> None:
        """Drop a set whose record is gone, or goes."""
        self.sets.pop(held.key, None)
        self._over.pop(held, None)

    def _mark(self, stream: str, commit: _StreamCommit) -> None:
        """Take in a marker: of a stream the greatest counts, any other goes once that is durable."""
        other = self.markers.get(stream)
        if other is not None and other.sequence_number > commit.sequence_number:
            other, commit = commit, other
        self.markers[stream] = commit
        if other is not None:
            self._stale[_marker_path(stream, other.sequence_number)] = commit.made

    def _leases(self, held: HeldSet) -> list[Entry]:
        """Return the leases of a set."""
        return list(self._moves.index.leases_of.get(held.record.token, ()))

    def _entries(self, held: HeldSet) -> Iterator[tuple[Entry, int, int]]:
        """Yield what holds messages of a set: the entry, these messages, and their receives when the
        set was made."""
        for (text, members), receives in zip(held.record.files, held.record.receives, strict=True):
            batch = self._moves.index.batches.get(text)
            for entry in [] if batch is None else batch.entries:
                if entry.held & members:
                    yield entry, entry.held & members, receives

    def _untouched(self, held: HeldSet) -> list[tuple[Entry, int]]:
        """Return the messages of a lost set that no one has leased since, and that don't die."""
        found: list[tuple[Entry, int]] = []
        for entry, members, receives in self._entries(held):
            name = entry.name
            if name.token == held.record.token:
                is_untouched = not self._dead_letters.dies_with_lease(entry)
            else:
                # Receives begin anew after a redrive; the first one is then later than the set.
                is_untouched = (
                    name.state is State.READY
                    and name.queue == held.record.queue
                    and name.receives == receives
                    and (name.first or 0) <= held.record.made_at
                )
            if is_untouched:
                found.append((entry, members))
        return found

    def _lease_again(self, held: HeldSet) -> None:
        """Lease what is untouched of a lost set that is committed: no receive may come before the
        marker is durable."""
        for entry, members in self._untouched(held):
            if entry.name.token != held.record.token:
                self._moves.move(
                    entry,
                    members,
                    State.LEASED,
                    until=(held.due, held.ends),
                    token=held.record.token,
                )

    def _has_slipped(self, held: HeldSet) -> bool:
        """Return whether a message of the set is there, and not under its lease."""
        return any(
            entry.name.token != held.record.token and entry.name.state not in _GONE
            for entry, _, _ in self._entries(held)
        )

    def _committed_in(self, held: HeldSet) -> int:
        """Return the store's commit that holds the newest marker of the set's stream."""
        return self.markers[held.name.stream].made

    def _is_committed(self, held: HeldSet) -> bool:
        """Return whether a commit names it."""
        newest = self.markers.get(held.name.stream)
        return newest is not None and held.name.sequence_number in newest.marker.sets

    def _is_queue_gone(self, held: HeldSet) -> bool:
        """Return whether its queue was deleted, also if its name is another queue's by now."""
        record, created_at = self._catalog.records.get(held.record.queue), held.record.queue_created_at
        return record is None or (created_at is not None and created_at != record.created_at)

    # Changes. A `StoreError` means that nothing has changed, or that it is tried again.

    def _lose(self, held: HeldSet) -> None:
        """Note that the hold is over, if that isn't noted."""
        if not held.name.is_lost:
            ended = min(held.due, self._clock.wall())
            self._rename(held, replace(held.name, due=ended, is_lost=True))
            held.changed = self._moves.commit
            self._over[held] = None

    def _rename(self, held: HeldSet, name: ReservationName) -> None:
        if name != held.name:
            if held.changed > self._moves.synced and not self._moves.disk.can_sync_all:
                # The commit that wrote it syncs it under its old name.
                self._moves.sync_contents([held.path])
            self._moves.rename_file(held.path, f"{FOLDER}/{name}")
            held.name = name

    def _discard(self, held: HeldSet) -> None:
        """Let a lost set's record go, once its leases have."""
        if not held.is_discarded:
            held.is_discarded = True
            self._over[held] = None

    def _give_up(self, held: HeldSet) -> None:
        """Undo a set that was never answered: without its record its leases are of no set."""
        self._drop(held)
        self._stale[held.path] = 0
        self._unnamed[held.record.token] = None
        self._unlink_stale()

    def _unlink_stale(self) -> None:
        for path, commit in list(self._stale.items()):
            if commit <= self._moves.synced:
                self._moves.unlink_file(path)
                del self._stale[path]

    def _find_unnamed(self) -> None:
        """Find leases whose token no record has, but for those that a process is about to name."""
        known = {each.token for each in self._partial.values()}
        known.update(held.record.token for held in self.sets.values())
        unnamed = self._moves.index.leases_of.keys() - known
        if not unnamed:
            return
        moves = self._moves
        owners = () if moves.changes is None else moves.changes.members
        others = {mark_of(owner) for owner in owners if owner != moves.owner and moves.is_living(owner)}
        self._unnamed.update((token, None) for token in unnamed if mark_in(token) not in others)

    def _undo_unnamed(self) -> None:
        """Undo leases of no set, up to what one commit may move: they don't count as receives."""
        for token in list(self._unnamed):
            for entry in list(self._moves.index.leases_of.get(token, ())):
                if self._effort_left <= 0:
                    return
                self._effort_left -= effort(entry.held)
                self._unlease(entry)
            del self._unnamed[token]

    def _unlease(self, entry: Entry) -> None:
        self._moves.move(entry, entry.held, State.READY, receives=entry.name.receives - 1)

    # Answers and checks of the requests.

    def _shown(self, held: HeldSet, *, is_new: bool = False) -> Reservation:
        return Reservation(
            queue=held.record.queue,
            stream=held.name.stream,
            sequence_number=held.name.sequence_number,
            messages=held.record.messages,
            bytes=held.record.size,
            expires_at=held.due,
            is_lost=held.is_over(self._clock.monotonic()) or self._is_queue_gone(held),
            reads=self._reads.get(held.record.token, 0),
            is_new=is_new,
        )

    def _require(
        self, stream: str, sequence_number: int, allowed: Callable[[str], bool] | None
    ) -> HeldSet:
        """Return the set, held or lost; raise what a caller must be told otherwise."""
        _check_name(stream, sequence_number)
        self._require_own(stream, allowed)
        self._refuse_committed(stream, sequence_number)
        held = self.sets.get((stream, sequence_number))
        if held is None:
            raise ReservationNotFound(stream=stream, sequence_number=sequence_number)
        return held

    def _require_own(self, stream: str, allowed: Callable[[str], bool] | None) -> None:
        """Raise `NameTaken` for another caller's stream: its sets, or those of its last commit, are of
        a queue that isn't allowed."""
        self._moves.require_read(self.folders)
        if allowed is None:
            return
        queues = {held.record.queue for key, held in self.sets.items() if key[0] == stream}
        queues |= {partial.queue for key, partial in self._partial.items() if key[0] == stream}
        if not all(map(allowed, queues.union(self._queues_of(stream)))):
            raise NameTaken(kind="stream", name=stream)

    def _queues_of(self, stream: str) -> tuple[str, ...]:
        """Return the queues that the stream's newest marker names."""
        newest = self.markers.get(stream)
        return () if newest is None else newest.marker.queues

    def _find(
        self, stream: str, sequence_number: int, allowed: Callable[[str], bool] | None = None
    ) -> HeldSet:
        """Return the set, as long as its hold lasts; raise what a caller must be told otherwise."""
        held = self._require(stream, sequence_number, allowed)
        if held.is_over(self._clock.monotonic()) or self._is_queue_gone(held):
            raise ReservationLost(stream=stream, sequence_number=sequence_number)
        return held

    def _refuse_committed(self, stream: str, sequence_number: int) -> None:
        self._moves.require_read(self.folders)
        committed = self.committed(stream)
        if sequence_number <= committed:
            raise ReservationCommitted(
                stream=stream, sequence_number=sequence_number, committed=committed
            )


def _marker_path(stream: str, sequence_number: int) -> str:
    return f"{FOLDER}/{ReservationName(stream=stream, sequence_number=sequence_number)}"


def _size_in_memory(entry: Entry, line: Line, index: int) -> int:
    """Return the bytes that a message takes: of a body too large for memory none."""
    size = line.sizes[index]
    if line.is_external and size > MAX_BODY_IN_MEMORY:
        size = 0
    attributes = line.attributes.get(index)
    return size + size_of(attributes) if attributes else size


def _check_name(stream: str, sequence_number: int) -> None:
    check_word("stream", stream, MAX_STREAM_NAME)
    check_number("sequence_number", sequence_number, 0, MAX_SEQUENCE_NUMBER)


def _check_hold(visibility_timeout: Millis | None) -> None:
    if visibility_timeout is not None:
        check_span("visibility_timeout", visibility_timeout, MIN_RESERVATION_TIMEOUT, MAX_VISIBILITY)
