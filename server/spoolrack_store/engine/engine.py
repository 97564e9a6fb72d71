"""The engine: what the store does, one commit at a time, without threads.

A commit changes names and index for all requests at hand (`apply`), makes that durable (`Work.sync`),
and then its answers hold (`finish`). In a commit the order is: each part goes on with what
waited for a sync or a time, and then the requests are done, receives last. The engine is deterministic:
clock, randomness and disk are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

from ..files.changes import Changes, Memory
from ..files.disk import Disk
from ..files.syncer import Commit
from ..model.background_work import ALL_CHORES, Chores
from ..model.batch import Entry
from ..model.clock import Clock, Millis
from ..model.disk_watermark import DiskWatermark
from ..model.errors import OutcomeUnknown, ReservationCommitted, ReservationLost, StoreError
from ..model.ids import FileIds
from ..model.names import batch_of
from ..model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    GiveBack,
    Outcome,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
    UpdateQueue,
)
from ..model.redrive_requests import CancelRedrive, StartRedrive
from ..model.reservation_requests import Reserve
from ..model.schedule_requests import CreateSchedule, DeleteSchedule, Fire, PauseSchedule
from ..model.stage_requests import Abort, Publish, Stage
from ..model.transitions import State
from .adoption import Adoption, Foreign
from .archive import Archive
from .catalog import Catalog
from .dead_letters import DeadLetters
from .deduplication import Deduplication
from .leaser import Leaser
from .moves import RETRY, Moves, unlink_all
from .part import Part, Turn, run_in
from .queue_views import QueueViews
from .reader import CACHE_BYTES, Reader
from .reaper import SLICE, Reaper
from .redrives import Redrives
from .remover import Remover
from .reservations import Reservations
from .schedules import Schedules
from .sender import Sender
from .shared_root import Sharing
from .stages import Stages

ENDS_OF_SETS: Final = (ReservationLost, ReservationCommitted)
"""Errors that a caller may rely on: what they tell must be durable."""
Found = TypeVar("Found")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Work:
    """One commit, between its moves and its answers."""

    outcomes: list[Outcome]
    number: int
    commit: Commit | None
    """Changes to sync; None: no answer waits for a sync."""
    assigned: list[Entry]
    """Entries that were leased as they were sent."""
    ordered: list[Entry]
    """Entries to be published before the answers: messages of strict groups."""
    changed: bool = False
    """Whether something was done."""


class Engine:
    """Not thread-safe, but for `Work.commit.sync`, during which the next commit may begin."""

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
        chores: Chores = ALL_CHORES,
        watermark: DiskWatermark | None = None,
    ) -> None:
        """`memory` is `CHANGES`; `pid` is told to processes that wait for the lock; `is_living` tells
        whether the process of an owner is alive."""
        self._ids = FileIds(clock, random)
        self.moves = Moves(disk, clock, owner, self._ids)
        self.moves.is_living = is_living
        self.moves.watermark = watermark or DiskWatermark()
        self.index = self.moves.index
        self.catalog = Catalog(self.moves, random)
        self.moves.may_make = self._may_make
        self.views = QueueViews(self.moves, self.catalog)
        self.reader = Reader(disk, self.index, clock, cache_bytes)
        self.deduplication = Deduplication(self.moves, self.catalog, self.reader, self._ids, clock)
        self._sender = Sender(self.moves, self.catalog, self.reader, self._ids, self.deduplication)
        self._dead_letters = DeadLetters(self.moves, self.catalog, self.reader, clock)
        self._leaser = Leaser(
            self.moves, self.catalog, self.reader, self._dead_letters, clock, random, chores
        )
        self._archive = Archive(self.moves, self.catalog, chores)
        self.reaper = Reaper(
            self.moves, self.reader, self.deduplication, self._archive, unlinks=chores.unlinks
        )
        self._remover = Remover(self.moves, self.catalog, self._leaser, self._sender)
        self.reservations = Reservations(
            self.moves, self.catalog, self.reader, self._dead_letters, self._leaser, clock, random
        )
        self.stages = Stages(self.moves, self.catalog, self._ids, clock)
        self.schedules = Schedules(self.catalog, self.stages, clock, random)
        self.redrives = Redrives(
            self.moves, self.catalog, self.reader, self._dead_letters, self._sender, self._ids
        )
        self._foreign = Foreign(self.moves)
        self._parts: tuple[Part, ...] = (
            self.deduplication,
            self.catalog,
            self._sender,
            self.stages,
            self._dead_letters,
            self.reservations,
            self._leaser,
            self.redrives,
            self._foreign,
            Adoption(self.moves, self.catalog, self._ids, chores),
            self._archive,
        )
        """In the order in which they go on at the beginning of a commit."""
        self._turns = (
            Turn(CreateQueue, lambda asked: self.views.queue(self.catalog.create(asked))),
            Turn(UpdateQueue, lambda asked: self.views.queue(self.catalog.update(asked))),
            Turn(DeleteQueue, self.catalog.delete),
            Turn(Send, self._sender.send, together=True),
            Turn(Stage, self.stages.stage),
            Turn(Publish, self.stages.publish),
            Turn(Abort, self.stages.abort),
            Turn(CreateSchedule, self.schedules.create),
            Turn(PauseSchedule, self.schedules.pause),
            Turn(DeleteSchedule, self.schedules.delete),
            Turn(Fire, self.schedules.fire, together=True),
            Turn(CancelRedrive, self.redrives.cancel),
            Turn(StartRedrive, self.redrives.start),
            Turn(Delete, self._remover.delete, together=True),
            Turn(ChangeVisibility, self._leaser.change, together=True),
            Turn(ReleaseMessages, self._leaser.release),
            Turn(RejectMessages, self._leaser.reject),
            Turn(GiveBack, self._leaser.give_back),
            *self.reservations.turns,
            Turn(Purge, self._remover.purge),
            Turn(Receive, self._receive, together=True),
            Turn(Reserve, self.reservations.reserve),
        )
        changes = Changes(memory, owner, pid)
        self.sharing = Sharing(self.moves, changes, self.catalog, is_living, self._parts)

    def open(self) -> bool:
        """Take in the folders, and make durable what was found; False if another process holds the
        lock.

        Raise `SyncFailed`.
        """
        if not self.sharing.open():
            return False
        self._sync_now()
        return True

    def apply(self, requests: Sequence[Request[Any]], *, tick: bool = False) -> Work | None:
        """Do what `requests` ask, as far as it can be done before the sync; None if another process
        holds the lock.

        With `tick` it also looks which processes have died. Raise `DiskError` if the lock or
        what others did can't be read, and then nothing was done; `SyncFailed` if nothing may
        be relied on any more.
        """
        if not self.sharing.enter():
            return None
        try:
            return self._apply(requests, tick)
        finally:
            self.sharing.leave()

    def _apply(self, requests: Sequence[Request[Any]], tick: bool) -> Work:
        if tick:
            self._guarded(self.sharing.require_lock)
            self.moves.reserve.fill()
            self._guarded(self.sharing.look_for_dead)
            for part in self._parts:
                self._guarded(part.tick)
        self._finish_orphans()
        for part in self._parts_with_pending():
            if part.has_work:
                self._guarded(part.go_on)
        self._unlink_stale()
        has_reaped = bool(self.index.over) and self.reaper.hand_over()
        outcomes = run_in(self._turns, requests)
        assigned, self._leaser.assigned = self._leaser.assigned, []
        ordered, self._sender.ordered = self._sender.ordered, []
        if not self._needs_sync(requests, outcomes):
            return Work(outcomes, 0, None, assigned, ordered)
        changed = self.moves.syncer.is_dirty or has_reaped
        number, commit = self.moves.begin_sync()
        self.sharing.rests_on_others = False
        return Work(outcomes, number, commit, assigned, ordered, changed)

    def _needs_sync(self, requests: Sequence[Request[Any]], outcomes: Sequence[Outcome]) -> bool:
        """Return whether an answer promises what isn't durable yet, or the engine's own work waits for
        a sync."""
        if self.moves.syncer.is_in_doubt:
            return True
        if not requests:
            # Where nothing is to be synced, that costs nothing, and what waits for it can go on.
            return self.wants_commit
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

    def finish(self, work: Work) -> list[Outcome] | None:
        """The commit is synced: return the answers; None if another process holds the lock.

        What was leased as it was sent must be where other processes look for it before the consumer
        hears of it. So must a message of a strict group before its sender does: other processes would
        let pass what is sent to them from then on.
        """
        if work.commit is not None:
            self.moves.end_sync(work.number)
        if work.assigned or work.ordered:
            try:
                if not self.sharing.enter():
                    return None
            except StoreError as error:
                log.warning("what is durable can't be moved out of new/ for now: %s", error)
                refused, unpublished = work.assigned, work.ordered
            else:
                try:
                    refused = self._leaser.hand_out(work.assigned)
                    unpublished = self._sender.publish(work.ordered)
                finally:
                    self.sharing.leave()
            if refused:
                self._sender.publish_later(refused)
                _withhold(work.outcomes, {entry.batch.stem.id for entry in refused})
            if unpublished:
                _leave_open(work.outcomes, {entry.batch.stem.id for entry in unpublished})
            work.assigned, work.ordered = [], []
        return work.outcomes

    def _finish_orphans(self) -> None:
        """Publish what the dead had sent. What stands in the place of a queue's folder goes first."""
        if self.sharing.has_orphans:
            if self.moves.foreign:
                self._guarded(self._foreign.go_on)
            self._guarded(self.sharing.finish_orphans)

    def _may_make(self, folder: str) -> bool:
        kind, _, queue = folder.partition("/")
        return kind != "queues" or not queue or queue in self.catalog.records

    def _guarded(self, step: Callable[[], None]) -> None:
        """Let a part go on; what the disk refuses to it stops no other part, and is tried again."""
        try:
            step()
        except StoreError as error:
            self.moves.refused_at = self.moves.clock.monotonic()
            log.error("%s has to wait: %s", getattr(step, "__qualname__", step), error)

    def _receive(self, requests: Sequence[Receive]) -> Sequence[list[Delivery] | StoreError]:
        return self._leaser.receive(requests, self._sender.just_written())

    def with_exact_index(self, answer: Callable[[], Found]) -> Found | None:
        """Return what `answer` finds in an index that has all that other processes did, and all that
        was answered here; None if another process holds the lock."""
        if not self.sharing.enter():
            return None
        try:
            self._finish_orphans()
            for part in self._parts_with_pending():
                if part.has_durable:
                    self._guarded(part.go_on)
            return answer()
        finally:
            self.sharing.leave()

    @property
    def has_exact_index(self) -> bool:
        """Whether the index has all that other processes did, and all that was answered here."""
        sharing = self.sharing
        return sharing.is_over or not (
            sharing.has_news
            or sharing.has_orphans
            or any(part.has_durable for part in self._parts_with_pending())
        )

    def _parts_with_pending(self) -> Iterator[Part]:
        """Yield, in order, the parts that may have something to do by the time their turn comes."""
        for part in self._parts:
            if any(part.pending):
                yield part

    @property
    def wants_commit(self) -> bool:
        """Whether work waits for a commit that no request asks for; for a while not after the disk
        refused something."""
        refused = self.moves.refused_at
        if refused is not None and self.moves.clock.monotonic() < refused + RETRY:
            return False
        return self._has_work

    @property
    def _has_work(self) -> bool:
        return (
            bool(self.index.loose)
            or bool(self.index.over)
            or self.sharing.has_orphans
            or any(part.has_work or part.waits_for_sync for part in self._parts_with_pending())
        )

    @property
    def to_be_unlinked(self) -> int:
        """How many deleted messages wait to be unlinked."""
        return sum(
            entry.held.bit_count()
            for batch in self.index.over
            for entry in batch.entries
            if entry.name.state is State.REMOVED
        )

    def ready(self, queue: str) -> int | None:
        """Return how many messages a receive could take; None if there is no such queue."""
        record = self.catalog.records.get(queue)
        if record is None:
            return None
        if record.settings.receiving == "paused":
            return 0
        return self.index.queue(queue).available(record.settings)

    def is_coming_back(self, queue: str) -> bool:
        """Whether leases of the queue are over, and another commit is needed to make their messages
        ready."""
        return self.reservations.is_coming_back(queue)

    def close(self) -> bool:
        """Publish what was sent, and leave the root to the others; False if another process holds the
        lock.

        What the disk refuses to publish the others do: they find this process dead.
        """
        if not self.sharing.enter():
            return False
        try:
            self._guarded(self._sender.go_on)
            if not self._sender.has_durable:
                self.sharing.close()
        finally:
            self.sharing.leave()
        return True

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which something has to be done that no request asks for."""
        times = [part.next_due() for part in self._parts_with_pending()]
        if self.moves.refused_at is not None and self._has_work:
            times.append(Millis(self.moves.refused_at + RETRY))
        return min((time for time in times if time is not None), default=None)

    def _unlink_stale(self) -> None:
        """Unlink names outside `remove/` that hold nothing, as far as that is durable."""
        for batch in list(islice(self.index.loose, SLICE)):
            unlink_all(self.moves, list(batch.stale(self.moves.synced)))
            if not batch.is_loose:
                self.index.loose.pop(batch, None)  # A name that held nothing went as another came.

    def _sync_now(self) -> None:
        number, commit = self.moves.begin_sync()
        commit.sync()
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
