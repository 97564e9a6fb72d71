"""The engine executes the store's requests, one commit at a time, without threads.

A commit changes names and index for all requests at hand (`apply`), makes that durable (`Work.sync`),
and then its answers hold (`finish`). In a commit the order is: each part goes on with what
waited for a sync or a time, and then the requests are done, receives last. The engine is deterministic:
clock, randomness and disk are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from math import inf
from random import Random
from typing import Any, Final, TypeVar

from ..files.changes import Changes, Memory
from ..files.disk import Disk, explained
from ..files.syncer import Barrier
from ..model.background_work import ALL_WORK, BackgroundWork
from ..model.clock import Clock, CommitClock, Millis
from ..model.disk_watermark import DiskWatermark
from ..model.errors import DiskError, OutcomeUnknown, ReservationCommitted, ReservationLost, StoreError
from ..model.members import MOST
from ..model.message_ids import INDEX_DIGITS, FileIds, batch_of
from ..model.operations import (
    UNFINISHED,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    GiveBack,
    Outcome,
    Purge,
    Queue,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
    UpdateQueue,
    messages_named,
)
from ..model.redrive_requests import CancelRedrive, StartRedrive
from ..model.reservation_requests import Reserve
from ..model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    PauseSchedule,
    UpdateSchedule,
)
from ..model.shards import Shard
from ..model.stage_requests import Abort, Publish, Stage
from .adoption import Adoption, Foreign
from .archive import Archive
from .catalog import Catalog, QueueRoom
from .dead_letters import DeadLetters
from .deduplication import Deduplication
from .effort import FILES
from .entries import Entry
from .expiry import Expiry
from .leaser import Leaser
from .moves import Moves
from .part import DUE_NOW, RETRY, Part, postponing
from .queue_views import QueueViews
from .reader import CACHE_BYTES, Reader
from .reaper import Reaper
from .redriver import Redriver
from .remover import Remover
from .reservation_index import SetState
from .reserver import Reserver
from .schedule_catalog import ScheduleCatalog
from .sender import Sender
from .sharing import Sharing
from .short_way import ShortWay
from .stages import Stages
from .turns import Turn, run_in

log = logging.getLogger(__name__)


_MANY: Final = 20
"""Messages of one request, beyond which their files are counted."""
MOST_IN_SPARES: Final = 3
"""Files of a commit whose data are synced one by one: one sync of new files costs as much as three or
four of data."""
ENDS_OF_SETS: Final = (ReservationLost, ReservationCommitted)
"""Errors that a caller may rely on: the facts in them must be durable."""
Found = TypeVar("Found")


class NotEntered(DiskError):
    """{detail}"""


@dataclass(slots=True)
class Work:
    """One commit, between its moves and its answers."""

    outcomes: list[Outcome]
    number: int
    barrier: Barrier | None
    """Changes to sync; None: no answer waits for a sync."""
    to_enqueue: list[Entry]
    """Entries to be enqueued before the answers: what was leased as it was sent, and messages of
    strict groups."""
    changed: bool = False
    """Whether something was done."""
    in_spares: Sequence[Entry] = ()
    """The files whose data are all that this commit syncs."""


class Engine:
    """The operations on one root. Not thread-safe, but for `Work.barrier.sync`, during which the next
    commit may begin."""

    def __init__(
        self,
        disk: Disk,
        memory: Memory,
        *,
        clock: Clock,
        random: Random,
        owner: str,
        pid: int = 0,
        is_living: Callable[[str], bool],
        cache_bytes: int = CACHE_BYTES,
        background: BackgroundWork = ALL_WORK,
        watermark: DiskWatermark | None = None,
        shard: Shard | None = None,
    ) -> None:
        """`memory` is `CHANGES`; `pid` is told to processes that wait for the lock; `is_living` tells
        whether the process of an owner is alive."""
        self._clock = clock = CommitClock(clock)
        self._ids = FileIds(clock, random)
        self.moves = Moves(disk, clock, owner, self._ids, is_living=is_living, watermark=watermark)
        self.index = self.moves.index
        self.catalog = Catalog(self.moves, random, shard)
        self.views = QueueViews(self.moves, self.catalog, lambda record: self._leaser.limits_of(record))
        self.reader = Reader(disk, self.index, clock, cache_bytes)
        self.deduplication = Deduplication(self.moves, self.catalog, self.reader, self._ids, clock)
        self._queue_room = QueueRoom(self.moves)
        self._sender = Sender(
            self.moves,
            self.catalog,
            self.reader,
            self._ids,
            self.deduplication,
            self._queue_room,
        )
        self._dead_letters = DeadLetters(self.moves, self.catalog, random)
        self._leaser = Leaser(
            self.moves, self.catalog, self.reader, self._dead_letters, random, background
        )
        self._archive = Archive(self.moves, self.catalog, background)
        self.reaper = Reaper(
            self.moves, self.reader, self.deduplication, self._archive, unlinks=background.unlinks
        )
        self._remover = Remover(self.moves, self.catalog, self._leaser, self._sender)
        self.reservations = Reserver(
            self.moves, self.catalog, self.reader, self._dead_letters, self._leaser, random
        )
        self.stages = Stages(self.moves, self.catalog, self._ids, self._queue_room)
        self.schedules = ScheduleCatalog(self.catalog, self.stages, clock, random)
        self.redrives = Redriver(
            self.moves, self.catalog, self._dead_letters, self._queue_room, self._ids
        )
        self.expiry = Expiry(self.moves, self.catalog)
        self._foreign = Foreign(self.moves)
        # In the order in which they go on in a commit, and read their files at a start.
        self._parts: tuple[Part, ...] = (
            # A later part may delete messages: their keys are registered before.
            self.deduplication,
            # Later parts look queues up.
            self.catalog,
            # Messages of sends and stages are in their queues before sets, leases and redrives go on.
            self._sender,
            self.stages,
            # A set ends the leases of its own, the leaser all others.
            self.reservations,
            self._leaser,
            # A redrive finds the dead letters of this commit.
            self.redrives,
            # The parts above note foreign files when they read theirs.
            self._foreign,
            Adoption(self.moves, self.catalog, self._ids, background),
            self._archive,
            # A queue that a part above has used is not idle.
            self.expiry,
        )
        self._pending = tuple(part.pending for part in self._parts)
        self._untimed = [each for each in chain(*self._pending) if each is not self.index.dues.times]
        """The same without the ends of leases and delays."""
        self._ends_of_stages = self.stages.unfinished_ends
        self._ends_of_sets = self.reservations.index.in_state[SetState.COMMITTED]
        self._has_answers_to_move = True
        """Whether a published stage or a committed set has messages that are not where its answer says,
        and so are not in the queues' metrics."""
        # In the order in which a commit does its requests.
        turns = (
            # The settings that the other requests find.
            Turn(CreateQueue, lambda asked: self.views.queue(self.catalog.create(asked))),
            Turn(UpdateQueue, lambda asked: self.views.queue(self.catalog.update(asked))),
            Turn(DeleteQueue, self.catalog.delete),
            # A receive of this commit may get sent messages.
            Turn(Send, self._sender.send, together=True),
            Turn(Stage, self.stages.stage),
            Turn(Publish, self.stages.publish),
            Turn(Abort, self.stages.abort),
            Turn(CreateSchedule, self.schedules.create),
            Turn(UpdateSchedule, self.schedules.update),
            Turn(PauseSchedule, self.schedules.pause),
            Turn(DeleteSchedule, self.schedules.delete),
            Turn(Fire, self.schedules.fire, together=True),
            # A queue has one redrive at a time: the canceled one ends first.
            Turn(CancelRedrive, self.redrives.cancel),
            Turn(StartRedrive, self.redrives.start),
            # Ended leases before new ones. A delete wins over a release of the same message.
            Turn(Delete, self._remover.delete, together=True),
            Turn(ChangeVisibility, self._leaser.change),
            Turn(ReleaseMessages, self._leaser.release),
            Turn(RejectMessages, self._leaser.reject),
            Turn(GiveBack, self._leaser.give_back),
            *self.reservations.turns,
            # A purge takes the ready messages before they can be leased.
            Turn(Purge, self._remover.purge),
            # Last: all that became ready.
            Turn(Receive, self._receive, together=True),
            Turn(Reserve, self.reservations.reserve),
        )
        self._turns = {turn.kind: turn for turn in turns}
        changes = Changes(memory, owner, pid, clock if disk.several_hosts else None)
        self.sharing = Sharing(self.moves, changes, self.catalog, is_living, self._parts)
        self._queue_room.sources.append(self.sharing.orphan_load)
        self.short_way: ShortWay | None = ShortWay(
            self.moves,
            self.catalog,
            self.reader,
            self._ids,
            random,
            self._sender,
            self._leaser,
            self._dead_letters,
            self.sharing,
            self._parts,
        )
        """None: each request takes the general way."""

    def open(self) -> bool:
        """Index the folders, and make them durable; False if another process holds the lock.

        Raise `SyncFailed`.
        """
        if not self.sharing.open():
            return False
        self._sync_now()
        self.update_metrics()
        return True

    def apply(self, requests: Sequence[Request[Any]], *, tick: bool = False) -> Work | None:
        """Execute `requests` up to the sync; None if another process holds the lock.

        With `tick` it also looks which processes have died. Raise `NotEntered` if the lock or
        what others did can't be read, and then nothing was done; `SyncFailed` if nothing may
        be relied on any more.
        """
        if len(requests) == 1 and not tick and (work := self.apply_alone(requests[0])) is not None:
            return work
        try:
            if not self.sharing.enter():
                return None
        except StoreError as error:
            raise NotEntered(detail=str(error)) from error
        except OSError as error:
            raise NotEntered(detail=str(explained(error))) from error
        self._clock.hold()
        try:
            return self._apply(requests, tick)
        finally:
            self._clock.release()
            self.sharing.leave()

    def apply_alone(self, request: Request[Any]) -> Work | None:
        """Execute a plain request up to the sync, if nothing else is to be done; None, and it is not
        done. Raise `SyncFailed`."""
        outcome = None if self.short_way is None else self.short_way.apply(request)
        if outcome is not None and self.catalog.expiring:
            self.expiry.note((request,))
        return None if outcome is None else self._work_of((request,), [outcome], changed=True)

    def _apply(self, requests: Sequence[Request[Any]], tick: bool) -> Work:
        effort = self.moves.effort
        effort.left = effort.files
        if len(self.index.to_be_packed) > self.index.unpacked:
            self.index.pack(self.moves.synced)
        if tick:
            self._guarded(self.sharing.require_lock)
            self.moves.held_room.fill()
            self._guarded(self.sharing.find_orphans)
            for part in self._parts:
                self._guarded(part.tick)
        if self.sharing.orphans:
            self._finish_orphans()
        if self.catalog.expiring:
            self.expiry.note(requests)
        for part in compress(self._parts, map(any, self._pending)):
            due = part.next_due()
            if due == DUE_NOW or (due is not None and due <= self._clock.monotonic()):
                self._guarded(part.advance)
        if self.index.loose_files:
            self._unlink_stale()
        has_reaped = (
            bool(self.index.deleted_files or self.index.unused_dead_letter_files)
            and self.reaper.hand_over()
        )
        self.moves.request_effort.left = self.moves.request_effort.files
        if self._queue_room.coming:
            self._queue_room.begin()
        outcomes = run_in(self._turns, requests, self.moves.request_effort) if requests else []
        changed = self.moves.syncer.is_dirty or has_reaped or self.moves.effort.is_used
        return self._work_of(requests, outcomes, changed=changed, is_tick=tick)

    def _work_of(
        self,
        requests: Sequence[Request[Any]],
        outcomes: list[Outcome],
        *,
        changed: bool,
        is_tick: bool = False,
    ) -> Work:
        """End a commit's changes: return what is to be synced, if an answer waits for it. One that
        ticks syncs all, so that no change of names waits for long."""
        to_enqueue, self.moves.to_enqueue = self.moves.to_enqueue, []
        if not self._needs_sync(requests, outcomes):
            if self.index.outdated_queues:
                self.index.update_metrics(self._sender.in_new, self.moves.synced)
            return Work(outcomes, 0, None, to_enqueue)
        may_wait = self.index.in_spares and not (is_tick or to_enqueue)
        if may_wait and (written := self._written_in_spares(requests, outcomes)):
            return Work(outcomes, 0, self.moves.begin_data_sync(), to_enqueue, True, written)
        number, barrier = self.moves.begin_sync()
        self.sharing.rests_on_others = False
        return Work(outcomes, number, barrier, to_enqueue, changed)

    def _needs_sync(self, requests: Sequence[Request[Any]], outcomes: Sequence[Outcome]) -> bool:
        """Return whether an answer promises what isn't durable yet, or the engine's own work waits for
        a sync."""
        if self.moves.syncer.is_in_doubt:
            return True
        if not requests:
            # Where nothing is to be synced, that costs nothing, and what waits for it can go on.
            return self.next_work(self._clock.monotonic())[0]
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, StoreError) and not isinstance(outcome, ENDS_OF_SETS):
                continue
            if isinstance(request, Receive | Reserve) and not outcome:
                continue
            if not isinstance(request, Receive | ChangeVisibility | ReleaseMessages | GiveBack):
                return True
            record = self.catalog.records.get(request.queue)
            if (
                record is None
                or record.settings.lease_durability == "strict"
                or self.sharing.rests_on_others
            ):
                return True
        return False

    def _written_in_spares(
        self, requests: Sequence[Request[Any]], outcomes: Sequence[Outcome]
    ) -> Sequence[Entry]:
        """Return the files that the commit has written, if their data are all that the answers promise;
        else nothing."""
        if not self.index.in_spares or self.sharing.rests_on_others or self.moves.syncer.is_in_doubt:
            return ()
        for request, outcome in zip(requests, outcomes, strict=True):
            if not isinstance(request, Send) or request.deduplication_ids or outcome is UNFINISHED:
                return ()
        written = self._sender.written_in_spares()
        return written if len(written) <= MOST_IN_SPARES else ()

    def finish(self, work: Work) -> list[Outcome] | None:
        """Return the answers of a synced commit; None if another process holds the lock.

        A message leased as it was sent must be where other processes look for it before the consumer
        hears of it. So must a message of a strict group before its sender does: other processes would
        let pass what is sent to them from then on.
        """
        if work.in_spares:
            self._sender.enqueue_later(entry for entry in work.in_spares if entry.members)
        elif work.barrier is not None:
            self.moves.end_sync(work.number)
        if work.to_enqueue:
            try:
                if not self.sharing.enter():
                    return None
            except StoreError as error:
                refused = {entry: error for entry in work.to_enqueue if entry.members}
            else:
                try:
                    refused = self._sender.enqueue(work.to_enqueue)
                finally:
                    self.sharing.leave()
            if refused:
                self._leave_unpublished(work.outcomes, refused)
            work.to_enqueue = []
        if self.index.outdated_queues:
            self.index.update_metrics(self._sender.in_new, self.moves.synced)
        self._has_answers_to_move = bool(self._ends_of_stages or self._ends_of_sets)
        return work.outcomes

    def _leave_unpublished(
        self, outcomes: Sequence[Outcome], refused: Mapping[Entry, StoreError]
    ) -> None:
        """Let no consumer hear of messages that the disk keeps in `new/`, and no sender be sure."""
        entry, error = next(iter(refused.items()))
        log.warning("%d files have to wait in new/, %s first: %s", len(refused), entry.name.path, error)
        leased = [entry for entry in refused if entry.name.token]
        self._leaser.withhold(leased)
        self._sender.enqueue_later(leased)
        _withhold(outcomes, {entry.batch.stem.id for entry in leased})
        _leave_open(outcomes, {entry.batch.stem.id for entry in refused.keys() - set(leased)})

    def update_metrics(self) -> None:
        """Bring the metrics of the queues up to date with the index."""
        self.index.update_metrics(self._sender.in_new, self.moves.synced)

    @property
    def has_exact_metrics(self) -> bool:
        """Whether the queues' metrics have all answers of this process, and no other one has the root
        open. In any thread."""
        sharing = self.sharing
        return sharing.is_over or not (
            self._has_answers_to_move or sharing.is_shared or sharing.orphans or sharing.has_news
        )

    def _finish_orphans(self) -> None:
        """Publish what the dead had sent, after quarantine of files in the place of queue folders."""
        if self.moves.foreign_files:
            self._guarded(self._foreign.advance)
        self._guarded(self.sharing.finish_orphans)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Let a part go on; a refusal of the disk stops no other part, and is tried again."""
        try:
            step()
        except (StoreError, OSError) as error:
            if isinstance(error, OSError):
                error = explained(error)
            self.moves.refused_at = self._clock.monotonic()
            log.error("%s has to wait: %s", getattr(step, "__qualname__", step), error)

    def _receive(self, requests: Sequence[Receive]) -> Sequence[Outcome]:
        return self._leaser.receive(requests, self._sender.just_written())

    def with_exact_index(self, answer: Callable[[], Found]) -> Found | None:
        """Return the result of `answer` on an index with all changes of other processes, and all
        answers of this one; None if another process holds the lock, or if that takes another commit."""
        if not self.sharing.enter():
            return None
        try:
            if self.sharing.orphans:
                self._finish_orphans()
            for part in compress(self._parts, map(any, self._pending)):
                if part.has_durable:
                    self._guarded(part.advance)
            has_more = self.reservations.is_in_slices and self.reservations.has_durable
            return None if has_more or self.stages.is_in_slices else answer()
        finally:
            self.sharing.leave()

    @property
    def has_exact_index(self) -> bool:
        """Whether the index has all changes of other processes, and all answers of this one."""
        sharing = self.sharing
        return sharing.is_over or not (
            sharing.has_news
            or sharing.orphans
            or any(part.has_durable for part in compress(self._parts, map(any, self._pending)))
        )

    def next_work(self, now: Millis) -> tuple[bool, Millis | None]:
        """Return whether work without a request waits for a commit and for no time, and when the next
        work is due that waits for a time. After a refusal of the disk all waits for a while."""
        waits = bool(
            self.index.loose_files
            or self.index.deleted_files
            or self.index.unused_dead_letter_files
            or self.sharing.orphans
        )
        next_due: Millis | None = None
        for part in compress(self._parts, map(any, self._pending)):
            due = part.next_due()
            if due == DUE_NOW:
                waits = True
            elif due is not None and (next_due is None or due < next_due):
                next_due = due
        refused = self.moves.refused_at
        if waits and refused is not None and now < refused + RETRY:
            again = Millis(refused + RETRY)
            return False, again if next_due is None else min(next_due, again)
        return waits, next_due

    @property
    def wants_commit(self) -> bool:
        """Whether work without a request waits for a commit and for no time."""
        return self.next_work(self._clock.monotonic())[0]

    @property
    def to_be_unlinked(self) -> int:
        """Number of files whose messages are all deleted, and that wait to be unlinked. In any
        thread."""
        return len(self.index.deleted_files)

    def seconds_of(self, requests: Iterable[Request[Any]]) -> float:
        """Return how long the disk will take for a commit of these requests and of the engine's own
        work, by its files and by what a file took of late; infinity if that isn't known."""
        if not self.sharing.is_nearly_exact:
            return inf  # It may have to list the root.
        own = sum(map(len, chain.from_iterable(self._pending))) + len(self.index.deleted_files)
        files = min(own, FILES)
        for request in requests:
            files += self._files_of(request)
        return files * self.moves.file_seconds

    def _files_of(self, request: Request[Any]) -> int:
        """Return how many files a request touches at most, nearly."""
        messages = messages_named(request)
        if messages is None:
            return FILES
        if isinstance(request, Send):
            record = self.catalog.records.get(request.queue)
            most = 1 if record is None else record.settings.messages_per_file or MOST
            kinds = {*request.delays.values(), *request.priorities.values()}
            return min(messages, -(-messages // most) + len(kinds))
        if isinstance(request, Receive):
            index = self.index.queues.get(request.queue)
            return 0 if index is None else min(messages, index.files_ready)
        if messages <= _MANY:
            return messages
        # Those of one file have its id, but for the last digits.
        receipts, ids = getattr(request, "receipts", ()), getattr(request, "ids", ())
        return len(
            {*(each.partition("~")[0][:-INDEX_DIGITS] for each in receipts), *map(batch_of, ids)}
        )

    def left_until(self, until: Millis) -> Millis | None:
        """Return when something is due that the last commit has left: what waits for no time is due
        `until`. None: nothing is."""
        index = self.index
        if index.deleted_files or index.loose_files or any(self._untimed):
            return until
        return index.dues.next()

    def ready(self, queue: str) -> int | None:
        """Return the number of messages that a receive could lease; None if there is no such queue."""
        record = self.catalog.records.get(queue)
        return None if record is None else self._leaser.ready(record)

    def described(self, name: str, *, is_disk_full: bool) -> Queue:
        """Return a queue with its obstacles and oldest leases; raise `QueueNotFound`."""
        record, held = self.catalog.require(name), self.reservations.held_in(name)
        staged = self.stages.held(name)
        return self.views.described(record, held, staged, is_disk_full=is_disk_full)

    def has_nothing_for(self, request: Receive) -> bool:
        """Return whether a commit is known to find nothing for a receive."""
        if self.sharing.is_shared or self.catalog.expiring or self.is_coming_back(request.queue):
            return False
        if self._sender.in_new_of(request.queue):
            return False  # It is leased by the commit that enqueues it.
        try:
            self._leaser.check(request)
        except StoreError:
            return False  # The commit says it.
        return self.ready(request.queue) == 0

    def is_coming_back(self, queue: str) -> bool:
        """Return whether leases of the queue are over, and another commit is needed to make their
        messages ready."""
        return any(self.reservations.pending) and self.reservations.is_coming_back(queue)

    def close(self) -> bool:
        """Publish the sent messages, and leave the root; False if another process holds the lock.

        The other processes enqueue the messages that the disk refuses: they find this process dead.
        """
        if not self.sharing.enter():
            return False
        try:
            self._guarded(self._sender.advance)
            self._guarded(self.redrives.count_moved)
            if not self._sender.has_durable:
                self.sharing.close()
        finally:
            self.sharing.leave()
        return True

    def _unlink_stale(self) -> None:
        """Unlink names outside `remove/` that hold nothing, as far as that is durable."""
        effort = self.moves.effort
        for batch in list(islice(self.index.loose_files, effort.share())):
            stale = list(islice(batch.stale(self.moves.synced), effort.share()))
            for entry in stale:
                with postponing(log, "the unlinking of %s", entry.name.path):
                    self.moves.unlink(entry)
            effort.spend(len(stale))
            if not batch.is_loose:
                self.index.loose_files.pop(
                    batch, None
                )  # A name that held nothing went as another came.

    def _sync_now(self) -> None:
        number, barrier = self.moves.begin_sync()
        barrier.sync()
        self.moves.end_sync(number)


def _withhold(outcomes: Sequence[Outcome], batches: Collection[str]) -> None:
    """Take deliveries out of the answers of receives: their messages are not handed out."""
    for outcome in outcomes:
        if isinstance(outcome, list):
            outcome[:] = [
                each
                for each in outcome
                if not (
                    isinstance(each, Delivery)
                    and not {each.ids[0], batch_of(each.ids[0])}.isdisjoint(batches)
                )
            ]


def _leave_open(outcomes: Sequence[Outcome], batches: Collection[str]) -> None:
    """Tell the senders of messages that are durable, and not in their queues, that nothing is sure."""
    for outcome in outcomes:
        for position, id in enumerate(outcome.results if isinstance(outcome, SendResults) else ()):
            if isinstance(id, str) and not {id, batch_of(id)}.isdisjoint(batches):
                outcome.results[position] = OutcomeUnknown(
                    detail=f"message {id} is stored, and can't be moved to its queue for now"
                )
