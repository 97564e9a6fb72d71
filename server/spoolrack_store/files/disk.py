"""The file system as the store uses it: `local_disk` has the system's, tests have one in memory.

Paths are relative to the root, and resolved from it at every call. Symbolic links are never followed.

`Disk` is a protocol, so that the whole store can run on a disk that crashes, fills up and lies.
Everything raises `OSError` as the system does, and `explained` makes the store's error of it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, Final, NamedTuple, Protocol

from ..model.disk_watermark import KEPT_BYTES, KEPT_FILES, DiskWatermark
from ..model.errors import DiskError, DiskFull, StoreError

log = logging.getLogger(__name__)

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
