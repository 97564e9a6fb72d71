"""Reservations: sets of leases under a name, which their reader may read again until it commits them.

A set is a record in `reserved/`, written once, and lease names in `delay/` that share its token
(`reservation_index` has the names, and the states of a set). One commit makes both, the record first.
The hold ends when the record's name says. The due in a lease's name doesn't count, so that an extension
is one rename. The leases of a set are brought back, deleted and undone here only: `leaser` passes over
them, and no consumer has a receipt of them.

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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from random import Random
from typing import Final

from ..files.layout import RESERVED
from ..model.batch_file import Damaged
from ..model.clock import Millis
from ..model.errors import (
    NameTaken,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
    ReservationUnread,
    StoreError,
    TooManyReservations,
)
from ..model.field_checks import check_number, check_span, check_word
from ..model.members import effort
from ..model.operations import UNFINISHED, Allowed, Unfinished
from ..model.receipts import make_set_token, mark_in, mark_of
from ..model.reservation_names import Marker, ReservationName, ReservationRecord
from ..model.reservation_requests import (
    MAX_EFFORT,
    MAX_RESERVATIONS,
    MAX_RESERVED_MESSAGES,
    MAX_SEQUENCE_NUMBER,
    MAX_STREAM_NAME,
    MEMORY,
    MIN_RESERVATION_TIMEOUT,
    REMEMBERED_SETS,
    CommitReservations,
    Committed,
    ExtendReservation,
    MarkRead,
    Page,
    QuarantineReserved,
    Release,
    Reservation,
    ReservationState,
    Reserve,
    UndoReservation,
)
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import Move, State
from .catalog import Catalog
from .dead_letters import DeadLetters
from .entries import Entry
from .leaser import Leaser
from .moves import FileVanished, Moves, begin_lease, received
from .part import DUE_NOW, RETRY, Part, postponing
from .reader import Reader
from .reservation_index import (
    WORK,
    Key,
    ReservationIndex,
    ReservedSet,
    SetState,
    StreamCommit,
    marker_path,
)
from .set_reader import SetReader
from .turns import PORTION, Turn

log = logging.getLogger(__name__)

_GONE: Final = (State.REMOVED, State.QUARANTINED)


@dataclass(slots=True)
class _PartialSet:
    """A set that is leased in slices, and has no record yet."""

    queue: str
    token: str
    runs: list[tuple[str, int, int]] = field(default_factory=list)
    """Files, members and receives, as in `ReservationRecord`."""


class Reserver(Part):
    """Not thread-safe."""

    folders = (RESERVED,)

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        reader: Reader,
        dead_letters: DeadLetters,
        leaser: Leaser,
        random: Random,
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._dead_letters = dead_letters
        self._leaser = leaser
        self._clock = moves.clock
        self._random = random
        self.effort = moves.effort
        """Slices of sets draw on it."""
        self._set_reader = SetReader(moves.index, reader)
        self.index = ReservationIndex(moves)
        self.sets: Final = self.index.sets
        self._partial_sets: dict[Key, _PartialSet] = {}
        self._read_counts: dict[str, int] = {}
        """How often each set was read from its beginning, by its token."""
        self._tokens_without_record: dict[str, None] = {}
        """Tokens of leases that are of no set, and are to be undone."""
        index = self.index
        worked_on = (index.in_state[state] for state in WORK)
        self.pending = (
            index.unchecked_keys,
            index.ends.times,
            self._tokens_without_record,
            index.stale_files,
            self._partial_sets,
            *worked_on,
        )
        self._effort_left = 1
        """The rest of this commit's share of the effort, to bring back, undo or delete."""
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
        if key not in self._partial_sets:
            self._require_own(request.stream, request.allowed)
        record = self.sets[key].record if key in self.sets else self._partial_sets.get(key)
        if (
            record is not None
            and record.queue != request.queue
            and key[1] > self.index.committed(key[0])
        ):
            raise NameTaken(kind="stream", name=request.stream)
        token = make_set_token(self._moves.owner, self._random)
        partial_set = self._partial_sets.setdefault(key, _PartialSet(request.queue, token))
        outcome: Reservation | Unfinished | None = None
        try:
            self._refuse_committed(*key)
            self._unlink_stale()
            if key in self.sets:
                a_set = self._find(*key)
                a_set.is_told = True
                return self._shown(a_set)
            outcome = self._lease_slice(partial_set, request)
            return outcome
        finally:
            if outcome is not UNFINISHED:
                del self._partial_sets[key]

    def _lease_slice(
        self, partial_set: _PartialSet, request: Reserve
    ) -> Reservation | Unfinished | None:
        """Lease the next slice of a set; with the last one its record is written."""
        self._catalog.require_same(request)
        queue, token = self._catalog.require(partial_set.queue), partial_set.token
        if not partial_set.runs:
            self._require_room(queue.name)
        self._leave_out_unleased(partial_set)
        if self._leaser.expire(queue):
            return UNFINISHED
        batches, runs = self._moves.index.batches, partial_set.runs
        left = MAX_EFFORT - sum(effort(members) for _, members, _ in runs)
        # Of a strict group, only one slice can lease: with it the set is whole.
        # It is the last of the commit's work, and takes all that is left.
        is_only = queue.settings.group_order == "strict"
        most = min(left, PORTION if is_only else max(1, self.effort.left))
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
        spent = sum(effort(members) for _, members in picked)
        self.effort.spend(spent)
        if most <= spent < left and not is_only:
            self._lease(picked, token, until)
            return UNFINISHED
        a_set = ReservedSet(
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
        self._moves.create_file(a_set.path, a_set.record.encode())
        self.index.add(a_set)
        try:
            self._lease(picked, token, until)
        except StoreError:
            self._attempt(partial(self._give_up, a_set))
            raise
        return self._shown(a_set, is_new=True)

    def _require_room(self, queue: str) -> None:
        held = self.index.count_of(queue)
        if held >= MAX_RESERVATIONS:
            raise TooManyReservations(queue=queue, held=held, limit=MAX_RESERVATIONS)

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
        leased_members: dict[str, int] = {}
        for entry in self._moves.index.leases_of.get(partial_set.token, ()):
            text = entry.batch.stem.text
            leased_members[text] = leased_members.get(text, 0) | entry.members
        partial_set.runs = [
            (text, rest, receives)
            for text, members, receives in partial_set.runs
            if (rest := members & leased_members.get(text, 0))
        ]

    def _extend(self, request: ExtendReservation) -> Reservation:
        _check_hold(request.visibility_timeout)
        a_set = self._find(request.stream, request.sequence_number, request.allowed, request.queue)
        visibility_timeout = request.visibility_timeout
        if visibility_timeout is None:
            visibility_timeout = a_set.record.visibility_timeout
        self._rename(a_set, replace(a_set.name, due=Millis(self._clock.wall() + visibility_timeout)))
        a_set.ends = Millis(self._clock.monotonic() + visibility_timeout)
        self.index.ends.set(a_set.key, a_set.ends)
        return self._shown(a_set)

    def _release(self, request: Release) -> None:
        a_set = self._require(request.stream, request.sequence_number, request.allowed, request.queue)
        self._lose(a_set)
        self._rename(a_set, replace(a_set.name, is_read=False))

    def _commit(self, request: CommitReservations) -> Committed:
        stream, last_sequence_number = request.stream, request.last_sequence_number
        check_word("stream", stream, MAX_STREAM_NAME)
        check_number("last_sequence_number", last_sequence_number, 0, MAX_SEQUENCE_NUMBER)
        self._catalog.require_named(request.queue)
        self._require_own(stream, request.allowed)
        before, sets = self.index.committed(stream), self.index.of_stream(stream)
        mine = [sets[number] for number in sorted(sets) if number <= last_sequence_number]
        self._require_known(stream, last_sequence_number, request.queue)
        now = self._clock.monotonic()
        lost = [a_set for a_set in mine if a_set.is_over(now) and a_set.state is not SetState.COMMITTED]
        done = [a_set for a_set in mine if a_set not in lost]
        deleted = 0
        if last_sequence_number > before:
            for a_set in done:
                if request.only_read and not a_set.name.is_read:
                    raise ReservationUnread(stream=stream, sequence_number=a_set.name.sequence_number)
            for a_set in lost:
                self._lose(a_set)
            told = [a_set for a_set in lost if a_set.name.sequence_number <= before]
            lost = [a_set for a_set in lost if a_set not in told]
            for a_set in [a_set for a_set in lost if a_set.name.is_read]:
                untouched = self._untouched(a_set)
                count = sum(members.bit_count() for _, members in untouched)
                if count == a_set.record.messages:
                    self._lease_again(a_set)
                    lost.remove(a_set)
                    done.append(a_set)
                else:
                    # No marker is needed: a lost set is read by no one, and stays lost.
                    for entry, members in untouched:
                        self._moves.delete(entry, members)
                    deleted += count
            numbers = sorted(a_set.name.sequence_number for a_set in done)
            queues = tuple(sorted({a_set.record.queue for a_set in mine}))
            self._write_marker(stream, last_sequence_number, numbers, queues)
            for a_set in told:
                self.index.change(a_set, SetState.DISCARDED)
                a_set.changed = self._moves.commit  # The marker must be durable before.
        elif (
            not mine
            and self.index.markers[stream].marker.made_at < self._clock.proven_wall() - MEMORY // 2
        ):
            # An idle reader that asks now and then is remembered for as long as it does. All sets of
            # the old marker are done with.
            with postponing(log, "the memory of the stream %s", stream):
                self._renew_marker(stream)
        # Else what was told before is told again: that answer may not have been heard.
        leases_of = self._moves.index.leases_of
        deleted += sum(
            entry.members.bit_count()
            for a_set in done
            for entry in leases_of.get(a_set.record.token, ())
        )
        return Committed(
            deleted_count=deleted, lost_sequence_numbers=[a_set.name.sequence_number for a_set in lost]
        )

    def _require_known(self, stream: str, number: int, queue: str) -> None:
        """Raise `ReservationNotFound` or `ReservationCommitted` for the commit of a set that was never
        made in this root, or that is not remembered: its messages may be ready, here or in the root
        that it is of."""
        a_set, last_commit = self.sets.get((stream, number)), self.index.markers.get(stream)
        if last_commit is None or number > last_commit.sequence_number:
            is_of_another = a_set is None or queue not in ("", a_set.record.queue)
        else:
            queues = last_commit.marker.queues
            is_of_another = a_set is None and bool(queue and queues) and queue not in queues
        if is_of_another:
            raise ReservationNotFound(stream=stream, sequence_number=number)
        if last_commit is None or a_set is not None:
            return
        if number < last_commit.sequence_number and number not in last_commit.marker.sets:
            self._refuse_committed(stream, number)

    def _write_marker(
        self, stream: str, sequence_number: int, sets: Sequence[int], queues: tuple[str, ...]
    ) -> None:
        last_commit = self.index.markers.get(stream)
        # A commit that is repeated behind later ones is told from one of another root.
        marked = () if last_commit is None else last_commit.marker.sets
        earlier_sets = [number for number in marked if number not in sets]
        marker = Marker(
            sets=(*earlier_sets[-REMEMBERED_SETS:], *sets), queues=queues, made_at=self._clock.wall()
        )
        self._moves.create_file(marker_path(stream, sequence_number), marker.encode(), urgent=True)
        self.index.mark(stream, StreamCommit(sequence_number, marker, self._moves.commit))

    def _renew_marker(self, stream: str) -> None:
        """Write the newest marker again: it is remembered from now on."""
        last_commit = self.index.markers[stream]
        marker = replace(last_commit.marker, made_at=self._clock.wall())
        path = marker_path(stream, last_commit.sequence_number)
        self._moves.replace_file(path, marker.encode())
        self.index.mark(stream, replace(last_commit, marker=marker, made=self._moves.commit))

    def _mark_read(self, request: MarkRead) -> None:
        a_set = self._find(request.stream, request.sequence_number, request.allowed, request.queue)
        self._rename(a_set, replace(a_set.name, is_read=True))

    def _unreserve(self, request: UndoReservation) -> None:
        a_set = self.sets.get((request.stream, request.sequence_number))
        # Answers of other processes aren't known; a caller that asks for the set again finds it.
        changes = self._moves.changes
        if a_set is None or a_set.is_told or (changes is not None and changes.is_shared):
            return
        if a_set.state is SetState.HELD and not a_set.is_over(self._clock.monotonic()):
            self._give_up(a_set)
            self._effort_left = self.effort.share()
            self._undo_unnamed()

    def _quarantine(self, request: QuarantineReserved) -> None:
        a_set = self.sets.get((request.stream, request.sequence_number))
        found = self._moves.index.holder(request.id)
        if a_set is None or found is None or found[0].name.token != a_set.record.token:
            return
        entry, index = found
        try:
            self._reader.message(entry, index)  # It may only have moved.
        except Damaged:
            log.error("message %s goes to quarantine: %s", request.id, request.why)
            self._moves.move(entry, 1 << index, Move.QUARANTINE)

    # Questions. Where other processes are, they are asked while the index is exact.

    def shown(self, queue: str, stream: str, after: Key, limit: int) -> list[Reservation]:
        """Return up to `limit` sets above `after`, by stream and number, that aren't committed."""
        self._catalog.require_named(queue)
        found = (
            self.sets[name, number]
            for name in ([stream] if stream else sorted(self.index.streams))
            if name >= after[0]
            for number in sorted(self.index.of_stream(name))
            if (name, number) > after
        )
        listed = (
            a_set
            for a_set in found
            if queue in ("", a_set.record.queue) and self._is_uncommitted(a_set)
        )
        return [self._shown(a_set) for a_set in islice(listed, limit)]

    def find(self, stream: str, sequence_number: int, queue: str = "") -> Reservation:
        """Return a set, of `queue` if it is given, that isn't committed; raise `ReservationNotFound`,
        or `WrongShard` for a queue elsewhere."""
        self._catalog.require_named(queue)
        a_set = self.sets.get((stream, sequence_number))
        if a_set is None or queue not in ("", a_set.record.queue) or not self._is_uncommitted(a_set):
            raise ReservationNotFound(stream=stream, sequence_number=sequence_number)
        return self._shown(a_set)

    def held_in(self, queue: str) -> dict[str, Reservation]:
        """Return the sets of a queue that are held, by the tokens of their leases."""
        now = self._clock.monotonic()
        return {
            a_set.record.token: self._shown(a_set)
            for a_set in self.index.of_queue.get(queue, ())
            if a_set.state is SetState.HELD and self._is_uncommitted(a_set) and not a_set.is_over(now)
        }

    def count(self) -> tuple[int, int]:
        """Return how many sets are held, and how many are lost. In any thread."""
        in_state = self.index.in_state
        lost = len(in_state[SetState.ENDING]) + len(in_state[SetState.LOST])
        return len(in_state[SetState.HELD]), lost

    def _is_uncommitted(self, a_set: ReservedSet) -> bool:
        return a_set.name.sequence_number > self.index.committed(a_set.name.stream)

    def due_of(self, token: str) -> Millis | None:
        """Return the Unix time at which leases with this token of a set end, which their names don't
        say."""
        a_set = self.index.of_token.get(token)
        return None if a_set is None else a_set.due

    def begin_reading(
        self,
        stream: str,
        sequence_number: int,
        begin: int,
        end: int,
        allowed: Allowed = None,
        queue: str = "",
    ) -> int:
        """Return the place before which a read ends; an `end` of 0 is the set's.

        Raise what a read of the set must be told.
        """
        check_number("begin", begin, 0, MAX_RESERVED_MESSAGES)
        check_number("end", end, 0, MAX_RESERVED_MESSAGES)
        a_set = self._find(stream, sequence_number, allowed, queue)
        if not begin:
            token = a_set.record.token
            self._read_counts[token] = self._read_counts.get(token, 0) + 1
        a_set.is_told = True
        return min(end or a_set.record.messages, a_set.record.messages)

    def page(self, stream: str, sequence_number: int, begin: int, end: int) -> Page:
        """Read messages at the places from `begin` to before `end`, in order, as many as a page holds;
        without those deleted. Raise `DiskError`, or what a read must be told."""
        return self._set_reader.page(self._find(stream, sequence_number), begin, end)

    # Work between requests.

    def next_due(self) -> Millis | None:
        if self._retry_at > self._clock.monotonic():
            return self._retry_at
        index = self.index
        if (
            index.unchecked_keys
            or self._tokens_without_record
            or index.stale_files
            or any(index.in_state[at] for at in WORK)
        ):
            return DUE_NOW
        return index.ends.next()

    @property
    def has_durable(self) -> bool:
        return self._clock.monotonic() >= self._retry_at and any(
            self._is_durable(a_set) and a_set.record.token in self._moves.index.leases_of
            for a_set in self.index.in_state[SetState.COMMITTED]
        )

    def _is_durable(self, a_set: ReservedSet) -> bool:
        """Return whether the state of the set is durable, so that its leases may move."""
        since = a_set.changed
        if a_set.state is SetState.COMMITTED and a_set.name.stream in self.index.markers:
            since = self.index.markers[a_set.name.stream].made
        return since <= self._moves.synced

    def is_coming_back(self, queue: str) -> bool:
        """Return whether a hold is over, which has to be durable before its messages are ready."""
        index, now, synced = self.index, self._clock.monotonic(), self._moves.synced
        next_end = index.ends.next()
        is_end_due = next_end is not None and next_end <= now
        ending = (index.in_state[SetState.ENDING], index.in_state[SetState.DISCARDED])
        return any(
            a_set.record.queue == queue
            and (a_set.changed > synced if a_set.name.is_lost else a_set.ends <= now)
            and a_set.state is not SetState.COMMITTED
            for a_set in (index.of_queue.get(queue, ()) if is_end_due else chain(*ending))
        )

    @property
    def is_in_slices(self) -> bool:
        """Whether the next commit leases, brings back, undoes or deletes more of a set."""
        if self._partial_sets or self._effort_left > 0:
            return bool(self._partial_sets)
        due = self.next_due()
        return due is not None and due <= self._clock.monotonic()

    def advance(self) -> None:
        self._effort_left = self.effort.share()
        self._attempt(self._apply_changes)
        self._attempt(self._end_holds)
        self._attempt(self._undo_unnamed)
        for state in WORK:
            for a_set in list(islice(self.index.in_state[state], max(1, self._effort_left))):
                self._attempt(partial(self._finish, a_set))
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
        index = self.index
        for key in index.unchecked_keys:
            a_set = self.sets.get(key)
            if a_set is not None and not a_set.name.is_lost and self._has_slipped(a_set):
                self._give_up(a_set)
        for stream in dict.fromkeys(stream for stream, _ in index.unchecked_keys):
            for a_set in index.of_stream(stream).values():
                if index.is_named(a_set):
                    if a_set.name.is_lost:
                        # A power cut may have kept the marker, and not the leases that came before it.
                        self._lease_again(a_set)
                elif a_set.state is SetState.HELD and not self._is_uncommitted(a_set):
                    self._lose(a_set)  # It was lost before that commit, by a clock that was ahead.
        index.unchecked_keys.clear()

    def _end_holds(self) -> None:
        ends, now = self.index.ends, self._clock.monotonic()
        while self._effort_left > 0 and (key := ends.pop(now)) is not None:
            self._spend(1)
            try:
                self._lose(self.sets[key])
            except FileVanished:
                continue
            except StoreError as error:
                log.warning("%s stays held for now: %s", self.sets[key].path, error)
                ends.set(key, Millis(now + RETRY))

    def _finish(self, a_set: ReservedSet) -> None:
        """Bring the messages of a lost set back, and delete those of a committed one, once that is
        durable; then let its record go, unless its reader is to hear that it is lost."""
        if not self._is_durable(a_set):
            return
        work, leases = WORK[a_set.state], self._moves.index.leases_of.get(a_set.record.token, {})
        for entry in self._slice(leases):
            if work.deletes:
                count = entry.members.bit_count()
                self._moves.delete(entry, entry.members)
                self._moves.statistics.count(a_set.record.queue, "commit", count)
            else:
                self._leaser.bring_back(entry, entry.members)
        if leases:
            return  # The rest is for the next commits.
        if work.then is not None:
            self.index.change(a_set, work.then)
            if (oldest := self.index.oldest_lost(a_set.name.stream)) is not None:
                self.index.change(oldest, SetState.DISCARDED)
            return
        files = (self._moves.index.file(text) for text, _ in a_set.record.files)
        changed = [file.changed for file in files if file is not None]
        if max(changed, default=0) <= self._moves.synced:
            self._spend(1)
            self._moves.unlink_file(a_set.path)
            self.index.drop(a_set)

    def _slice(self, leases: Collection[Entry]) -> Iterator[Entry]:
        """Yield leases, which the caller moves, as long as the commit's effort lasts."""
        for entry in list(islice(leases, max(0, self._effort_left))):
            if self._effort_left <= 0:
                return
            self._spend(effort(entry.members))
            yield entry

    def _spend(self, renames: int) -> None:
        self._effort_left -= renames
        self.effort.spend(renames)

    def tick(self) -> None:
        """Find what dead processes have leased for no set; forget what is long over."""
        self._find_unnamed()
        before = self._clock.proven_wall() - MEMORY
        index = self.index
        for state in (SetState.ENDING, SetState.LOST):
            for a_set in [a_set for a_set in index.in_state[state] if a_set.due < before]:
                index.change(a_set, SetState.DISCARDED)
        self._read_counts = {
            token: reads for token, reads in self._read_counts.items() if token in index.of_token
        }
        for stream in index.markers.keys() - index.streams.keys():
            if index.markers[stream].marker.made_at < before:
                self._moves.unlink_file(marker_path(stream, index.committed(stream)))
                index.drop_marker(stream)

    # The sets and markers.

    def recover(self) -> None:
        self._tokens_without_record.clear()
        self.index.recover()
        self._find_unnamed()

    def path_changed(self, path: str) -> None:
        self.index.path_changed(path)

    def _entries(self, a_set: ReservedSet) -> Iterator[tuple[Entry, int, int]]:
        """Yield what holds messages of a set: the entry, these messages, and their receives when the
        set was made."""
        for (text, members), receives in zip(a_set.record.files, a_set.record.receives, strict=True):
            batch = self._moves.index.file(text)
            for entry in [] if batch is None else batch.entries:
                if entry.members & members:
                    yield entry, entry.members & members, receives

    def _untouched(self, a_set: ReservedSet) -> list[tuple[Entry, int]]:
        """Return the messages of a lost set that no one has leased since, and that don't die."""
        untouched: list[tuple[Entry, int]] = []
        for entry, members, receives in self._entries(a_set):
            name = entry.name
            if name.token == a_set.record.token:
                is_untouched = not self._dead_letters.dies_with_lease(entry)
            else:
                # Receives begin anew after a redrive: the first is later than the shortest hold then.
                # In sets of earlier versions it may be a little after `made_at`.
                is_untouched = (
                    name.state is State.READY
                    and name.queue == a_set.record.queue
                    and name.receives == receives
                    and (name.first or 0) < a_set.record.made_at + MIN_RESERVATION_TIMEOUT
                )
            if is_untouched:
                untouched.append((entry, members))
        return untouched

    def _lease_again(self, a_set: ReservedSet) -> None:
        """Lease what is untouched of a lost set that is committed: no receive may come before the
        marker is durable."""
        for entry, members in self._untouched(a_set):
            if entry.name.token != a_set.record.token:
                self._moves.move(
                    entry,
                    members,
                    Move.EXTEND,
                    until=(a_set.due, a_set.ends),
                    token=a_set.record.token,
                )

    def _has_slipped(self, a_set: ReservedSet) -> bool:
        """Return whether a message of the set is there, and not under its lease."""
        return any(
            entry.name.token != a_set.record.token and entry.name.state not in _GONE
            for entry, _, _ in self._entries(a_set)
        )

    def _is_queue_gone(self, a_set: ReservedSet) -> bool:
        """Return whether its queue was deleted, also if its name is another queue's by now."""
        record, created_at = (
            self._catalog.records.get(a_set.record.queue),
            a_set.record.queue_created_at,
        )
        return record is None or (created_at is not None and created_at != record.created_at)

    # Changes. A `StoreError` means that nothing has changed, or that it is tried again.

    def _lose(self, a_set: ReservedSet) -> None:
        """Note that the hold is over, if that isn't noted."""
        if not a_set.name.is_lost:
            ended = min(a_set.due, self._clock.wall())
            self._rename(a_set, replace(a_set.name, due=ended, is_lost=True))
            a_set.changed = self._moves.commit
            self.index.change(a_set, SetState.ENDING)

    def _rename(self, a_set: ReservedSet, name: ReservationName) -> None:
        if name != a_set.name:
            if a_set.changed > self._moves.synced and not self._moves.disk.can_sync_all:
                # The commit that wrote it syncs it under its old name.
                self._moves.sync_now([a_set.path])
            try:
                self._moves.rename_file(a_set.path, f"{RESERVED}/{name}")
            except FileVanished:
                # As in another process, and at a start: without a record its leases are of no set.
                log.error("the set in %s is no more, and its messages are ready again", a_set.path)
                self.index.drop(a_set)
                self._tokens_without_record[a_set.record.token] = None
                raise
            a_set.name = name

    def _give_up(self, a_set: ReservedSet) -> None:
        """Undo a set that was never answered: without its record its leases are of no set."""
        self.index.drop(a_set)
        self.index.stale_files[a_set.path] = 0
        self._tokens_without_record[a_set.record.token] = None
        self._unlink_stale()

    def _unlink_stale(self) -> None:
        stale = self.index.stale_files
        for path in [path for path, commit in stale.items() if commit <= self._moves.synced]:
            self._moves.unlink_file(path)
            del stale[path]

    def _find_unnamed(self) -> None:
        """Find leases whose token no record has, but for those that a process is about to name."""
        known = {each.token for each in self._partial_sets.values()}
        unnamed = self._moves.index.leases_of.keys() - self.index.of_token.keys() - known
        if not unnamed:
            return
        moves = self._moves
        owners = () if moves.changes is None else moves.changes.owners
        others = {mark_of(owner) for owner in owners if owner != moves.owner and moves.is_living(owner)}
        self._tokens_without_record.update(
            (token, None) for token in unnamed if mark_in(token) not in others
        )

    def _undo_unnamed(self) -> None:
        """Undo leases of no set, up to what one commit may move: they don't count as receives."""
        for token in list(self._tokens_without_record):
            leases = self._moves.index.leases_of.get(token, {})
            if token in self.index.of_token:
                leases = {}  # Another process has written its record since.
            for entry in self._slice(leases):
                self._unlease(entry)
            if leases:
                return
            del self._tokens_without_record[token]

    def _unlease(self, entry: Entry) -> None:
        self._moves.move(entry, entry.members, Move.REQUEUE, receives=entry.name.receives - 1)

    # Answers and checks of the requests.

    def _shown(self, a_set: ReservedSet, *, is_new: bool = False) -> Reservation:
        is_lost = a_set.is_over(self._clock.monotonic()) or self._is_queue_gone(a_set)
        return Reservation(
            queue=a_set.record.queue,
            stream=a_set.name.stream,
            sequence_number=a_set.name.sequence_number,
            message_count=a_set.record.messages,
            byte_count=a_set.record.size,
            expires_at=a_set.due,
            state=ReservationState.LOST if is_lost else ReservationState.HELD,
            read_count=self._read_counts.get(a_set.record.token, 0),
            is_new=is_new,
        )

    def _require(
        self, stream: str, sequence_number: int, allowed: Allowed, queue: str = ""
    ) -> ReservedSet:
        """Return the set, held or lost; raise what a caller must be told otherwise."""
        _check_name(stream, sequence_number)
        self._catalog.require_named(queue)
        self._require_own(stream, allowed)
        self._refuse_committed(stream, sequence_number)
        a_set = self.sets.get((stream, sequence_number))
        if a_set is None or queue not in ("", a_set.record.queue):
            raise ReservationNotFound(stream=stream, sequence_number=sequence_number)
        return a_set

    def _require_own(self, stream: str, allowed: Allowed) -> None:
        """Raise `NameTaken` for another caller's stream: its sets, or those of its last commit, are of
        a queue that isn't allowed."""
        self._moves.require_read(self.folders)
        if allowed is None:
            return
        queues = {a_set.record.queue for a_set in self.index.of_stream(stream).values()}
        queues |= {partial.queue for key, partial in self._partial_sets.items() if key[0] == stream}
        if not all(map(allowed, queues.union(self._queues_of(stream)))):
            raise NameTaken(kind="stream", name=stream)

    def _queues_of(self, stream: str) -> tuple[str, ...]:
        """Return the queues that the stream's newest marker names."""
        newest = self.index.markers.get(stream)
        return () if newest is None else newest.marker.queues

    def _find(
        self, stream: str, sequence_number: int, allowed: Allowed = None, queue: str = ""
    ) -> ReservedSet:
        """Return the set, as long as its hold lasts; raise what a caller must be told otherwise."""
        a_set = self._require(stream, sequence_number, allowed, queue)
        if a_set.is_over(self._clock.monotonic()) or self._is_queue_gone(a_set):
            raise ReservationLost(stream=stream, sequence_number=sequence_number)
        return a_set

    def _refuse_committed(self, stream: str, sequence_number: int) -> None:
        self._moves.require_read(self.folders)
        committed = self.index.committed(stream)
        if sequence_number <= committed:
            raise ReservationCommitted(
                stream=stream, sequence_number=sequence_number, committed=committed
            )


def _check_name(stream: str, sequence_number: int) -> None:
    check_word("stream", stream, MAX_STREAM_NAME)
    check_number("sequence_number", sequence_number, 0, MAX_SEQUENCE_NUMBER)


def _check_hold(visibility_timeout: Millis | None) -> None:
    if visibility_timeout is not None:
        check_span("visibility_timeout", visibility_timeout, MIN_RESERVATION_TIMEOUT, MAX_VISIBILITY)
