"""The engine executes the store's requests, one commit at a time, without threads.

A commit changes names and index for all requests at hand (`apply`), makes that durable (`Work.sync`),
and then its answers hold (`finish`). In a commit the order is: each part goes on with what
waited for a sync or a time, and then the requests are done, receives last. The engine is deterministic:
clock, randomness and disk are arguments.

`Sharing` is for a root that several processes of one host have open. A commit enters, which takes
`LOCK` and replays `CHANGES`, and leaves. In between the index is exact, whichever process made the last
move. The root is listed without `LOCK`, while other processes commit: the head of `CHANGES` is noted
before, and what moved meanwhile is replayed after. A process that dies is noticed by its owner's lock,
which is free then; any process that notices publishes the messages it sent and did not publish.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress, count, islice
from random import Random
from typing import Any, Final, TypeVar

from ..engine.adoption import Adoption, Foreign
from ..engine.archive import Archive
from ..engine.catalog import Catalog
from ..engine.dead_letters import DeadLetters
from ..engine.deduplication import Deduplication
from ..engine.expiry import Expiry
from ..engine.leaser import Leaser
from ..engine.moves import DUE_NOW, RETRY, Moves, Part, Turn, run_in, unlink_all
from ..engine.queue_views import QueueViews
from ..engine.reader import CACHE_BYTES, Reader
from ..engine.reaper import Reaper
from ..engine.recovery import (
    finish_listing,
    finish_sends,
    list_root,
    list_sent,
    listed_orphans,
    log_unlisted,
)
from ..engine.redriver import Redriver
from ..engine.remover import Remover
from ..engine.reserver import Reserver
from ..engine.schedule_catalog import ScheduleCatalog
from ..engine.sender import Sender
from ..engine.stages import Stages
from ..files.changes import LOCK, PATH, Change, ChangeKind, Changes, Memory, Overtaken, Poisoned
from ..files.disk import Commit, Disk, Lock, SyncFailed, explained
from ..files.layout import owner as owner_file
from ..files.root import owners_of
from ..model.background_work import ALL_WORK, BackgroundWork
from ..model.batch_file import Entry
from ..model.clock import Clock, Millis
from ..model.disk_watermark import DiskWatermark
from ..model.errors import (
    OutcomeUnknown,
    ReservationCommitted,
    ReservationLost,
    RootInUse,
    StoreError,
)
from ..model.names import FileIds, NotAName, batch_of, parse
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

log = logging.getLogger(__name__)


LISTINGS: Final = 3
"""So often the root is listed beside other processes that overrun the log; then under the lock."""


class Sharing:
    """The root's lock and log, which processes share. Not thread-safe."""

    def __init__(
        self,
        moves: Moves,
        changes: Changes,
        catalog: Catalog,
        is_living: Callable[[str], bool],
        parts: Sequence[Part],
    ) -> None:
        """`is_living` tells whether the process of an owner is alive; `parts` hear of their own
        files."""
        self._moves = moves
        self._changes = changes
        self._catalog = catalog
        self._is_living = is_living
        self._parts = parts
        self._lock: Lock | None = None
        self.orphans: list[tuple[int, frozenset[str], list[Entry]]] = []
        """Files of dead processes in `new/`: the commit that makes them durable, owners, files."""
        self.rests_on_others = False
        """Whether this commit has taken in what others did since the last sync."""
        self._has_joined = False
        self._is_listed = False
        """Whether the index has the names of a listing, and the log what moved since that began."""
        self._is_whole = False
        """Whether what is read under the lock alone was read since the listing."""
        self._told: list[Change] = []
        """Moves of others since the listing began."""
        self._sent: dict[str, Entry] = {}
        """Names in `new/` that were known before the listing, by their paths."""
        self._dead = frozenset[str]()
        """Owners that were dead when this process joined."""
        self.has_opened = False
        """Whether the index was exact once."""
        self.is_over = False
        """Whether this process has left the root: its index stays as it was."""
        self.replayed = 0
        """Moves of others that were taken in."""

    def open(self) -> bool:
        """Join the processes that have the root open, or begin a new log; False if another one holds
        the lock: then call again."""
        try:
            if not (self._has_joined or self._join()) or not self.enter():
                return False
        except Exception:
            with suppress(SyncFailed):  # Of the disk whose failure is on its way up.
                self._withdraw()
            raise
        try:
            log_unlisted(self._moves)
        finally:
            self.leave()
        return True

    def _join(self) -> bool:
        """Become a member: from then on other processes log their moves. False if one holds the
        lock."""
        if not self._acquire_lock():
            return False
        try:
            changes = self._changes
            members = frozenset[str]()
            if not changes.is_foreign:
                members = frozenset(changes.read_members())
            elif any(map(self._is_living, set(owners_of(self._moves.disk)) - {self._moves.owner})):
                holder = f", whose {PATH} another version of Spoolrack writes"
                raise RootInUse(root="the root", holder=holder)
            living = frozenset(filter(self._is_living, members))
            if living:
                changes.read_header()
                self._decide()
                changes.join()
            else:
                changes.begin_anew()
            self._dead = members - living
            self._moves.changes = changes
            self._has_joined = True
            return True
        finally:
            self._release()

    def _withdraw(self) -> None:
        """Leave the root after a failed opening; if another process holds the lock, it finds this one
        dead."""
        if self._has_joined and self._acquire_lock():
            try:
                self.close()
            finally:
                self._release()

    def enter(self) -> bool:
        """Take the lock and replay the changes of other processes; False if another process holds it.

        The first time, and where others have changed more than `CHANGES` holds, the root is listed
        before, without the lock. Raise `Poisoned`, `SyncFailed`.
        """
        if self.is_over:
            raise SyncFailed("the store is closed")
        for listings in count():
            if not self._acquire_lock():
                return False
            try:
                has_news = self._changes.read_header()
                if self._is_whole and not (has_news or self._moves.unread):
                    return True
                self._decide()
                if self._is_listed and self._catch_up():
                    return True
                self._changes.skip()  # Before the listing: moves from now on are news after it.
                self._told.clear()
                if listings >= LISTINGS:
                    self._list()
                    self._catch_up()
                    return True
            except BaseException:
                self._release()  # A move in doubt stays in doubt, and what wasn't replayed is news.
                raise
            self._release()
            with suppress(Overtaken):
                self._list()
        raise AssertionError

    def _list(self) -> None:
        """List the folders. Without the lock other processes go on: a name that moves meanwhile may be
        seen twice, or nowhere, and the log tells where it is. Raise `Overtaken`."""
        self._is_whole = False
        self._sent = list_root(self._moves, self._follow)
        for change in self._told:
            self._replay(change)
        self._told.clear()
        self._is_listed = True

    def _follow(self) -> None:
        """Read the log during a listing, before the ring is overrun; if another process holds the lock,
        the next call does."""
        if self._lock is not None or not self._acquire_lock():
            return
        try:
            self._changes.read_header()
            self._decide()
            self._told += self._changes.news()
        finally:
            self._release()

    def _catch_up(self) -> bool:
        """Make the index exact; return False if the root must be listed. The lock is held."""
        if self._is_whole:
            for path in list(self._moves.unread):
                self._notify_parts(path)
        replayed = self.replayed
        try:
            for change in self._changes.news():
                self._replay(change)
        except Overtaken:
            self._is_listed = False
            return False
        if not self._is_whole:
            if replayed != self.replayed:
                self._moves.index.find_superseded(self._moves.commit)
            self._read_rest()
        return True

    def _read_rest(self) -> None:
        """Read what only the lock keeps still: `new/`, and the files of the parts."""
        moves, members = self._moves, frozenset(self._changes.members) - {self._moves.owner}
        is_start = not self.has_opened
        others = frozenset(filter(self._is_living, members)) if is_start else members
        sent = list_sent(moves, others, self._sent)
        if is_start:
            finish_listing(moves)
        for part in self._parts:
            part.recover()
        if is_start:
            self.orphans.append((moves.commit, self._dead | (members - others), sent))
        else:
            self._built_on_others()
        self._is_whole = self.has_opened = True

    def leave(self) -> None:
        """Release the lock; all moves of the commit are made."""
        changes = self._changes
        if not changes.has_told:
            self._release()
        else:
            changes.finish()
            self._release()
            changes.has_told = False
            # After the release, so that none of them finds the lock taken.
            if changes.listening > self._moves.clock.monotonic():
                for owner in changes.members:
                    if owner != self._moves.owner:
                        self._moves.disk.touch(owner_file(owner))

    def _release(self) -> None:
        assert self._lock is not None
        self._lock.release()
        self._lock = None

    def close(self) -> None:
        """Leave the root; the lock is held."""
        self._changes.set_members(tuple(o for o in self._changes.members if o != self._moves.owner))

    def find_orphans(self) -> None:
        """Find dead processes, and index their changes; the lock is held.

        The dead stay members until what they sent is published: the process that takes it over may die,
        too, and then another one finds them dead.
        """
        known = {self._moves.owner}.union(*(dead for _, dead, _ in self.orphans))
        dead = frozenset(
            owner
            for owner in self._changes.members
            if owner not in known and not self._is_living(owner)
        )
        if dead:
            log.warning("processes that had the root open have died: %s", ", ".join(sorted(dead)))
            self.orphans.append((self._moves.commit, dead, listed_orphans(self._moves, dead)))

    def finish_orphans(self) -> None:
        """Publish the sends of dead processes, once they are durable; the lock is held."""
        waiting = []
        for commit, dead, sent in self.orphans:
            if commit > self._moves.synced or not finish_sends(self._moves, self._catalog, sent):
                waiting.append((commit, dead, sent))
                continue
            if dead:
                self._catalog.remove_unused_folders()
            self._changes.set_members(tuple(o for o in self._changes.members if o not in dead))
            for owner in dead:
                self._unlink_owner(owner)
        self.orphans = waiting

    def _unlink_owner(self, owner: str) -> None:
        """Unlink the file of a dead process; one that stays is unlinked by the next start."""
        try:
            self._moves.disk.unlink(owner_file(owner))
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s stays behind: %s", owner_file(owner), error)

    def require_lock(self) -> None:
        """Raise `SyncFailed` if `LOCK` is gone, and with it most likely the root: a process that opens
        the root from now on would lock another file."""
        if not self._moves.is_there(LOCK):
            raise SyncFailed(f"the root is lost: No such file or directory: {LOCK!r}")

    def _acquire_lock(self) -> bool:
        try:
            self._lock = self._moves.disk.lock(LOCK)
        except FileNotFoundError as error:
            raise SyncFailed(f"the root is lost: {error}") from error
        except OSError as error:
            raise explained(error) from error
        if self._lock is None:
            return False
        try:
            self._changes.hold(self._moves.clock.wall())
        except SyncFailed:
            self._release()
            raise
        return True

    @property
    def holder(self) -> tuple[int, int]:
        """The process that took the lock last, and when, in Unix time."""
        return (0, 0) if self.is_over else self._changes.holder()

    @property
    def is_shared(self) -> bool:
        """Whether other processes have the root open."""
        return self._changes.is_shared

    def listen(self, until: int) -> None:
        """Request a wake-up until this time since boot when another process changes something. Needs no
        lock."""
        with suppress(SyncFailed):  # The next commit, a second later at most, meets it, too.
            self._changes.listen(until)

    @property
    def has_news(self) -> bool:
        """Whether other processes have changed something since the last commit."""
        return not self.is_over and (not self._is_whole or self._changes.has_news)

    def poison(self) -> None:
        """Stop all processes that have the root open, and leave it: this one commits no more. The next
        process to open the root begins a new log once all have left. On a dead disk each process
        detects that by itself."""
        try:
            self._changes.poison()
            if self._lock is None and self._acquire_lock():
                try:
                    self._changes.members = self._changes.read_members()
                    self.close()
                finally:
                    self._release()
        except (SyncFailed, StoreError) as error:
            log.error("other processes of the root can't be told that a sync has failed: %s", error)

    def _decide(self) -> None:
        """Find out whether the last move of a process that died in a commit took place."""
        change = self._changes.in_doubt()
        if change is None:
            return
        if change.kind is ChangeKind.FILE:
            self._changes.decide(True)  # Its part looks what is there.
        else:
            is_there = self._moves.is_there(
                change.source if change.kind is ChangeKind.UNLINK else change.target
            )
            self._changes.decide(is_there != (change.kind is ChangeKind.UNLINK))

    def _replay(self, change: Change) -> None:
        index, commit = self._moves.index, self._moves.commit
        self._built_on_others()
        if change.kind is ChangeKind.FILE:
            self._notify_parts(change.source)
            self._notify_parts(change.target)
            return
        if change.kind is not ChangeKind.UNLINK:
            name = parse(change.target)
            # A listing that was made meanwhile may have seen it.
            if index.entry_at(name) is None:
                index.appear(name, commit, due=change.due)
            self._moves.ids.rise_above(name.stem.id)
        if change.kind is not ChangeKind.LINK:
            try:
                gone = parse(change.source)
            except NotAName:
                # It became a message's: of a stage, or put in by hand.
                self._notify_parts(change.source)
                return
            entry = index.entry_at(gone)
            if entry is None:
                index.unknown_disappears(gone, commit)
            else:
                index.disappear(entry, commit)

    def _notify_parts(self, path: str) -> None:
        """Let its part look at a file; one that the disk refuses to show is looked at again."""
        if not self._is_whole:
            return  # All files of the parts are read once the listing is whole.
        unread = self._moves.unread
        for part in self._parts:
            if path.startswith(tuple(f"{folder}/" for folder in part.folders)):
                try:
                    part.path_changed(path)
                except StoreError as error:
                    if path not in unread:
                        log.error("%s can't be looked at for now: %s", path, error)
                    unread[path] = None
                    return
        unread.pop(path, None)

    def _built_on_others(self) -> None:
        """Let the next answers wait for this process's own sync of all that others did."""
        self.replayed += 1
        self.rests_on_others = True
        self._moves.syncer.file_written()


ENDS_OF_SETS: Final = (ReservationLost, ReservationCommitted)
"""Errors that a caller may rely on: the facts in them must be durable."""
Found = TypeVar("Found")


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
    """The operations on one root. Not thread-safe, but for `Work.commit.sync`, during which the next
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
            self.moves, self.catalog, self.reader, self._dead_letters, clock, random, background
        )
        self._archive = Archive(self.moves, self.catalog, background)
        self.reaper = Reaper(
            self.moves, self.reader, self.deduplication, self._archive, unlinks=background.unlinks
        )
        self._remover = Remover(self.moves, self.catalog, self._leaser, self._sender)
        self.reservations = Reserver(
            self.moves, self.catalog, self.reader, self._dead_letters, self._leaser, clock, random
        )
        self.stages = Stages(self.moves, self.catalog, self._ids, clock)
        self.schedules = ScheduleCatalog(self.catalog, self.stages, clock, random)
        self.redrives = Redriver(
            self.moves, self.catalog, self.reader, self._dead_letters, self._sender, self._ids
        )
        self.expiry = Expiry(self.moves, self.catalog)
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
            Adoption(self.moves, self.catalog, self._ids, background),
            self._archive,
            self.expiry,
        )
        """In the order in which they go on at the beginning of a commit."""
        self._pending = tuple(part.pending for part in self._parts)
        turns = (
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
        self._turns = {turn.kind: turn for turn in turns}
        changes = Changes(memory, owner, pid)
        self.sharing = Sharing(self.moves, changes, self.catalog, is_living, self._parts)

    def open(self) -> bool:
        """Index the folders, and make them durable; False if another process holds the lock.

        Raise `SyncFailed`.
        """
        if not self.sharing.open():
            return False
        self._sync_now()
        return True

    def apply(self, requests: Sequence[Request[Any]], *, tick: bool = False) -> Work | None:
        """Execute `requests` up to the sync; None if another process holds the lock.

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
        effort = self.moves.effort
        effort.left = effort.files
        if tick:
            self._guarded(self.sharing.require_lock)
            self.moves.reserve.fill()
            self._guarded(self.sharing.find_orphans)
            for part in self._parts:
                self._guarded(part.tick)
        if self.sharing.orphans:
            self._finish_orphans()
        if self.catalog.expiring:
            self.expiry.note(requests)
        for part in compress(self._parts, map(any, self._pending)):
            due = part.next_due()
            if due == DUE_NOW or (due is not None and due <= self.moves.clock.monotonic()):
                self._guarded(part.advance)
        if self.index.loose:
            self._unlink_stale()
        has_reaped = bool(self.index.over) and self.reaper.hand_over()
        outcomes = run_in(self._turns, requests) if requests else []
        assigned, self._leaser.assigned = self._leaser.assigned, []
        ordered, self._sender.ordered = self._sender.ordered, []
        if not self._needs_sync(requests, outcomes):
            return Work(outcomes, 0, None, assigned, ordered)
        changed = self.moves.syncer.is_dirty or has_reaped or self.moves.effort.is_used
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
        """Return the answers of a synced commit; None if another process holds the lock.

        A message leased as it was sent must be where other processes look for it before the consumer
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
                log.warning("durable messages can't be moved out of new/ for now: %s", error)
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
        """Publish what the dead had sent, after quarantine of files in the place of queue folders."""
        if self.moves.foreign:
            self._guarded(self._foreign.advance)
        self._guarded(self.sharing.finish_orphans)

    def _may_make(self, folder: str) -> bool:
        kind, _, queue = folder.partition("/")
        return kind != "queues" or not queue or queue in self.catalog.records

    def _guarded(self, step: Callable[[], None]) -> None:
        """Let a part go on; a refusal of the disk stops no other part, and is tried again."""
        try:
            step()
        except StoreError as error:
            self.moves.refused_at = self.moves.clock.monotonic()
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

    def refresh(self) -> None:
        """Know what was answered and what other processes did, unless one of them holds the lock."""
        if not self.has_exact_index:
            with suppress(Poisoned, SyncFailed):  # The next commit says so.
                self.with_exact_index(lambda: None)

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
        waits = bool(self.index.loose or self.index.over or self.sharing.orphans)
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
        return self.next_work(self.moves.clock.monotonic())[0]

    @property
    def to_be_unlinked(self) -> int:
        """Number of deleted messages that wait to be unlinked."""
        return sum(
            entry.held.bit_count()
            for batch in self.index.over
            for entry in batch.entries
            if entry.name.state is State.REMOVED
        )

    def ready(self, queue: str) -> int | None:
        """Return the number of messages that a receive could lease; None if there is no such queue."""
        record = self.catalog.records.get(queue)
        if record is None:
            return None
        if record.settings.receiving == "paused":
            return 0
        return self.index.queue(queue).available(record.settings)

    def is_coming_back(self, queue: str) -> bool:
        """Return whether leases of the queue are over, and another commit is needed to make their
        messages ready."""
        return any(self.reservations.pending) and self.reservations.is_coming_back(queue)

    def close(self) -> bool:
        """Publish the sent messages, and leave the root; False if another process holds the lock.

        The other processes publish the messages that the disk refuses: they find this process dead.
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
        for batch in list(islice(self.index.loose, effort.share())):
            stale = list(batch.stale(self.moves.synced))
            unlink_all(self.moves, stale)
            effort.spend(len(stale))
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
