"""A root that several processes of one host have open.

A commit enters, which takes `LOCK` and replays `CHANGES`, and leaves. In between the index is exact,
whichever process made the last move. The root is listed without `LOCK`, while other processes commit:
the head of `CHANGES` is noted before, and what moved meanwhile is replayed after. A process that dies
is noticed by its owner's lock, which is free then; any process that notices enqueues the messages it
sent and did not enqueue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from itertools import count
from typing import Final

from ..files.changes import LOCK, PATH, Change, ChangeKind, Changes, Overtaken
from ..files.disk import Lock, SyncFailed, explained, explaining
from ..files.layout import owner as owner_file
from ..files.root import owners_of
from ..model.errors import RootInUse, StoreError
from ..model.names import name_at, parse
from .catalog import Catalog
from .entries import Entry
from .moves import Moves
from .part import Part
from .recovery import (
    all_folders_changed,
    finish_listing,
    finish_sends,
    list_root,
    list_sent,
    listed_orphans,
    log_unlisted,
)

log = logging.getLogger(__name__)


NEAR: Final = 32 * 1024
"""Bytes of the log that are replayed in a moment: some 200 moves."""
LISTINGS: Final = 3
"""So often the root is listed beside other processes that overrun the log; then under the lock."""


class IndexState(Enum):
    """What the index has of a root that others change."""

    STALE = "stale"
    """The root must be listed: at first, and when others have overrun the log."""
    LISTED = "listed"
    """The names of a listing; the log has what moved since that began."""
    EXACT = "exact"
    """What only the lock keeps still was read, too: with the log replayed, the index is exact."""


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
        self._index_state = IndexState.STALE
        self._changes_since_listing: list[Change] = []
        """Moves of others since the listing began."""
        self._known_sends: dict[str, Entry] = {}
        """Names in `new/` that were known before the listing, by their paths."""
        self._dead_owners = frozenset[str]()
        """Owners that were dead when this process joined."""
        self.has_opened = False
        """Whether the index was exact once."""
        self.is_over = False
        self._orphan_loads: dict[str, tuple[int, int]] = {}
        """By queue the messages and bytes that the files of `orphans` had in all."""
        """Whether this process has left the root: its index stays as it was."""
        self.replayed = 0
        """Moves of others that were taken in."""

    def open(self) -> bool:
        """Join the processes that have the root open, or begin a new log; False if another one holds
        the lock: then call again."""
        try:
            with explaining():
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
        """Become an owner: from then on other processes log their moves. False if one holds the
        lock."""
        if not self._acquire_lock():
            return False
        try:
            changes = self._changes
            owners = frozenset[str]()
            if not changes.is_foreign:
                owners = frozenset(changes.read_owners())
            elif any(map(self._is_living, set(owners_of(self._moves.disk)) - {self._moves.owner})):
                holder = f", whose {PATH} another version of Spoolrack writes"
                raise RootInUse(root="the root", holder=holder)
            living = frozenset(filter(self._is_living, owners))
            if living:
                disk = self._moves.disk
                if not (disk.can_sync_all or disk.several_hosts):
                    holder = ", and needs a syncfs(2) that reports errors to have two at once"
                    raise RootInUse(root="the root", holder=holder)
                changes.read_header()
                self._decide()
                changes.join()
            else:
                changes.begin_anew()
            self._dead_owners = owners - living
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
        before, without the lock. Raise `SyncFailed`.
        """
        if self.is_over:
            raise SyncFailed("the store is closed")
        for listings in count():
            if not self._acquire_lock():
                return False
            try:
                has_news = self._changes.read_header()
                if self._index_state is IndexState.EXACT and not (has_news or self._moves.unread_files):
                    return True
                self._decide()
                if self._index_state is not IndexState.STALE and self._catch_up():
                    return True
                self._changes.skip()  # Before the listing: moves from now on are news after it.
                self._changes_since_listing.clear()
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

    def enter_alone(self) -> bool:
        """Take the lock, where no other process has the root open and the index is exact; else return
        False, without the lock. Raise `SyncFailed`, `DiskError`."""
        if self.is_over or self._index_state is not IndexState.EXACT or self._changes.is_shared:
            return False
        if self.rests_on_others or self.orphans or self._moves.unread_files or not self._acquire_lock():
            return False
        is_alone = False
        try:
            is_alone = not (self._changes.read_header() or self._changes.is_shared)
        finally:
            if not is_alone:
                self._release()
        return is_alone

    def _list(self) -> None:
        """List the folders. Without the lock other processes go on: a name that moves meanwhile may be
        seen twice, or nowhere, and the log tells where it is. Raise `Overtaken`."""
        self._known_sends = list_root(self._moves, self._follow)
        for change in self._changes_since_listing:
            self._replay(change)
        self._changes_since_listing.clear()
        self._index_state = IndexState.LISTED

    def _follow(self) -> None:
        """Read the log during a listing, before the ring is overrun; if another process holds the lock,
        the next call does."""
        if self._lock is not None or not self._acquire_lock():
            return
        try:
            self._changes.read_header()
            self._decide()
            self._changes_since_listing += self._changes.news()
        finally:
            self._release()

    def _catch_up(self) -> bool:
        """Make the index exact; return False if the root must be listed. The lock is held."""
        if self._index_state is IndexState.EXACT:
            for path in list(self._moves.unread_files):
                self._notify_parts(path)
        try:
            for change in self._changes.news():
                self._replay(change)
        except Overtaken:
            self._index_state = IndexState.STALE
            return False
        if self._index_state is not IndexState.EXACT:
            self._read_rest()
        return True

    def _read_rest(self) -> None:
        """Read what only the lock keeps still: `new/`, and the files of the parts."""
        moves, owners = self._moves, frozenset(self._changes.owners) - {self._moves.owner}
        is_start = not self.has_opened
        others = frozenset(filter(self._is_living, owners)) if is_start else owners
        sent = list_sent(moves, others, self._known_sends)
        if is_start:
            finish_listing(moves)
        for part in self._parts:
            part.recover()
        if is_start:
            self._add_orphans(self._dead_owners | (owners - others), sent)
        else:
            self._built_on_others()
        self._index_state, self.has_opened = IndexState.EXACT, True

    def leave(self) -> None:
        """Release the lock; all moves of the commit are made. Raise `SyncFailed`."""
        changes = self._changes
        if self._moves.disk.several_hosts:
            self._sync_for_others()
        if not changes.has_told:
            self._release()
        else:
            changes.finish()
            self._release()
            changes.has_told = False
            # After the release, so that none of them finds the lock taken.
            if changes.listening > self._moves.clock.monotonic():
                for owner in changes.owners:
                    if owner != self._moves.owner:
                        self._moves.disk.touch(owner_file(owner))

    def _sync_for_others(self) -> None:
        """Make all moves durable before the release of the lock: no other host can, but one that joins,
        which syncs all that it finds. Raise `SyncFailed`, with the lock released."""
        syncer = self._moves.syncer
        try:
            syncer.require_synced()
            if self._changes.is_shared and syncer.is_dirty:
                syncer.begin()
            if syncer.is_unconfirmed:
                self._require_held()
                syncer.is_unconfirmed = False
        except SyncFailed:
            # Before the release: no other process may build on what may not be durable.
            with suppress(SyncFailed):  # Of the disk that has just failed.
                self._changes.poison()
            self._release()
            raise

    def _require_held(self) -> None:
        """Raise `SyncFailed` if the lock was lost: then the syncs before have made nothing durable."""
        assert self._lock is not None
        try:
            if self._lock.is_held():
                return
        except OSError as error:
            raise SyncFailed(f"the lock was lost: {error}") from error
        raise SyncFailed("the lock was lost: this host was evicted from the file system")

    def _release(self) -> None:
        assert self._lock is not None
        self._lock.release()
        self._lock = None

    def close(self) -> None:
        """Leave the root; the lock is held."""
        self._changes.set_owners(tuple(o for o in self._changes.owners if o != self._moves.owner))

    def find_orphans(self) -> None:
        """Find dead processes, and index their changes; the lock is held.

        The dead stay owners until what they sent is enqueued: the process that takes it over may die,
        too, and then another one finds them dead.
        """
        known = {self._moves.owner}.union(*(dead for _, dead, _ in self.orphans))
        dead = frozenset(
            owner for owner in self._changes.owners if owner not in known and not self._is_living(owner)
        )
        if dead:
            log.warning("processes that had the root open have died: %s", ", ".join(sorted(dead)))
            self._add_orphans(dead, listed_orphans(self._moves, dead))

    def _add_orphans(self, dead: frozenset[str], sent: list[Entry]) -> None:
        self.orphans.append((self._moves.commit, dead, sent))
        for entry in sent:
            members, queue = entry.name.members, entry.name.queue
            messages, size = self._orphan_loads.get(queue, (0, 0))
            size += entry.batch.counted_bytes_of(members)
            self._orphan_loads[queue] = messages + members.bit_count(), size

    def orphan_load(self, queue: str) -> tuple[int, int]:
        """Return the messages and bytes of dead processes that are on their way to a queue; until the
        last one has come, those that have count, too."""
        # Beside other processes the files themselves are counted: `Moves.sent_by_others`.
        return (0, 0) if self.is_shared else self._orphan_loads.get(queue, (0, 0))

    def finish_orphans(self) -> None:
        """Publish the sends of dead processes, once they are durable; the lock is held."""
        waiting = []
        for commit, dead, sent in self.orphans:
            if commit > self._moves.synced or not finish_sends(self._moves, self._catalog, sent):
                waiting.append((commit, dead, sent))
                continue
            if dead:
                self._catalog.remove_unused_folders()
            self._changes.set_owners(tuple(o for o in self._changes.owners if o not in dead))
            for owner in sorted(dead):
                self._unlink_owner(owner)
        self.orphans = waiting
        if not waiting:
            self._orphan_loads.clear()

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
        """The process that took the lock last, and when, in Unix time. In any thread."""
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
    def is_nearly_exact(self) -> bool:
        """Whether a commit takes in what others did in a moment, without a listing of the root."""
        return not self.is_shared or (
            self._index_state is IndexState.EXACT and self._changes.unread <= NEAR
        )

    @property
    def has_news(self) -> bool:
        """Whether other processes have changed something since the last commit. In any thread."""
        return not self.is_over and (
            self._index_state is not IndexState.EXACT or self._changes.has_news
        )

    def poison(self) -> None:
        """Stop all processes that have the root open, and leave it: this one commits no more. The next
        process to open the root begins a new log once all have left. On a dead disk each process
        detects that by itself."""
        try:
            self._changes.poison()
            if self._lock is None and self._acquire_lock():
                try:
                    self._changes.owners = self._changes.read_owners()
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
        if self._moves.disk.several_hosts:
            all_folders_changed(self._moves)  # It didn't come to its sync.
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
            gone = name_at(change.source)
            if gone is None:
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
        if self._index_state is not IndexState.EXACT:
            return  # All files of the parts are read once the listing is whole.
        unread = self._moves.unread_files
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
        self._moves.syncer.others_changed()
