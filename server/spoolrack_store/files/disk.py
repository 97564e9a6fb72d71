"""The file system as the store uses it: `local_disk` has the system's, tests have one in memory.

Paths are relative to the root, and resolved from it at every call. Symbolic links are never followed.

`Disk` is a protocol, so that the whole store can run on a disk that crashes, fills up and lies.
Everything raises `OSError` as the system does.

`Syncer` records which folders have changed since they were last made durable, and makes them so. A
rename is on stable media only when both its folders are, and a new file only when its content and its
folder are. A commit therefore syncs every folder that was dirtied since the last one, of any process.
One commit serves all operations that wait for it.

The syncs of a commit run one after the other, or at once. On a local disk the first one writes the
journal, and the further ones find nothing to do, unless something else was written meanwhile. At once,
a new file costs a second journal: its folder's sync doesn't wait for its blocks. Where each sync costs
the way to another host, an answer waits for one of them if they run at once. The syncer measures which
it is.

After a sync has failed, no process can tell any more what is durable: the kernel marks the pages clean,
and a repetition that succeeds proves nothing. So a failure is final until a restart.

`ReservedRoom` is held back, so that messages can move on a disk that is full to its last byte. A rename
may need a block more for the folder that it leads into. On a full file system it would be refused, and
with it every receive and every delete, which make room. So a file without content takes up some room
from the start. It shrinks as moves need room, and grows again when there is some. Its loss is no harm,
and only its size counts.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import repeat
from math import inf
from typing import BinaryIO, Final, NamedTuple, Protocol

from ..model.disk_watermark import KEPT_BYTES, KEPT_FILES, DiskWatermark
from ..model.errors import DiskError, DiskFull, StoreError
from ..model.statistics import Statistics
from . import layout

OUT_OF_HANDLES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of an open when the system, and not the disk, has no more to give."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NOT_A_FILE: Final = frozenset({errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO})
"""Errors of reading anything but a regular file."""
FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM})
"""Errors of an open when a file's permissions are not what we gave it."""


class FileKind(Enum):
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A symbolic link, a socket, a device: never ours."""


class FolderEntry(NamedTuple):
    """A name in a folder, as a listing shows it."""

    name: str
    kind: FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    kind: FileKind
    size: int
    links: int
    changed_ns: int
    """Unix time in nanoseconds at which content or name last changed, as the file system says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    bytes: int
    files: int | None
    """How many files more can be made; None: there is no limit."""
    all_bytes: int = 0
    """How large it is; 0 where the system doesn't report it."""
    all_files: int = 0

    def is_below(self, watermark: DiskWatermark, size: int = 0) -> bool:
        """Return whether a file of `size` bytes would leave less free space than the watermark."""
        few_files = self.files is not None and self.files < max(watermark.files, KEPT_FILES)
        return few_files or self.bytes < size + max(watermark.bytes, KEPT_BYTES)


def read_one_by_one(disk: Disk, paths: Sequence[str]) -> Iterator[bytes | OSError]:
    """Do what `Disk.read_all` does, without reading ahead."""
    for path in paths:
        try:
            yield disk.read(path, afresh=True)
        except OSError as error:
            yield error


def unlink_or_leave(disk: Disk, path: str) -> bool:
    """Unlink a file that the next start unlinks, too; return False if it isn't there, or has to stay,
    which is logged."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("%s stays until the next start: %s", path, error)
        return False
    return True


def free_unlinked(disk: Disk) -> None:
    """Let what was unlinked make room on a full disk.

    XFS frees an unlinked file's inode in the background, some milliseconds later, and at once where it
    is asked for its space.
    """
    with suppress(OSError):  # A hint: the caller's next attempt says what the disk lacks.
        disk.space()


class NotSynced(OSError):
    """The sync of a new file failed. The file is gone, but the disk has lost data."""


class Lock(Protocol):
    def is_held(self) -> bool:
        """Ask the system whether this process still has the lock: the host may have been evicted from
        the file system, whose syncs then succeed and do nothing. Raise `OSError`."""

    def release(self) -> None:
        """Release the lock. The system does so when the process dies."""


class OpenFile(Protocol):
    """A file that stays open to be written, whatever becomes of its name."""

    def is_there(self) -> bool:
        """Return whether the file has a name still."""

    def write_at(self, offset: int, content: bytes) -> None:
        """Overwrite bytes. An error may leave a part written."""

    def sync_data(self) -> None:
        """Return once the file's bytes are on stable media; its length and name may not be."""

    def sync_all(self) -> None:
        """Return once everything in the file system is on stable media. An error that this call meets
        is met by `Disk.sync_all` of another thread, too."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    can_sync_all: bool
    """Whether `sync_all` makes all data durable and reports the errors that it met."""
    several_hosts: bool
    """Whether processes of other hosts may have the root open, too. A commit is synced under `LOCK`
    then: no process can sync what another host wrote."""

    @property
    def overwrites(self) -> bool:
        """Whether a file's bytes are overwritten in place, and durable without the journal, so that a
        spare file costs a send less than a new one."""

    def make_folder(self, path: str) -> None:
        """Make a folder that doesn't exist yet."""

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        """Make a file that doesn't exist yet, with `parts` as its content.

        With `sync` the content is on stable media at return; its name only after `sync_folder`.
        On an error no file is left behind, unless removing it failed too. Raises `NotSynced` if it is
        the sync that failed.
        """

    def make_open(self, path: str, size: int) -> OpenFile:
        """Make a file that doesn't exist yet, of `size` zeros that take up their blocks, and leave it
        open. On an error no file is left behind, unless removing it failed too."""

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write into an existing file, from `offset` on. An error may leave a part written."""

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        """Return a regular file's content, or its first `limit` bytes; EINVAL for anything else.

        `afresh` from the disk itself, but for what still waits to be written: after a sync that failed
        the system may show from memory what the disk never got.
        """

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        """Yield the content of each of these files, read `afresh`, or the error of that; the disk reads
        the next ones meanwhile."""

    def open(self, path: str) -> BinaryIO:
        """Open a regular file, to be read in pieces; EINVAL for anything else. The caller closes it.

        It stays readable when its name is moved or removed.
        """

    def scan(self, path: str) -> list[FolderEntry]:
        """Return all names in a folder, in no order."""

    def listing(self, path: str) -> Iterator[FolderEntry]:
        """Yield the names in a folder, in no order, as they are asked for. What is made or unlinked
        meanwhile may be missing."""

    def facts(self, path: str) -> Facts:
        """Return the facts about a name itself: a link is not followed."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder. Replaces a file, or an empty folder, at `target`."""

    def link(self, source: str, target: str) -> None:
        """Give the file at `source` another name; `FileExistsError` if `target` exists."""

    def touch(self, path: str) -> None:
        """Set a file's or folder's time of change to now, and wake the process that watches it, if
        there is one; never fails."""

    def rename_new(self, source: str, target: str) -> None:
        """Move a file to a name that doesn't exist yet; `FileExistsError` if it does.

        renameat2(2) with RENAME_NOREPLACE: rename(2) does nothing, and succeeds, if both names are
        links of one file.
        """

    def unlink(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""

    def sync_file(self, path: str) -> None:
        """Return once the file's content is on stable media."""

    def sync_folder(self, path: str) -> None:
        """Return once the folder's names are on stable media."""

    def sync_all(self) -> None:
        """Return once everything in the root's file system is on stable media. Needs no handle."""

    def run_at_once(self, syncs: Sequence[Callable[[], None]]) -> None:
        """Run syncs at the same time, as far as the disk can; return when all have ended. Raise the
        error of one of them."""

    def space(self) -> Space: ...

    def set_aside(self, path: str, size: int) -> None:
        """Allocate exactly `size` bytes for the file at `path`, which is created if it is missing."""

    def lock(self, path: str) -> Lock | None:
        """Lock an existing file or folder exclusively; return None if another process holds the lock.

        A locked folder is still at `path`. EISDIR or EBADF where folders can't be locked.
        """


FEW_FOLDERS: Final = 8
"""Up to so many folders are synced one by one; above, one sync of the file system is cheaper."""
FEW_FILES: Final = 64
"""The same of files: a start, and a process that takes over from a dead one, may find thousands."""

DEAR: Final = 0.001
"""Seconds. Syncs run at once where that saves as much: a thread costs a tenth."""
OFTEN: Final = 3
"""By so much, commits that were dear must outnumber the others: a busy machine delays some."""
AT_ONCE: Final = 100
"""Then so many commits sync at once before one measures again."""

LONE_SECONDS: Final = 0.005
"""Of the syncs of a lone message, before any is measured."""
SYNC_SAMPLES: Final = 8
"""Over about so many commits their mean moves."""

_ROOT: Final = "."


class OverwrittenFile(Protocol):
    """An open file, durable with its name, whose data were overwritten."""

    path: str
    is_synced: bool
    """Whether the data are durable: set by the sync that covers them."""

    def sync(self, path: str) -> None:
        """Make the data durable. `FileNotFoundError` if the file has no name any more."""


class SyncFailed(Exception):
    """The disk could not make data durable."""


_SHUT_OUT: Final = frozenset({errno.EROFS, errno.ESHUTDOWN, errno.ENOTCONN})
"""Errors of a file system that takes no more changes of this host: it is read-only, the host was
evicted, the program that serves it is gone."""


def explained(error: OSError) -> StoreError:
    """Translate an error of the system into the store's; raise `SyncFailed` for one that is final."""
    if error.errno in _SHUT_OUT:
        raise SyncFailed(str(error)) from error
    detail = str(error)
    return DiskFull(detail=detail) if error.errno in NO_ROOM else DiskError(detail=detail)


@contextmanager
def explaining() -> Iterator[None]:
    """Raise the store's error in place of one of the system: see `explained`."""
    try:
        yield
    except OSError as error:
        raise explained(error) from error


@dataclass(slots=True)
class _SyncOrder:
    """Whether the syncs of a kind of commit run at once."""

    dear: int = 0
    """By so much, commits whose further syncs were dear outnumber the others."""
    at_once: int = 0
    """Commits left that sync at once."""


class Syncer:
    """The files and folders that are not synced yet. Not thread-safe, but for `Commit.sync`, which may
    run beside other calls."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.statistics = Statistics()
        """The counts of all parts that have the root open in this process: they find them here."""
        self._dirty: dict[str, None] = {}
        self._files_unsynced = False
        self._files: dict[str, None] = {}
        self._overwritten: list[OverwrittenFile] = []
        self.lone_seconds = LONE_SECONDS
        """Seconds that the syncs of a commit of few files took of late: a moving mean."""
        self.is_in_doubt = False
        """Let the next commit sync, whether or not an answer waits for it."""
        self._orders = _SyncOrder(), _SyncOrder()
        """Of commits of folders alone, and of those with a new file."""
        self._is_early = disk.several_hosts
        """Whether a commit is synced as it begins, under `LOCK`."""
        self._failure: SyncFailed | None = None
        """Why such a sync has failed, or that it was interrupted."""
        self.is_unconfirmed = False
        """Whether there was one since this was last set to False."""

    def folder_changed(self, folder: str) -> None:
        self._dirty[folder] = None

    def file_written(self) -> None:
        """Note that a file was written and not synced: only a sync of the whole file system will do."""
        self._files_unsynced = True

    def lone_file_written(self, path: str) -> None:
        """Note that one file was written and not synced: the next commit syncs it alone."""
        self._files[path] = None

    def file_overwritten(self, file: OverwrittenFile) -> None:
        """Note a file, durable with its name, whose data were overwritten: the next commit syncs
        them."""
        self._overwritten.append(file)

    def file_moved(self, source: str, target: str) -> None:
        """Note the new path of a file that has to be synced."""
        if source in self._files:
            del self._files[source]
            self._files[target] = None

    def note_io_error(self) -> None:
        """Note a change that was refused with an I/O error: one place may be damaged, or the disk
        dead."""
        self._dirty[_ROOT] = None
        self.is_in_doubt = True

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty or self._files or self._overwritten) or self._files_unsynced

    def begin(self) -> Commit:
        """Take over all unsynced files and folders, to be synced once by the commit; raise
        `SyncFailed`."""
        commit = Commit(
            self, list(self._files), list(self._dirty), self._files_unsynced, self._overwritten
        )
        self._overwritten = []
        self._files.clear()
        self._dirty.clear()
        self._files_unsynced = False
        self.is_in_doubt = False
        if self._is_early:
            self._failure, self.is_unconfirmed = SyncFailed("a sync was interrupted"), True
            try:
                commit.sync()
            except SyncFailed as error:
                self._failure = error
                raise
            self._failure = None
            return Commit(self, [], [], False, [])
        return commit

    def begin_data(self) -> Commit:
        """Take over the overwritten files alone."""
        overwritten, self._overwritten = self._overwritten, []
        return Commit(self, [], [], False, overwritten)

    def require_synced(self) -> None:
        """Raise `SyncFailed` if a sync under `LOCK` has failed or was interrupted."""
        if self._failure is not None:
            raise self._failure

    def others_changed(self) -> None:
        """Let the next commit sync what other processes have changed."""
        if not self._is_early:  # Otherwise they have done so.
            self.file_written()

    def _sync(
        self, files: list[str], folders: list[str], whole: bool, overwritten: list[OverwrittenFile]
    ) -> None:
        statistics = self.statistics
        began = statistics.watch()
        try:
            self._sync_now(files, folders, whole, overwritten)
        except SyncFailed:
            statistics.failed_syncs += 1
            raise
        for file in overwritten:
            file.is_synced = True
        if whole or files or folders or overwritten:
            took = statistics.watch() - began
            statistics.syncs.observe(took)
            if not whole and len(files) <= 1:
                self.lone_seconds += (took - self.lone_seconds) / SYNC_SAMPLES

    def _sync_now(
        self, files: list[str], folders: list[str], whole: bool, overwritten: list[OverwrittenFile]
    ) -> None:
        try:
            are_many = len(folders) > FEW_FOLDERS or len(files) + len(overwritten) > FEW_FILES
            if whole or (are_many and self._disk.can_sync_all):
                self._disk.sync_all()
                return
            for file in overwritten:
                self.sync_path(file.path, file.sync)
            # First the files: on most file systems that makes their names durable, too, and the folders
            # are quick.
            disk, watch = self._disk, self.statistics.watch
            order = self._orders[bool(files)]
            objects = [*zip(files, repeat(disk.sync_file)), *zip(folders, repeat(disk.sync_folder))]
            if order.at_once and len(objects) > 1:
                order.at_once -= 1
                disk.run_at_once([partial(self.sync_path, *each) for each in objects])
                return
            ends = [watch()]
            for path, sync in objects:
                self.sync_path(path, sync)
                ends.append(watch())
        except OSError as error:
            raise SyncFailed(str(error)) from error
        if len(objects) > 1:
            began, first, *_, last = ends
            saved = last - first - ((first - began) / 2 if files else 0)
            order.dear = max(0, order.dear + (1 if saved > DEAR else -1))
            if order.dear >= OFTEN:
                order.dear, order.at_once = OFTEN, AT_ONCE

    def sync_path(self, path: str, sync: Callable[[str], None]) -> None:
        """Sync one path, whatever has become of it; raise `OSError` if that has failed."""
        try:
            sync(path)
        except FileNotFoundError:
            # It was taken away, with what lay in it. Make that durable, so that it can't come back
            # with what had left it before.
            if self._disk.can_sync_all:
                self._disk.sync_all()
            else:
                self._sync_all_below(_ROOT)
        except OSError as error:
            # It couldn't be opened, so no sync has failed; and `sync_all` opens nothing.
            if error.errno not in OUT_OF_HANDLES | FORBIDDEN or not self._disk.can_sync_all:
                raise
            self._disk.sync_all()

    def _sync_all_below(self, folder: str) -> None:
        """Wherever it has gone, it is synced, and what it has left, too."""
        try:
            self._disk.sync_folder(folder)
            found = self._disk.scan(folder)
        except FileNotFoundError:
            return  # It goes on moving: its next move syncs it.
        for each in found:
            if each.kind is FileKind.FOLDER:
                self._sync_all_below(each.name if folder == _ROOT else f"{folder}/{each.name}")


class Commit:
    """The unsynced files and folders of one commit."""

    def __init__(
        self,
        syncer: Syncer,
        files: list[str],
        folders: list[str],
        whole: bool,
        overwritten: list[OverwrittenFile],
    ) -> None:
        self._syncer = syncer
        self._files = files
        self._folders = folders
        self._whole = whole
        self._overwritten = overwritten

    @property
    def seconds(self) -> float:
        """How long its sync will take, by what those of few files took of late; infinity for more."""
        is_small = not self._whole and len(self._files) <= 1
        return self._syncer.lone_seconds if is_small else inf

    def sync(self) -> None:
        """Return once all of them are on stable media; raises `SyncFailed`."""
        self._syncer._sync(self._files, self._folders, self._whole, self._overwritten)


log = logging.getLogger(__name__)

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""Room for the names of more than 10,000 messages. Each delete makes more."""
STEP_BYTES: Final = 256 * 1024
"""Released at a time: the program that fills the disk goes on doing so, and must not get all of it."""
_LEFT_FREE: Final = 1024 * 1024
"""Not taken for the reserve, so that it isn't filled up just to be given up again."""


class ReservedRoom:
    """The reserve of one root. Its size is read from the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_whole = False
        self._complaint = ""
        """The last warning, so that it isn't repeated with every look."""

    def fill(self) -> None:
        """Allocate the missing part of the reserve, if there is space. Without it everything works, but
        not on a full disk."""
        if self._is_whole:
            return
        missing = RESERVE_BYTES - self._size()
        try:
            if missing <= 0 or self._disk.space().bytes - missing >= _LEFT_FREE:
                self._disk.set_aside(layout.RESERVE, RESERVE_BYTES)
                self._is_whole = True
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("no room can be kept back for a full disk: %s", error)

    def give(self) -> bool:
        """Release a part of the reserve, and at last the file itself, which is an inode; False if
        nothing is left.

        Raises `SyncFailed`: until a sync, the disk may keep what was given up to itself.
        """
        self._is_whole = False
        size = self._size()
        try:
            if size > 0:
                self._disk.set_aside(layout.RESERVE, max(0, size - STEP_BYTES))
            else:
                self._disk.unlink(layout.RESERVE)
        except OSError as error:
            if error.errno != errno.ENOENT:
                log.warning("the reserve for a full disk can't be released: %s", error)
            return False
        log.warning(
            "the disk is full: %d bytes of %s are given up", min(size, STEP_BYTES), layout.RESERVE
        )
        try:
            if size > 0:
                self._disk.sync_file(layout.RESERVE)
            else:
                self._disk.sync_folder(".")
                free_unlinked(self._disk)
        except OSError as error:
            raise SyncFailed(str(error)) from error
        return True

    def _size(self) -> int:
        try:
            return self._disk.facts(layout.RESERVE).size
        except OSError:
            return 0  # Not there, or nothing that can be given.


class DiskRoom:
    """The disk's free space for new files, as one commit knows it."""

    def __init__(self, disk: Disk, watermark: DiskWatermark) -> None:
        self._disk = disk
        self._watermark = watermark
        self._space: Space | None = None

    def reserve(self, size: int) -> None:
        """Reserve the space for a file, and leave some for deletes. Raise `DiskFull`, or
        `DiskError`."""
        if self._space is None:
            try:
                self._space = self._disk.space()
            except OSError as error:
                raise explained(error) from error
        free, watermark = self._space, self._watermark
        if free.is_below(watermark, size):
            raise DiskFull(
                detail=f"{free.bytes} bytes and {free.files} files are left, and sends need "
                f"{watermark.bytes} and {watermark.files}"
            )
        files = None if free.files is None else free.files - 1
        self._space = Space(bytes=free.bytes - size, files=files)

    def refresh(self) -> None:
        """Query the disk again with the next file."""
        self._space = None
