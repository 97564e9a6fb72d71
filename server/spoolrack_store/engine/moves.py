"""The four operations of a store on names: make, link, rename, unlink.

A move changes the disk first, and then the index, by the same two calls with which a start takes in a
listing. A move that the disk refuses has changed neither. The commit of a move syncs the files and
folders that it has changed. All calls are made under the lock, in one thread.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from ..files.changes import Change, ChangeKind
from ..files.disk import NO_ROOM, NOT_A_FILE, FolderEntry, SyncFailed, explained, explaining
from ..files.layout import BODIES, COPY, FORMAT, NEW, QUARANTINE
from ..model.batch_file import Damaged, Line, decode_whole
from ..model.clock import Millis
from ..model.errors import DiskError, DiskFull, StoreError
from ..model.members import MOST, pieces
from ..model.names import (
    MAX_BYTES,
    MAX_RECEIVES,
    Death,
    Name,
    Stem,
    body_path,
    members_room,
    name_at,
)
from ..model.operations import WrittenBody
from ..model.sealed import NotWhole, Torn
from ..model.transitions import COUNTED, Move, State
from .context import Context
from .entries import Entry, may_rename

log = logging.getLogger(__name__)

Record = TypeVar("Record")

_OVER: Final = (State.REMOVED, State.QUARANTINED)
PATIENCE: Final = 1_000
"""So many milliseconds later other processes end a lease of a consumer that prefetches: the one that
leased it knows which messages were begun."""
SAMPLES: Final = 16
"""Over about so many files the mean moves."""
NOTE: Final = ".why"
"""The end of the name of a note in quarantine."""
_NOTE_NAME_BYTES: Final = 200
"""Of a note's name before its end, so that it stays below what file systems allow."""


class FileVanished(DiskError):
    """The file {detail} was moved away or removed by hand."""


class NameVanished(FileVanished):
    """The file {detail} was moved away or removed by hand: its messages are where the other names of
    its batch say, if there are any."""


class Moves(Context):
    """All names of one root. Not thread-safe."""

    def make(
        self,
        stem: Stem,
        queue: str,
        parts: Sequence[bytes],
        *,
        delay: Millis,
        alone: bool,
        written: WrittenBody | None = None,
        may_spare: bool = False,
    ) -> Entry:
        """Write a file into `new/`; raise `DiskFull` or `DiskError`, and then it isn't there.

        With `written` the body, which is synced, becomes the message's own file beside it. If it
        `may_spare`, it may take the place of a spare file, whose name it keeps until it is moved.
        """
        wall, due = self.clock.wall(), self.clock.monotonic() + delay
        name = Name(
            stem=stem,
            state=State.SENT,
            queue=queue,
            members=stem.full,
            owner=self.owner,
            due=Millis(wall + delay) if delay else None,
        )
        path = name.path
        if may_spare and self.spares.is_on and self._fill_spare(path, parts):
            return self.index.appear(name, self.commit, due=due)
        if written is not None:
            self._place_body(written.path, body_path(stem.id))
        try:
            create = partial(self.disk.create, path, parts, sync=False)
            # Other processes must know its keys before it is enqueued.
            self._change(ChangeKind.FILE, "", path, create, is_told=stem.key is not None)
            self.full_at = None
        except BaseException as error:
            if isinstance(error, DiskFull):
                self.full_at = self.clock.monotonic()
            if written is not None:
                self._place_body(body_path(stem.id), written.path)
            raise
        if alone or not self.disk.can_sync_all:
            self.syncer.lone_file_written(path)
        else:
            self.syncer.file_written()
        return self.index.appear(name, self.commit, due=due)

    def _fill_spare(self, path: str, parts: Sequence[bytes]) -> bool:
        """Write the file that is to have the name `path` over a spare; return False if there is none.
        Raise `DiskError`."""
        if self.is_shared:
            return False  # Others look for names in `new/`.
        spare = self.spares.take(sum(map(len, parts)))
        if spare is None:
            return False
        self.request_effort.left -= 1
        try:
            with explaining():
                self._attempt(partial(spare.fill, parts, path), path)
        except Exception:
            self.spares.drop(spare)
            raise
        self.index.in_spares[path] = spare
        self.syncer.file_overwritten(spare)
        return True

    def _rename_file(self, source: str, target: str) -> None:
        """Rename the file with the path `source`, which may have a spare's name still."""
        spare = self.index.in_spares.get(source)
        if spare is not None:
            try:
                self.disk.rename_new(spare.path, target)
                return
            except FileNotFoundError:
                pass  # A process that has joined since has given it its name.
        self.disk.rename_new(source, target)

    def leave_spare(self, path: str) -> None:
        """Note that the file with this path in `new/` has no spare's name any more, if it had one."""
        spare = self.index.in_spares.pop(path, None)
        if spare is not None:
            self.spares.named(spare)

    def _name_spare(self, path: str) -> None:
        """Give the file with this path its own name, if it has that of a spare. Raise `DiskError`."""
        if path in self.index.in_spares:
            with explaining():
                if not self.is_there(path):
                    self._attempt(lambda: self._rename_file(path, path), path, urgent=True)
            self.syncer.folder_changed(NEW)
            self.leave_spare(path)

    def _place_body(self, source: str, target: str) -> None:
        with explaining():
            self._attempt(lambda: self.disk.rename_new(source, target), target)
        self.syncer.folder_changed(BODIES)

    def move(
        self,
        entry: Entry,
        members: int,
        move: Move,
        *,
        queue: str | None = None,
        receives: int | None = None,
        first: Millis | None = None,
        until: tuple[Millis, int] | None = None,
        token: str = "",
        death: Death | None = None,
        renewed: Millis | None = None,
        is_prefetch: bool = False,
    ) -> list[Entry]:
        """Move `members` of what an entry holds; return their new entries, one unless the list is too
        long for a name.

        What isn't given stays in the name, unless the move drops it. `until` is when the lease or delay
        ends, in Unix time and in monotonic. A lease with `is_prefetch`, or one that goes on of a
        consumer that prefetches, is left to this process to end. Raise `DiskFull` or `DiskError`; then
        nothing has moved, or, of a long list, only what the index says.
        """
        old, batch = entry.name, entry.batch
        if old.state not in move.sources:
            raise AssertionError(f"no {move.name} of {old.path}")
        drops = move.drops
        count = 0 if "r" in drops else old.receives if receives is None else receives
        queue, death = queue or old.queue, death or old.death
        patience = self.margin
        if move.target is State.LEASED and (
            is_prefetch or (entry.shares and any(share.is_prefetch for share in entry.shares))
        ):
            patience = max(PATIENCE, self.margin)
        whole = Name(
            stem=batch.stem,
            state=move.target,
            queue=queue,
            version=batch.top + 1,
            members=members,
            receives=count,
            first=(old.first if first is None else first) if count else None,
            death=death,
            renewed=old.renewed if renewed is None else renewed,
            owner="" if "o" in drops else old.owner,
            due=None if "@" in drops else old.due if until is None else until[0],
            token="" if "~" in drops else token or old.token,
        )
        due = 0 if "@" in drops else entry.due if until is None else until[1]
        made: list[Entry] = []
        for piece in _pieces(whole):
            name = whole if piece == members else replace(whole, version=batch.top + 1, members=piece)
            made.append(self._make_name(entry, name, due, patience=patience if due else 0))
            self._note_traffic(old, name, piece.bit_count())
            if move is Move.QUARANTINE:
                self.quarantined += piece.bit_count()
        return made

    def make_alone(self, name: Name, content: bytes) -> Entry | None:
        """Write a file into `new/`, when no other process has to hear of it; None, and it isn't there,
        if the disk refuses it. The commit syncs it."""
        path = name.path
        try:
            if self.spares.is_on and self._fill_spare(path, [content]):
                return self.index.appear(name, self.commit)
            self._attempt(partial(self.disk.create, path, [content], sync=False), path)
        except (OSError, DiskError):
            return None
        self.full_at = None
        self.syncer.folder_changed(NEW)
        if name.stem.count and self.disk.can_sync_all:
            self.syncer.file_written()  # As all batches.
        else:
            self.syncer.lone_file_written(path)
        return self.index.appear(name, self.commit)

    def rename_alone(self, entry: Entry, name: Name, due: int = 0) -> Entry | None:
        """Give a file another name in place of its only one, when no other process has to hear of it;
        None, and nothing has changed, if the disk refuses it. The old name must hold all messages of
        the file, so that none can get lost with it."""
        source, target = entry.name.path, name.path
        try:
            rename = self._rename_file if self.index.in_spares else self.disk.rename_new
            self._attempt(partial(rename, source, target), target, urgent=True)
        except OSError:
            return None
        if self.index.in_spares:
            self.leave_spare(source)
        syncer = self.syncer
        syncer.folder_changed(source.rpartition("/")[0])
        syncer.folder_changed(target.rpartition("/")[0])
        syncer.file_moved(source, target)
        return self.index.rename(entry, name, self.commit, due=due)

    def delete(self, entry: Entry, members: int, *, is_purge: bool = False) -> None:
        """Move `members` to `remove/`, by a longer list of a name that is there already, if there is
        one. A message deleted by a purge doesn't count as having left its queue."""
        self._delete(entry, members)
        if entry.name.state in COUNTED and not is_purge:
            self.index.queues[entry.name.queue].left += members.bit_count()

    def _delete(self, entry: Entry, members: int) -> None:
        batch = entry.batch
        whole = may_rename(entry, members, self.synced)
        other = None if whole else batch.extendable(entry.name)
        if other is None:
            self.move(entry, members, Move.DELETE)
            return
        gone = members | other.members
        name = replace(other.name, version=batch.top + 1, members=other.name.members | members)
        if name.bytes > MAX_BYTES:
            self.move(entry, members, Move.DELETE)
            return
        try:
            self._make_name(other, name, 0, is_rename=True)
        except NameVanished:
            # `rm remove/*`: messages deleted by that name must stay deleted, too.
            for each in list(batch.entries):
                if each.name.state not in _OVER and each.members & gone:
                    self.move(each, each.members & gone, Move.DELETE)

    def unlink(self, entry: Entry) -> None:
        """Unlink a name that the rules release; a missing one is a success."""
        path = entry.name.path
        if self.index.in_spares:
            self._name_spare(path)
        self._change(ChangeKind.UNLINK, path, "", lambda: self._unlink(path), urgent=True)
        if entry.name.state is State.REMOVED:
            self.unlinked += entry.members.bit_count()
        self.index.disappear(entry, self.commit)
        if self.is_body_left(entry):
            self.removed_files.add([(body_path(entry.batch.stem.id), ())])

    def is_body_left(self, entry: Entry) -> bool:
        """Return whether the body of a removed name was the last part left of its message."""
        stem = entry.batch.stem
        return stem.is_external and not self.index.has_file_of(stem.id)

    def write_ahead(self, files: Mapping[str, bytes]) -> StoreError | None:
        """Write files that this commit will refer to, and make them durable with their folders at once.
        Return why the disk refused one; raise `SyncFailed`.

        No process looks for one that no name refers to, but a start, which unlinks it.
        """
        try:
            for path, content in files.items():
                self._attempt(partial(self.disk.create, path, [content], sync=False), path, urgent=True)
        except OSError as error:
            return explained(error)
        self.sync_now(list(files), list(dict.fromkeys(map(_folder_of, files))))
        return None

    def sync_now(self, files: Sequence[str], folders: Sequence[str] = ()) -> None:
        """Make contents of files, and folders, durable before the commit's own sync; raise
        `SyncFailed`."""
        try:
            if len(files) + len(folders) > 1 and self.disk.can_sync_all:
                self.disk.sync_all()
                return
            for path in files:
                self.syncer.sync_path(path, self.disk.sync_file)
            for folder in folders:
                self.syncer.sync_path(folder, self.disk.sync_folder)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def adopt(self, source: str, name: Name, due: int) -> Entry:
        """Rename a file that is no message's yet, whose content is durable, to a message's name; raise
        `FileVanished`, too."""
        self._rename(ChangeKind.RENAME, source, name.path, due=due)
        self.index.queue(name.queue).entered += name.members.bit_count()
        return self.index.appear(name, self.commit, due=due)

    # Files that hold no messages. Other processes learn of them: see `sharing.Sharing`.

    def create_file(
        self, path: str, content: bytes, *, urgent: bool = False, sync: bool = False
    ) -> None:
        """Write a file that isn't there yet; it is durable with the commit, and may be torn until
        then.

        An `urgent` write, as a delete needs it, may use the reserve of a full disk. With `sync` the
        content is durable at once. It has to be if the next commit may rename the file: a sync that has
        begun would look for it in vain.
        """
        create = partial(self.disk.create, path, [content], sync=sync)
        self._change(ChangeKind.FILE, "", path, create, urgent=urgent)
        self.syncer.lone_file_written(path)

    def replace_file(self, path: str, content: bytes) -> None:
        """Give a file another content, or make it; it is never missing or torn meanwhile. Raise
        `SyncFailed`, too."""
        copy = _copy_path(path)

        def replace() -> None:
            self._unlink(copy)  # A process may have died here.
            self.disk.create(copy, [content], sync=False)
            self.sync_now((copy,))
            self._rename_copy(self.disk.rename, copy, path)

        self._change(ChangeKind.FILE, "", path, replace)

    def rename_file(self, source: str, target: str) -> None:
        """Rename a file to a name that isn't there yet; raise `FileVanished`, too."""
        self._rename(ChangeKind.FILE, source, target, urgent=True)
        self.syncer.file_moved(source, target)

    def unlink_file(self, path: str) -> None:
        """Unlink a file; a missing one is a success."""
        self._change(ChangeKind.FILE, path, "", lambda: self._unlink(path), urgent=True)

    def require_read(self, folders: Sequence[str]) -> None:
        """Raise `DiskError` as long as the disk refuses to show a file in `folders`: an answer may rest
        on it."""
        for path in self.unread_files:
            if path.partition("/")[0] in folders:
                raise DiskError(detail=f"{path!r} can't be read for now; try again")

    def quarantine(self, path: str, why: str) -> bool:
        """Move what is foreign or damaged into a folder of its own in quarantine, beside a note that
        says why; return whether it was there. Raise `DiskFull` or `DiskError`."""
        if not self.is_there(path):
            return False
        name, why = path.rpartition("/")[2], why.encode(errors="backslashreplace").decode()
        place = f"{QUARANTINE}/{self.ids.make()}"
        with explaining():
            self._attempt(lambda: self.disk.make_folder(place), place, urgent=True)
        # Durable first: a power cut must not keep what moves into it, and not the folder.
        self.sync_now((), (QUARANTINE,))
        # A name that can't be printed is none of ours, and has no place in `CHANGES`.
        told = path if path.isprintable() else ""
        try:
            rename = partial(self.disk.rename_new, path, f"{place}/{name}")
            self._change(ChangeKind.FILE, told, "", rename, urgent=True)
        except StoreError:
            with suppress(OSError):
                self.disk.remove_folder(place)
            raise
        self.syncer.file_moved(path, f"{place}/{name}")
        for folder in (_folder_of(path), QUARANTINE, place):
            self.syncer.folder_changed(folder)
        self.quarantined += 1
        log.error("%a is moved to %s: %s", path, place, why)
        begin = name.encode(errors="surrogateescape")[:_NOTE_NAME_BYTES].decode(errors="ignore")
        note = f"{place}/{begin}{NOTE}"
        try:
            self.disk.create(note, [f"{path!a}: {why}\n".encode()], sync=False)
        except OSError as error:
            log.warning("there is no note beside it: %s", error)
        else:
            self.syncer.lone_file_written(note)
        return True

    def _make_name(
        self,
        entry: Entry,
        name: Name,
        due: int,
        *,
        patience: int = 0,
        is_rename: bool | None = None,
    ) -> Entry:
        """Link or rename `entry` to `name`, whose version is above all. Other processes are told that
        it is due by `patience` later."""
        if is_rename is None:
            is_rename = may_rename(entry, name.members, self.synced)
        source, target = entry.name.path, name.path
        kind = ChangeKind.RENAME if is_rename else ChangeKind.LINK
        in_spares = self.index.in_spares
        if in_spares and not is_rename:
            self._name_spare(source)
        rename = self._rename_file if in_spares else self.disk.rename_new
        change = partial(rename if is_rename else self._link, source, target)
        try:
            self._change(kind, source, target, change, due=due + patience, urgent=True)
        except DiskError as error:
            cause = error.__cause__
            if isinstance(cause, FileNotFoundError):
                self.require_there(entry)
            raise
        if is_rename:
            if self.index.in_spares:
                self.leave_spare(source)
            self.syncer.file_moved(source, target)
            if len(entry.batch.entries) == 1 and name.death == entry.name.death:
                return self.index.rename(entry, name, self.commit, due=due)
        made = self.index.appear(name, self.commit, due=due)
        if is_rename:
            self.index.disappear(entry, self.commit)
        return made

    def _note_traffic(self, old: Name, new: Name, count: int) -> None:
        """Count messages that enter a queue, or change it; those that end are counted by `delete`."""
        if old.state in COUNTED:
            if new.queue != old.queue:
                self.index.queues[old.queue].left += count
                self.index.queues[new.queue].entered += count
        elif new.state in COUNTED:
            self.index.queues[new.queue].entered += count

    def is_there(self, path: str) -> bool:
        """Return whether anything is at `path`; raise `DiskError` if that can't be told."""
        return self.size_of(path) is not None

    def may_be_unlinked_by_others(self, name: Name) -> bool:
        """Return whether a name in `remove/` is gone that the reaper of another process may have
        unlinked, and archived before."""
        is_shared = self.changes is not None and self.changes.is_shared
        try:
            return name.state is State.REMOVED and is_shared and not self.is_there(name.path)
        except StoreError:
            return False

    def size_of(self, path: str) -> int | None:
        """Return the size of a file, None if it isn't there; raise `DiskError`."""
        with explaining(), suppress(FileNotFoundError):
            return self.disk.facts(path).size
        return None

    def read(self, path: str) -> bytes | None:
        """Return a file's content from the disk itself, None if it isn't there; raise `DiskError`."""
        with explaining(), suppress(FileNotFoundError):
            return self.disk.read(path, afresh=True)
        return None

    def line_of_whole(self, stem: Stem, content: bytes) -> Line | None:
        """Return what the `content` of a file says of its messages; None if that, or the file of its
        body, isn't all that was sent. Raise `DiskError`."""
        try:
            line = decode_whole(stem, content)
        except Damaged:
            return None
        # The body was durable before it got that name.
        is_whole = not stem.is_external or self.size_of(body_path(stem.id)) == stem.size
        return line if is_whole else None

    def read_record(
        self,
        path: str,
        decode: Callable[[bytes], Record],
        kind: str,
        in_place_of_damaged: Callable[[], bytes] | None = None,
    ) -> Record | None:
        """Return a sealed record, which the commit syncs; None if there is none. Raise `DiskError`.

        A torn record was never answered, and is unlinked. Any other that isn't as it was written goes
        to quarantine, and the record that is given in its place gets its name.
        """
        try:
            record = decode(self.disk.read(path, afresh=True))
        except FileNotFoundError:
            return None
        except Torn:
            log.info("%s was never written whole", path)
            self.unlink_file(path)
            return None
        except NotWhole as error:
            self.quarantine(path, f"it is no {kind}: {error}")
            if in_place_of_damaged is None:
                return None
            content = in_place_of_damaged()
            self.create_file(path, content)
            return decode(content)
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise explained(error) from error
            self.quarantine(path, "it is no file")
            return None
        # The process that wrote it may have died before its sync.
        self.syncer.lone_file_written(path)
        return record

    def scan(self, folder: str) -> list[FolderEntry]:
        """Return what is in a folder; raise `DiskError`."""
        with explaining():
            return self.disk.scan(folder)

    def require_there(self, entry: Entry) -> None:
        """Raise `NameVanished` if a name was removed by hand, and remove it from the index."""
        path = entry.name.path
        spare = self.index.in_spares.get(path)
        if self.is_there(path) or (spare is not None and self.is_there(spare.path)):
            return
        if entry in entry.batch.entries:  # Another request of this commit may have met it, too.
            self._note_vanished(ChangeKind.UNLINK, path)
            self.index.disappear(entry, self.commit)
        raise NameVanished(detail=path)

    def has_vanished(self, path: str) -> bool:
        """Return whether a file that holds no message's name was removed by hand; the other processes
        are told. Raise `DiskError`."""
        if self.is_there(path):
            return False
        self._note_vanished(ChangeKind.FILE, path)
        return True

    def _note_vanished(self, kind: ChangeKind, path: str) -> None:
        log.error("%s was moved away or removed by hand", path)
        self.refused_at = None  # It isn't tried again.
        self._intend(kind, path, "", 0)
        self.syncer.folder_changed(_folder_of(path))

    def _rename(
        self, kind: ChangeKind, source: str, target: str, *, due: int = 0, urgent: bool = False
    ) -> None:
        rename = partial(self.disk.rename_new, source, target)
        try:
            self._change(kind, source, target, rename, due=due, urgent=urgent)
        except DiskError as error:
            if isinstance(error.__cause__, FileNotFoundError) and self.has_vanished(source):
                raise FileVanished(detail=source) from error
            raise

    def _link(self, source: str, target: str) -> None:
        try:
            self.disk.link(source, target)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            self._copy(source, target)

    def _copy(self, source: str, target: str) -> None:
        """Give a file that can have no more links a copy under the new name. Raise `SyncFailed`.

        Outside `new/` no file is checked for being torn, so the content is durable first.
        """
        copy, content = _copy_path(target), self.disk.read(source)
        self.disk.create(copy, [content], sync=False)
        self.sync_now((copy,))
        self._rename_copy(self.disk.rename_new, copy, target)

    def _rename_copy(self, rename: Callable[[str, str], None], copy: str, target: str) -> None:
        try:
            rename(copy, target)
        except OSError:
            self.disk.unlink(copy)
            raise
        self.syncer.folder_changed(NEW)

    def _unlink(self, path: str) -> None:
        with suppress(FileNotFoundError):  # A person was faster, and what was wanted is so.
            self.disk.unlink(path)

    def _change(
        self,
        kind: ChangeKind,
        source: str,
        target: str,
        change: Callable[[], None],
        *,
        due: int = 0,
        urgent: bool = False,
        is_told: bool = True,
    ) -> None:
        """Make a change that other processes hear of if it `is_told`; raise `DiskFull` or `DiskError`,
        and then it was not made."""
        if is_told:
            self._intend(kind, source, target, due)
        self.request_effort.left -= 1
        watch = self.statistics.watch
        began = watch()
        try:
            self._attempt(change, target, urgent=urgent)
            self.file_seconds += (watch() - began - self.file_seconds) / SAMPLES
        except Exception as error:
            if is_told:
                self._give_up()
            if isinstance(error, OSError):
                raise explained(error) from error
            raise
        if source and kind is not ChangeKind.LINK:
            self.syncer.folder_changed(source.rpartition("/")[0])
        if target:
            self.syncer.folder_changed(target.rpartition("/")[0])

    def _attempt(self, change: Callable[[], None], target: str, *, urgent: bool = False) -> None:
        """Make a change; on a full disk with what deleted files leave, and if it is `urgent`, with the
        reserve. A folder that a person took away is made again. Raise `OSError`, or `SyncFailed`."""
        while True:
            try:
                change()
                return
            except OSError as error:
                if error.errno in NO_ROOM and (
                    self.removed_files.make_room() or (urgent and self.held_room.give())
                ):
                    continue
                if error.errno == errno.ENOENT and self._make_folder_of(target):
                    continue
                self.refused_at = self.clock.monotonic()
                if error.errno == errno.EIO:
                    self.syncer.note_io_error()
                raise

    def _make_folder_of(self, path: str) -> bool:
        """Make the folder of `path` again, if it is gone; a queue's only if there is that queue."""
        folder = _folder_of(path)
        kind, _, queue = folder.partition("/")
        is_deleted = kind == "queues" and queue and self.queues is not None and queue not in self.queues
        if not folder or is_deleted:
            return False
        try:
            self.disk.facts(folder)
            return False
        except FileNotFoundError:
            pass
        self._require_root()
        self._attempt(lambda: self.disk.make_folder(folder), folder)
        log.error("the folder %s was removed by hand, and is made again", folder)
        # Durable first: a power cut must not keep what moves into it, and not the folder.
        self.sync_now((), (_folder_of(folder) or ".",))
        return True

    def names_sent(self) -> Iterator[Name]:
        """Yield the names that any process has in `new/`. Raise `DiskError`."""
        # The owner is in each. Files that were put in by hand have none, and there may be many.
        paths = (f"{NEW}/{each.name}" for each in self.scan(NEW) if ",o" in each.name)
        return filter(None, map(name_at, paths))

    def names_sent_by_others(self) -> Iterator[Name]:
        """Yield the names that other processes have in `new/`, which the index doesn't know as long as
        those live. Raise `DiskError`."""
        if self.changes is not None and self.changes.is_shared:
            yield from (name for name in self.names_sent() if name.owner != self.owner)

    def sent_by_others(self) -> dict[str, tuple[int, int]]:
        """Return the messages and bytes that other processes have in `new/`, by queue. Raise
        `DiskError`."""
        found: dict[str, tuple[Name, int]] = {}
        for name in self.names_sent_by_others():
            _, members = found.get(name.stem.text, (name, 0))
            found[name.stem.text] = name, members | name.members
        loads: dict[str, tuple[int, int]] = {}
        for text, (name, members) in found.items():
            batch = self.index.file(text)
            for entry in batch.entries if batch is not None else ():
                if entry.name.state is not State.SENT:
                    members &= ~entry.name.members  # These were enqueued.
            messages, size = loads.get(name.queue, (0, 0))
            count = members.bit_count()
            size += name.stem.counted * count // (name.stem.count or 1)
            loads[name.queue] = messages + count, size
        return loads

    def _require_root(self) -> None:
        """Raise `SyncFailed` if the root itself is gone: a new file would be in no root."""
        try:
            self.disk.facts(FORMAT)
        except FileNotFoundError as error:
            raise SyncFailed(f"the root is lost: {error}") from error

    def _intend(self, kind: ChangeKind, source: str, target: str, due: int) -> None:
        if self.changes is not None and self.changes.is_shared:
            self.changes.intend(Change(kind, source, target, due))

    def _give_up(self) -> None:
        if self.changes is not None:
            self.changes.give_up()


def _pieces(name: Name) -> Iterable[int]:
    """Divide the list of a name that may be too long."""
    members = name.members
    if members & (members + (members & -members)) == 0:
        return (members,)  # One run.
    version = name.version + MOST
    longest = replace(name, version=version, members=name.stem.full, first=Millis(10**12))
    return pieces(members, members_room(longest))


def received(entry: Entry) -> int:
    """Return how often the messages of an entry are received with one more lease."""
    return min(entry.name.receives + 1, MAX_RECEIVES)


def begin_lease(
    moves: Moves,
    entry: Entry,
    members: int,
    until: tuple[Millis, int],
    token: str,
    *,
    is_prefetch: bool = False,
) -> list[Entry]:
    """Lease messages, which counts as a receive; those in `new/` are leased there."""
    old = entry.name
    return moves.move(
        entry,
        members,
        Move.ASSIGN if old.state is State.SENT else Move.LEASE,
        receives=received(entry),
        first=moves.clock.wall() if old.first is None else old.first,
        until=until,
        token=token,
        is_prefetch=is_prefetch,
    )


def enqueue(moves: Moves, entry: Entry) -> None:
    """Move a sent file from `new/` to its queue, or to `delay/` if it has a delay or a lease."""
    name = entry.name
    if name.due is None:
        moves.move(entry, entry.members, Move.ENQUEUE)
    elif not name.token:
        moves.move(entry, entry.members, Move.HIDE)
    else:
        # A lease that began in another process is due by the wall clock.
        due = entry.due or moves.clock.monotonic() + max(0, name.due - moves.clock.wall())
        moves.move(entry, entry.members, Move.DELIVER, until=(name.due, max(0, due)))


def _copy_path(target: str) -> str:
    """Return the path of a file that is to get the name `target` once it is durable."""
    return f"{NEW}/{target.replace('/', '-')[-200:]}{COPY}"


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]
