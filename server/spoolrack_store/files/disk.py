"""The file system as the store uses it: `local_disk` has the system's, tests have one in memory.

Paths are relative to the root and
resolved from it at every call, never through an open folder inside it: such a folder may by then have
been renamed into another lease. Symbolic links are never followed.

`Disk` is a protocol, so that the whole store can run on a disk that crashes, fills up and lies.
Everything raises `OSError` as the system does.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, Final, Protocol

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


@dataclass(frozen=True, slots=True)
class Found:
    """One name in a folder."""

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


class NotSynced(OSError):
    """The sync of a new file failed. The file is gone, but the disk has failed to keep what it took."""


class Lock(Protocol):
    def release(self) -> None:
        """Give the lock back. The system does so when the process dies, however it dies."""


class Disk(Protocol):
    can_sync_all: bool
    """Whether `sync_all` makes all data durable and reports the errors that it met."""

    def make_folder(self, path: str) -> None:
        """Make a folder that doesn't exist yet."""

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        """Make a file that doesn't exist yet, with `parts` as its content.

        With `sync` the content is on stable media at return; its name only after `sync_folder`.
        On an error no file is left behind, unless removing it failed too. Raises `NotSynced` if it is
        the sync that failed.
        """

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write into a file that is there, from `offset` on. An error may leave a part written."""

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        """Return a regular file's content, or its first `limit` bytes; EINVAL for anything else.

        `afresh` from the disk itself, but for what still waits to be written: after a sync that failed
        the system may show from memory what the disk never got.
        """

    def open(self, path: str) -> BinaryIO:
        """Open a regular file, to be read in pieces; EINVAL for anything else. The caller closes it.

        It stays readable when its name is moved or removed.
        """

    def scan(self, path: str) -> list[Found]:
        """Return all names in a folder, in no order."""

    def facts(self, path: str) -> Facts:
        """About the name itself: a link is not followed."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder. Replaces a file, or an empty folder, that stands at `target`."""

    def link(self, source: str, target: str) -> None:
        """Give the file at `source` another name; `FileExistsError` if `target` is there."""

    def touch(self, path: str) -> None:
        """Wake the process that watches the file, if there is one; never fails."""

    def rename_new(self, source: str, target: str) -> None:
        """Move a file to a name that isn't there yet; `FileExistsError` if it is.

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

    def space(self) -> Space: ...

    def set_aside(self, path: str, size: int) -> None:
        """Let the file at `path`, made if it isn't there, take up `size` bytes of room, and no more."""

    def lock(self, path: str) -> Lock | None:
        """Lock an existing file or folder exclusively; return None if another process holds the lock.

        A locked folder is still at `path`. EISDIR or EBADF where folders can't be locked.
        """
