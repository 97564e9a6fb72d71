"""Redrives: dead letters move back to their source queues, or to another one.

    redrives/<id>,m<moved>,f<failed>[,w<why>][,x][,o<owner>][@<ended>]

A record's content says what is to be done and is written once; its name says how far that has come,
and counts only what is durable (`model.redrive_names`). A message moves by one
link or rename, which keeps its file and the history in it, and notes the time.

A redrive looks at all messages of the queue in one pass. If some of them had to wait, a later pass
looks at all again. A pass is in memory only: any process may go on with any redrive, and moves nothing
twice, because what was moved is in the queue no longer. `owner` is the process that moved messages
last: the others stand by as long as they hear of it. Each of them ends the redrive only after a pass of
its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from ..files.disk import explaining
from ..files.layout import REDRIVES
from ..model.clock import SECOND, Millis
from ..model.dead_letter_records import NotAHistory
from ..model.errors import (
    InvalidQueueName,
    InvalidRequest,
    QueueFull,
    RedriveNotFound,
    RedriveRunning,
    StoreError,
)
from ..model.field_checks import check_number
from ..model.members import first_of, indexes
from ..model.message_ids import FileIds, is_id, sent_at
from ..model.names import FIFO, NotAName, is_fifo, is_queue_name
from ..model.redrive_names import (
    FailureReason,
    MoveFailure,
    RedriveName,
    RedriveOrder,
    parse_redrive,
)
from ..model.redrive_requests import (
    MAX_RATE,
    MAX_REMEMBERED,
    MAX_SELECTED,
    REDRIVE_MEMORY,
    CancelRedrive,
    Redrive,
    StartRedrive,
)
from ..model.transitions import Move, State
from .catalog import Catalog, QueueRecord, QueueRoom
from .dead_letters import DeadLetters
from .effort import FILES
from .entries import Entry
from .moves import FileVanished, Moves
from .part import DUE_NOW, RETRY, Part, postponing
from .reader import read_records

log = logging.getLogger(__name__)

_UNKNOWN_SOURCE: Final = (FailureReason.NO_HISTORY, FailureReason.DAMAGED_HISTORY)

AT_ONCE: Final = FILES // 2
"""Messages that one commit looks at, of all redrives together: a part's share."""
PORTION: Final = Millis(100)
"""Messages that a rate allows in so much time are moved together."""
MOST_WAITING: Final = 1_000
"""A pass ends when so many messages wait for room."""
STAND_BY: Final = Millis(2 * SECOND)
"""Another process continues a redrive after this time without news of it."""


class Pace:
    """A token bucket: a number of messages a second, with a burst of a portion at most."""

    def __init__(self, rate: int, now: Millis) -> None:
        """A `rate` of 0 has no bound."""
        self._rate = rate
        self._most = max(SECOND, min(rate * PORTION, AT_ONCE * SECOND))
        self._allowed = 0
        """In thousandths of a message."""
        self._since = now

    def allowed(self, now: Millis, most: int) -> int:
        """Return how many messages may be moved now, up to `most`."""
        if not self._rate:
            return most
        passed = max(0, now - self._since)
        self._since = now
        self._allowed = min(self._most, self._allowed + passed * self._rate)
        return min(most, self._allowed // SECOND)

    def moved(self, count: int) -> None:
        if self._rate:
            self._allowed -= count * SECOND

    def next(self, now: Millis) -> Millis:
        """Return the time at which enough messages are allowed to be worth a commit."""
        if not self._rate:
            return now
        return Millis(self._since + max(0, -(-(self._most - self._allowed) // self._rate)))


@dataclass(slots=True, eq=False)
class _Drive:
    """A redrive, and this process's pass through its queue."""

    name: RedriveName
    order: RedriveOrder
    since: int
    """The last commit that must be durable before it goes on at first, and before it ends."""
    due: Millis
    """Monotonic: when it goes on."""
    pace: Pace
    after: str = ""
    """The pass has looked at all up to this id."""
    at: int = 0
    """Of a selection by ids the place of the next one."""
    failed: int = 0
    """Messages of this pass that stay."""
    failure: MoveFailure | None = None
    waiting: int = 0
    """Messages of this pass that wait for room."""
    is_through: bool = False
    unsynced: list[tuple[int, int]] = field(default_factory=list)
    """How many messages each commit has moved that isn't synced yet."""

    @property
    def path(self) -> str:
        return f"{REDRIVES}/{self.name}"

    @property
    def goes_on(self) -> bool:
        return self.name.ended is None

    def begin_pass(self) -> None:
        self.after, self.at, self.failed, self.waiting, self.failure = "", 0, 0, 0, None


class Redriver(Part):
    """All redrives of a root. Not thread-safe."""

    folders = (REDRIVES,)

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        dead_letters: DeadLetters,
        queue_room: QueueRoom,
        ids: FileIds,
    ) -> None:
        self._moves = moves
        self._clock = moves.clock
        self._catalog = catalog
        self._dead_letters = dead_letters
        self._queue_room = queue_room
        self._ids = ids
        self._redrives: dict[str, _Drive] = {}
        """By id."""
        self._of_queue: dict[str, dict[str, None]] = {}
        """The ids of each queue's redrives, the oldest first."""
        self._active_redrives: dict[str, _Drive] = {}
        """Those that go on, or have to say what they moved; the first has waited longest for a turn."""
        self.pending = (self._active_redrives,)

    # The records.

    def recover(self) -> None:
        latest: dict[str, RedriveName] = {}
        for name in self._names():
            other = latest.setdefault(name.id, name)
            if other is not name:
                # A power cut has kept the name that a rename had replaced.
                older, latest[name.id] = sorted((other, name), key=_age)
                self._moves.unlink_file(f"{REDRIVES}/{older}")
        self._moves.syncer.folder_changed(REDRIVES)
        for id in self._redrives.keys() - latest.keys():
            self._drop(id)
        for name in latest.values():
            self._ids.rise_above(name.id)
            self._update(name, self._clock.monotonic())

    def path_changed(self, path: str) -> None:
        """Know a redrive by the name that it has now; nothing is listed."""
        name = self._parsed(path.rpartition("/")[2])
        if name is None:
            return
        if self._moves.is_there(path):
            self._update(name, Millis(self._clock.monotonic() + STAND_BY))
            return
        drive = self._redrives.get(name.id)
        if drive is not None and drive.name == name and name.ended is not None:
            self._drop(name.id)  # Any other was renamed, and its new name is told, too.

    def _names(self) -> Iterator[RedriveName]:
        """Yield the names in the folder, in order; put any other file aside."""
        texts: list[str] = []
        with explaining(), suppress(FileNotFoundError):
            texts = sorted(each.name for each in self._moves.disk.scan(REDRIVES))
        yield from filter(None, map(self._parsed, texts))

    def _parsed(self, text: str) -> RedriveName | None:
        """Return the name of a redrive; put any other file aside."""
        try:
            return parse_redrive(text)
        except NotAName as error:
            with postponing(log, "the quarantine of redrives/%a", text):
                self._moves.quarantine(f"{REDRIVES}/{text}", f"it is no redrive: {error}")
        return None

    def _update(self, name: RedriveName, due: Millis) -> None:
        """Know a redrive by the name that it has now."""
        now, commit = self._clock.monotonic(), self._moves.commit
        drive = self._redrives.get(name.id)
        if drive is not None:
            if drive.name != name:
                drive.name, drive.due, drive.since = name, due, commit
                drive.pace = Pace(drive.order.rate, now)
        else:
            try:
                order = self._moves.read_record(f"{REDRIVES}/{name}", RedriveOrder.decode, "redrive")
            except StoreError as error:
                log.error("the redrive %s can't be read, and doesn't go on: %s", name, error)
                return
            if order is None:
                return
            drive = _Drive(name, order, commit, due, Pace(order.rate, now))
        self._keep(drive)

    def _keep(self, drive: _Drive) -> None:
        """Know a redrive, behind all others that have work."""
        id = drive.name.id
        self._redrives[id] = drive
        self._of_queue.setdefault(drive.order.queue, {})[id] = None
        self._active_redrives.pop(id, None)
        if drive.goes_on or drive.unsynced:
            self._active_redrives[id] = drive

    def _drop(self, id: str) -> None:
        drive = self._redrives.pop(id, None)
        self._active_redrives.pop(id, None)
        if drive is not None:
            of_queue = self._of_queue[drive.order.queue]
            del of_queue[id]
            if not of_queue:
                del self._of_queue[drive.order.queue]

    def _unlink_oldest(self, queue: str) -> None:
        """Unlink the oldest redrives of a queue, of which none is running, before a new one."""
        ids = self._of_queue.get(queue, {})
        # A root of an earlier version may have more; a commit unlinks few of them.
        for id in list(islice(ids, min(2, max(0, len(ids) + 1 - MAX_REMEMBERED)))):
            self._moves.unlink_file(self._redrives[id].path)
            self._drop(id)

    def _rename(self, drive: _Drive, name: RedriveName) -> None:
        if name != drive.name:
            try:
                self._moves.rename_file(drive.path, f"{REDRIVES}/{name}")
            except FileVanished:
                log.error("the redrive %s is over: it has no record", name.id)
                self._drop(name.id)
                raise
            drive.name = name

    # The requests.

    def start(self, request: StartRedrive) -> Redrive:
        ids = _checked(request)
        record = self._catalog.require(request.queue)
        for what in ("destination", "source_queue"):
            if rule := self._catalog.broken_rule(record.name, value := getattr(request, what)):
                raise InvalidRequest(what=what, value=value, rule=rule)
        if request.destination:
            self._catalog.require_open(request.destination)
        for drive in self._active_redrives.values():
            if drive.goes_on and drive.order.queue == record.name:
                raise RedriveRunning(queue=record.name, redrive=drive.name.id)
        self._unlink_oldest(record.name)
        order = RedriveOrder(
            queue=record.name,
            queue_created_at=record.created_at,
            destination=request.destination,
            source_queue=request.source_queue,
            ids=ids,
            rate=request.max_messages_per_second,
            started_at=self._clock.wall(),
        )
        name, now = RedriveName(id=self._ids.make()), self._clock.monotonic()
        self._moves.create_file(f"{REDRIVES}/{name}", order.encode(), sync=True)
        pace = Pace(order.rate, now)
        drive = _Drive(name, order, self._moves.commit, pace.next(now), pace)
        self._keep(drive)
        return self._shown(drive)

    def cancel(self, request: CancelRedrive) -> Redrive:
        drive = self._found(request.id, request.queue)
        if drive.goes_on:
            self._end(drive, is_cancelled=True)
            self._keep(drive)
        return self._shown(drive)

    @property
    def running(self) -> int:
        """Number of running redrives. In any thread."""
        return len(self._active_redrives)

    def find(self, id: str, queue: str = "") -> Redrive:
        """Return a redrive; raise `RedriveNotFound`, also if it isn't of `queue`, `WrongShard` for a
        queue elsewhere, or `InvalidRequest`."""
        return self._shown(self._found(id, queue))

    def listed(self, queue: str, after: str, limit: int) -> list[Redrive]:
        """Return up to `limit` redrives above the id `after`, in order; if there is a `queue`, of this
        one only."""
        self._catalog.require_named(queue)
        ids = sorted(id for id, drive in self._redrives.items() if queue in ("", drive.order.queue))
        return [self._shown(self._redrives[id]) for id in ids if id > after][:limit]

    def _found(self, id: str, queue: str) -> _Drive:
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
        self._catalog.require_named(queue)
        drive = self._redrives.get(id)
        if drive is None or queue not in ("", drive.order.queue):
            raise RedriveNotFound(redrive=id)
        return drive

    def _shown(self, drive: _Drive) -> Redrive:
        name, order = drive.name, drive.order
        failed = max(name.failed, drive.failed) if drive.goes_on else name.failed
        failure = drive.failure or name.failure
        remaining = 0
        if drive.goes_on:
            ready = self._moves.index.queue(order.queue).counts[State.READY]
            remaining = max(0, ready - drive.failed)
            if order.ids:
                remaining = min(remaining, len(order.ids) - drive.at + drive.waiting)
            elif drive.is_through:
                remaining = 0
        return Redrive(
            id=name.id,
            queue=order.queue,
            destination=order.destination,
            source_queue=order.source_queue,
            max_messages_per_second=order.rate,
            state=name.state,
            moved_count=name.moved + sum(count for _, count in drive.unsynced),
            failed_count=failed,
            last_failure="" if failure is None else failure.text,
            lacks_queue=failure is not None and failure.why is FailureReason.NO_QUEUE,
            lacks_source=failure is not None and failure.why in _UNKNOWN_SOURCE,
            remaining_count=remaining,
            started_at=order.started_at,
            ended_at=name.ended,
        )

    # The work.

    def next_due(self) -> Millis | None:
        active = self._active_redrives.values()
        if any(drive.unsynced or drive.since > self._moves.synced for drive in active):
            return DUE_NOW
        return min((drive.due for drive in active if drive.goes_on), default=None)

    def advance(self) -> None:
        """Do a bounded part of the due moves."""
        now, left = self._clock.monotonic(), self._moves.effort.share()
        for id, drive in list(self._active_redrives.items()):
            if not _is_due(drive, now, self._moves.synced):
                continue
            try:
                self._count_synced(drive)
                if drive.goes_on and drive.due <= now and left > 0:
                    looked = self._advance(drive, now, left)
                    left -= looked
                    self._moves.effort.spend(looked)
            except FileVanished:
                continue
            except StoreError as error:
                log.warning("the redrive %s has to wait: %s", id, error)
                drive.due = Millis(now + RETRY)
            self._keep(drive)

    def count_moved(self) -> None:
        """Count the durable moves before this process leaves: no other process knows them."""
        for id, drive in list(self._active_redrives.items()):
            with postponing(log, "the count of the redrive %s", id):
                self._count_synced(drive)

    def tick(self) -> None:
        """Unlink redrives that ended long ago."""
        for id, drive in list(self._redrives.items()):
            ended = drive.name.ended
            if ended is not None and ended + REDRIVE_MEMORY <= self._clock.proven_wall():
                with postponing(log, "the unlinking of the old redrive %s", id):
                    self._moves.unlink_file(drive.path)
                    self._drop(id)

    def _count_synced(self, drive: _Drive) -> None:
        """Count what is durably moved in the name."""
        synced = [each for each in drive.unsynced if each[0] <= self._moves.synced]
        moved = drive.name.moved + sum(count for _, count in synced)
        self._rename(drive, replace(drive.name, moved=moved))
        drive.unsynced = drive.unsynced[len(synced) :]

    def _advance(self, drive: _Drive, now: Millis, most: int) -> int:
        """Do a part of a pass; return how many messages it looked at."""
        record = self._catalog.records.get(drive.order.queue)
        if record is None or record.created_at != drive.order.queue_created_at:
            drive.is_through = True  # Its messages were deleted with the queue.
        if drive.is_through:
            if drive.since <= self._moves.synced and not drive.unsynced:
                self._end(drive, is_cancelled=False)
            return 0
        allowed = drive.pace.allowed(now, most)
        looked, picks, is_through = self._pick(drive, most, allowed)
        moved = 0
        at = max(self._clock.wall(), drive.order.started_at)
        try:
            deaths = self._dead_letters.redriven(list(picks), Millis(at))
            for ((entry, destination), members), told in zip(picks.items(), deaths, strict=True):
                death, renewed = told
                self._moves.move(
                    entry,
                    members,
                    Move.REDRIVE,
                    queue=destination,
                    death=death,
                    renewed=renewed,
                )
                moved += members.bit_count()
                self._moves.statistics.count(destination, "redrive", members.bit_count())
        except StoreError:
            drive.begin_pass()
            raise
        finally:
            if moved:
                drive.pace.moved(moved)
                drive.since = self._moves.commit
                drive.unsynced.append((self._moves.commit, moved))
        if moved:
            self._rename(drive, replace(drive.name, owner=self._moves.owner))
        drive.due = now if is_through else drive.pace.next(now)
        if drive.waiting >= MOST_WAITING or (is_through and drive.waiting):
            drive.begin_pass()
            drive.due = Millis(now + RETRY)
        else:
            drive.is_through = is_through
        return looked

    def _end(self, drive: _Drive, *, is_cancelled: bool) -> None:
        self._rename(
            drive,
            replace(
                drive.name,
                failed=max(drive.name.failed, drive.failed) if is_cancelled else drive.failed,
                failure=drive.failure,
                owner=None,
                is_cancelled=is_cancelled,
                ended=self._clock.wall(),
            ),
        )

    def _pick(
        self, drive: _Drive, most: int, allowed: int
    ) -> tuple[int, Mapping[tuple[Entry, str], int], bool]:
        """Look at up to `most` messages; return how many, where up to `allowed` of them go, and
        whether these were the last."""
        room = self._queue_room
        room.begin()
        picks: dict[tuple[Entry, str], int] = {}
        looked = 0
        for entry, members, at, after in self._candidates(drive):
            if looked >= most:
                return looked, picks, False
            # The rest of this entry waits for another commit, too.
            now = first_of(members, most - looked)
            verdict = self._judge(drive.order, entry) if now else None
            if isinstance(verdict, QueueRecord):
                if not allowed:
                    return looked, picks, False
                now = first_of(now, allowed)
                fitting = _fitting(room, verdict, entry, now)
                drive.waiting += (now & ~fitting).bit_count()
                allowed -= fitting.bit_count()
                if fitting:
                    key = entry, verdict.name
                    picks[key] = picks.get(key, 0) | fitting
                if now != members and now == fitting:
                    return looked + now.bit_count(), picks, False
            elif verdict is not None:
                now = members
                drive.failed += now.bit_count()
                drive.failure = verdict
            looked += max(1, now.bit_count())
            drive.at, drive.after = at, after
        return looked, picks, True

    def _candidates(self, drive: _Drive) -> Iterator[tuple[Entry, int, int, str]]:
        """Yield what the pass hasn't looked at: the entry, its messages, and where the pass is then."""
        order, index = drive.order, self._moves.index
        if order.ids:
            for at in range(drive.at, len(order.ids)):
                found = index.holder(order.ids[at])
                if found is not None:
                    entry, place = found
                    is_here = entry.name.state is State.READY and entry.name.queue == order.queue
                    yield entry, 1 << place if is_here else 0, at + 1, ""
            return
        queue = index.queue(order.queue)
        for first, entry in queue.ready.since(drive.after):
            if first != drive.after:
                yield entry, entry.members, 0, first

    def _judge(self, order: RedriveOrder, entry: Entry) -> QueueRecord | MoveFailure | None:
        """Return where the messages of an entry go, or why they stay; None if they aren't selected.

        Raise `DiskError`.
        """
        stem, death = entry.batch.stem, entry.name.death
        source, since, wall = "", sent_at(stem.id), self._clock.wall()
        if death is not None:
            try:
                *before, last = read_records(self._moves.disk, entry.name)
            except NotAHistory as why:
                log.warning("how messages of %s died can't be told: %s", entry.name.path, why)
            else:
                source, since = last.source_queue, last.dead_lettered_at
                latest = max(wall, order.started_at)
                if any(order.started_at <= (each.redriven_at or 0) <= latest for each in before):
                    return None  # This redrive has moved it before, whatever the clock did since.
        if order.source_queue and source != order.source_queue:
            return None
        # A time later than now was written by a clock that was wrong.
        if order.started_at < since <= wall:
            return None
        destination = order.destination or source
        if not destination:
            return MoveFailure(FailureReason.DAMAGED_HISTORY if death else FailureReason.NO_HISTORY)
        record = self._catalog.records.get(destination)
        if record is None or destination == order.queue:
            return MoveFailure(FailureReason.NO_QUEUE, destination)
        return record


def _fitting(room: QueueRoom, record: QueueRecord, entry: Entry, members: int) -> int:
    """Take the room for the first of `members`; return those that it is enough for."""
    fitting = 0
    is_limited = record.settings.max_messages or record.settings.max_bytes
    for index in indexes(members) if is_limited else ():
        try:
            room.take(record, 1, entry.batch.counted_bytes_of(1 << index))
        except QueueFull:
            return fitting
        fitting |= 1 << index
    return members


def _is_due(drive: _Drive, now: Millis, synced: int) -> bool:
    if drive.unsynced and drive.unsynced[0][0] <= synced:
        return True
    if not drive.goes_on or drive.due > now:
        return False
    # It begins when its record is durable, and ends when all that was moved is.
    return drive.since <= synced or (bool(drive.unsynced) and not drive.is_through)


def _age(name: RedriveName) -> tuple[bool, int, int]:
    """Rank the names of one redrive: the later one has more of this."""
    return name.ended is not None, name.moved, name.failed


def _checked(request: StartRedrive) -> tuple[str, ...]:
    """Return the ids that are selected, each once, if all that is asked is valid."""
    if request.source_queue and not is_queue_name(request.source_queue):
        raise InvalidQueueName(name=request.source_queue)
    if request.destination and request.destination == request.queue:
        raise InvalidRequest(
            what="destination", value=request.destination, rule="must not be the queue itself"
        )
    if request.destination and is_fifo(request.destination) != is_fifo(request.queue):
        # Messages of a queue that isn't FIFO have no group, and those of one that is lose their order.
        raise InvalidRequest(
            what="destination",
            value=request.destination,
            rule=f"must be of the same type as {request.queue}: the names of FIFO queues end in {FIFO}",
        )
    check_number("rate", request.max_messages_per_second, 0, MAX_RATE)
    check_number("the number of ids", len(request.message_ids), 0, MAX_SELECTED)
    for id in request.message_ids:
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
    return tuple(dict.fromkeys(request.message_ids))
