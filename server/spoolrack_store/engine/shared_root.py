"""A root that several processes of one host have open: who holds the lock, what others did, what the
dead left.

A commit enters, which takes `LOCK` and replays `CHANGES`, and leaves. In between the index is exact,
whoever made the last move. A process that dies is noticed by its owner's lock, which is free then; what
it sent and did not publish is published by any process that notices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..files.changes import LOCK, Change, ChangeKind, Changes, Overtaken
from ..files.disk import Lock
from ..files.layout import owner as owner_file
from ..files.syncer import SyncFailed, explained
from ..model.batch import Entry
from ..model.errors import StoreError
from ..model.names import NotAName, parse
from .catalog import Catalog
from .moves import Moves
from .part import Part
from .recovery import finish_sends, listed_orphans, relist, take_in, tell_unlisted

log = logging.getLogger(__name__)


class Sharing:
    """Not thread-safe."""

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
        self._orphans: list[tuple[int, frozenset[str], list[Entry]]] = []
        """Files of dead processes in `new/`: the commit that makes them durable, owners, files."""
        self.rests_on_others = False
        """Whether this commit has taken in what others did since the last sync."""
        self._unheard: dict[tuple[Part, str], None] = {}
        """Files of parts that others have touched, and the disk refused to show."""
        self.is_over = False
        """Whether this process has left the root: its index stays as it was."""
        self.replayed = 0
        """Moves of others that were taken in."""

    def open(self) -> bool:
        """Join the processes that have the root open, or begin anew; False if another one holds the
        lock."""
        if not self._take_lock():
            return False
        try:
            self._open()
        except BaseException as error:
            if isinstance(error, Exception):
                with suppress(SyncFailed):  # Of the disk whose failure is on its way up.
                    self.close()
            self._release()
            raise
        self.leave()
        return True

    def _open(self) -> None:
        changes = self._changes
        members = frozenset(changes.read_members())
        living = frozenset(filter(self._is_living, members))
        if living:
            changes.look()
            self._decide()
            changes.join()
        else:
            changes.begin_anew()
        self._moves.changes = changes
        sent = take_in(self._moves, living)
        for part in self._parts:
            part.recover()
        tell_unlisted(self._moves)
        self._orphans.append((self._moves.commit, members - living, sent))

    def enter(self) -> bool:
        """Take the lock and replay what others did; False if another process holds it. Raise
        `Poisoned`, `SyncFailed`."""
        if self.is_over:
            raise SyncFailed("the store is closed")
        if not self._take_lock():
            return False
        try:
            self._changes.look()
            self._decide()
            try:
                unheard, self._unheard = self._unheard, {}
                for part, path in unheard:
                    self._tell(part, path)
                for change in self._changes.news():
                    self._replay(change)
            except Overtaken:
                relist(self._moves, self._changes.members)
                self._changes.skip()
                for part in self._parts:
                    part.recover()
                self._built_on_others()
        except BaseException:
            self._release()  # A move in doubt stays in doubt, and what wasn't replayed is news.
            raise
        return True

    def leave(self) -> None:
        """Release the lock; all moves of the commit are made."""
        changes = self._changes
        changes.finish()
        self._release()
        if changes.has_told:
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
        """Leave the root to the others; the lock is held."""
        self._changes.set_members(tuple(o for o in self._changes.members if o != self._moves.owner))

    def look_for_dead(self) -> None:
        """Notice which processes have died, and take in what they left; the lock is held.

        The dead stay members until what they sent is published: the process that takes it over may die,
        too, and then another one finds them dead.
        """
        known = {self._moves.owner}.union(*(dead for _, dead, _ in self._orphans))
        dead = frozenset(
            owner
            for owner in self._changes.members
            if owner not in known and not self._is_living(owner)
        )
        if dead:
            log.warning("processes that had the root open have died: %s", ", ".join(sorted(dead)))
            self._orphans.append((self._moves.commit, dead, listed_orphans(self._moves, dead)))

    def finish_orphans(self) -> None:
        """Publish what the dead had sent, once it is durable; the lock is held."""
        waiting = []
        for commit, dead, sent in self._orphans:
            if commit > self._moves.synced or not finish_sends(self._moves, self._catalog, sent):
                waiting.append((commit, dead, sent))
                continue
            self._changes.set_members(tuple(o for o in self._changes.members if o not in dead))
            for owner in dead:
                self._forget(owner)
        self._orphans = waiting

    def _forget(self, owner: str) -> None:
        """Unlink the file of a dead process; one that stays is unlinked by the next start."""
        try:
            self._moves.disk.unlink(owner_file(owner))
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s stays behind: %s", owner_file(owner), error)

    @property
    def has_orphans(self) -> bool:
        return bool(self._orphans)

    def require_lock(self) -> None:
        """Raise `SyncFailed` if `LOCK` is gone, and with it most likely the root: a process that opens
        the root from now on would lock another file."""
        if not self._moves.is_there(LOCK):
            raise SyncFailed(f"the root is lost: No such file or directory: {LOCK!r}")

    def _take_lock(self) -> bool:
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
        """Ask to be woken until this time since boot when another process changes something. Needs no
        lock."""
        with suppress(SyncFailed):  # The next commit, a second later at most, meets it, too.
            self._changes.listen(until)

    @property
    def has_news(self) -> bool:
        """Whether others have changed something since the last commit."""
        return not self.is_over and self._changes.has_news

    def poison(self) -> None:
        """Stop all processes that have the root open. On a dead disk each finds that out by itself."""
        try:
            self._changes.poison()
        except SyncFailed as error:
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
            self._tell_part(change.source)
            self._tell_part(change.target)
            return
        if change.kind is not ChangeKind.UNLINK:
            name = parse(change.target)
            index.appear(name, commit, due=change.due)
            self._moves.ids.rise_above(name.stem.id)
        if change.kind is not ChangeKind.LINK:
            try:
                gone = parse(change.source)
            except NotAName:
                self._tell_part(change.source)  # It became a message's: of a stage, or put in by hand.
                return
            entry = index.entry_at(gone)
            if entry is None:
                index.unknown_disappears(gone, commit)
            else:
                index.disappear(entry, commit)

    def _tell_part(self, path: str) -> None:
        for part in self._parts:
            if path.startswith(tuple(f"{folder}/" for folder in part.folders)):
                self._tell(part, path)

    def _tell(self, part: Part, path: str) -> None:
        try:
            part.heard(path)
        except StoreError as error:
            log.error("%s can't be looked at for now: %s", path, error)
            self._unheard[part, path] = None

    def _built_on_others(self) -> None:
        """Let the next answers wait for this process's own sync of all that others did."""
        self.replayed += 1
        self.rests_on_others = True
        self._moves.syncer.file_written()
