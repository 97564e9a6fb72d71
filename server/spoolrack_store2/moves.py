"""The four things that a store does to names: make, link, rename, unlink.

A move changes the disk first, and then the index, by the same two calls with which a start takes in a
listing. A move that the disk refuses has changed neither. What a move has dirtied is synced by the
commit it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spoolrack_store.files.folders import explained
from spoolrack_store.files.syncer import Commit, Syncer
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.transitions import State

from .batch import Entry, may_rename
from .changes import Change, Changes, Kind
from .disk import Disk
from .index import Index
from .members import pieces
from .names import MAX_BYTES, Name, Stem, members_room


class Moves:
    """All names of one root. Not thread-safe."""

    def __init__(self, disk: Disk, clock: Clock, owner: str) -> None:
        self.disk = disk
        self.changes: Changes | None = None
        """Where moves are told to other processes; None: there never are any."""
        self.clock = clock
        self.owner = owner
        self.index = Index()
        self.syncer = Syncer(disk)
        self.commit = 1
        """The number of the commit under way."""
        self.synced = 0
        """The last commit whose sync is complete."""

    # Commits.

    def begin_sync(self) -> tuple[int, Commit]:
        """End the commit under way, and return its number and what to sync for it."""
        number, self.commit = self.commit, self.commit + 1
        return number, self.syncer.begin()

    def end_sync(self, number: int) -> None:
        self.synced = max(self.synced, number)

    # Moves.

    def make(
        self, stem: Stem, queue: str, parts: Sequence[bytes], *, delay: Millis, alone: bool
    ) -> Entry:
        """Write a file into `new/`; raise `DiskFull` or `DiskError`, and then it isn't there."""
        wall, due = self.clock.wall(), self.clock.monotonic() + delay
        name = Name(
            stem=stem,
            state=State.SENT,
            queue=queue,
            members=stem.full,
            owner=self.owner,
            due=Millis(wall + delay) if delay else None,
        )
        if stem.key is not None:
            # Other processes must know its keys before it is published.
            self._intend(Kind.FILE, "", name.path, 0)
        try:
            self.disk.create(name.path, parts, sync=False)
        except OSError as error:
            if stem.key is not None:
                self._give_up()
            raise explained(error) from error
        if alone or not self.disk.can_sync_all:
            self.syncer.lone_file_written(name.path)
        else:
            self.syncer.file_written()
        self.syncer.folder_changed("new")
        return self.index.appear(name, self.commit, due=due)

    def move(
        self,
        entry: Entry,
        members: int,
        state: State,
        *,
        queue: str | None = None,
        receives: int | None = None,
        first: Millis | None = None,
        until: tuple[Millis, int] | None = None,
        token: str = "",
    ) -> list[Entry]:
        """Move `members` of what an entry holds; return their new entries, one unless the list is too
        long for a name.

        `until` is when the lease or delay ends, in Unix time and in monotonic. Raise `DiskFull` or
        `DiskError`; then nothing has moved, or, of a long list, only what the index says.
        """
        old, batch = entry.name, entry.batch
        count = old.receives if receives is None else receives
        made: list[Entry] = []
        for piece in self._pieces(entry, members, state, queue or old.queue, until, token):
            name = Name(
                stem=batch.stem,
                state=state,
                queue=queue or old.queue,
                version=batch.top + 1,
                members=piece,
                receives=count,
                first=(old.first if first is None else first) if count else None,
                owner=old.owner if state is State.SENT else "",
                due=None if until is None else until[0],
                token=token,
            )
            made.append(self._make_name(entry, name, 0 if until is None else until[1]))
        return made

    def delete(self, entry: Entry, members: int) -> None:
        """Move `members` to `remove/`, by a longer list of a name that is there already, if there is
        one."""
        batch = entry.batch
        whole = may_rename(entry, members, self.synced)
        other = None if whole else batch.extendable(entry.name.queue)
        if other is None:
            self.move(entry, members, State.REMOVED)
            return
        name = Name(
            stem=batch.stem,
            state=State.REMOVED,
            queue=other.name.queue,
            version=batch.top + 1,
            members=other.name.members | members,
            receives=other.name.receives,
            first=other.name.first,
        )
        if name.bytes > MAX_BYTES:
            self.move(entry, members, State.REMOVED)
        else:
            self._make_name(other, name, 0, is_rename=True)

    def unlink(self, entry: Entry) -> None:
        """Unlink a name that the rules let go."""
        self._intend(Kind.UNLINK, entry.name.path, "", 0)
        try:
            self.disk.unlink(entry.name.path)
        except FileNotFoundError:
            pass  # A person was faster, and what was wanted is so.
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.folder_changed(_folder_of(entry.name.path))
        self.index.disappear(entry, self.commit)

    def take_over(self, source: str, name: Name, due: int) -> Entry:
        """Rename a file that is no message's yet, whose content is durable, to a message's name."""
        self._intend(Kind.RENAME, source, name.path, due)
        try:
            self.disk.rename_new(source, name.path)
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.folder_changed(_folder_of(source))
        self.syncer.folder_changed(_folder_of(name.path))
        return self.index.appear(name, self.commit, due=due)

    # Files that hold no messages. Other processes hear of them: see `sharing`.

    def create_file(self, path: str, content: bytes) -> None:
        """Write a file that isn't there yet; it is durable with the commit, and may be torn until
        then."""
        self._intend(Kind.FILE, "", path, 0)
        try:
            self.disk.create(path, [content], sync=False)
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.lone_file_written(path)
        self.syncer.folder_changed(_folder_of(path))

    def rename_file(self, source: str, target: str) -> None:
        """Rename a file to a name that isn't there yet."""
        self._intend(Kind.FILE, source, target, 0)
        try:
            self.disk.rename_new(source, target)
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.folder_changed(_folder_of(source))
        self.syncer.folder_changed(_folder_of(target))
        self.syncer.file_moved(source, target)

    def unlink_file(self, path: str) -> None:
        """Unlink a file; one that is gone already is a success."""
        self._intend(Kind.FILE, path, "", 0)
        try:
            self.disk.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.folder_changed(_folder_of(path))

    def _make_name(self, entry: Entry, name: Name, due: int, *, is_rename: bool | None = None) -> Entry:
        """Link or rename `entry` to `name`, whose version is above all."""
        if is_rename is None:
            is_rename = may_rename(entry, name.members, self.synced)
        source = entry.name.path
        self._intend(Kind.RENAME if is_rename else Kind.LINK, source, name.path, due)
        try:
            if is_rename:
                self.disk.rename_new(source, name.path)
            else:
                self.disk.link(source, name.path)
        except OSError as error:
            self._give_up()
            raise explained(error) from error
        self.syncer.folder_changed(_folder_of(name.path))
        if is_rename:
            self.syncer.folder_changed(_folder_of(source))
            self.syncer.file_moved(source, name.path)
        made = self.index.appear(name, self.commit, due=due)
        if is_rename:
            self.index.disappear(entry, self.commit)
        return made

    def _intend(self, kind: Kind, source: str, target: str, due: int) -> None:
        if self.changes is not None:
            self.changes.intend(Change(kind, source, target, due))

    def _give_up(self) -> None:
        if self.changes is not None:
            self.changes.give_up()

    def _pieces(
        self,
        entry: Entry,
        members: int,
        state: State,
        queue: str,
        until: tuple[Millis, int] | None,
        token: str,
    ) -> Iterable[int]:
        """Divide a list that is too long for a name."""
        runs_are_few = (
            members == entry.batch.stem.full or members & (members + (members & -members)) == 0
        )
        if runs_are_few:
            return (members,)
        longest = Name(
            stem=entry.batch.stem,
            state=state,
            queue=queue,
            version=10**8,
            members=entry.batch.stem.full,
            receives=10**8,
            first=Millis(10**12),
            due=None if until is None else until[0],
            token=token,
        )
        return pieces(members, members_room(longest))


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]
