"""The disk floor: the dozen things that the store asks of a file system.

Only this module, with `calls`, asks the operating system for files. Paths are relative to the root and
resolved from it at every call, never through an open folder inside it: such a folder may by then have
been renamed into somebody else's lease. Symbolic links are never followed.

`Disk` is a protocol, so that the whole store can run on a disk that crashes, fills up and lies.
Everything raises `OSError` as the system does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from io import FileIO
from typing import BinaryIO, Final, Protocol, cast

from .calls import calls_for, find_syncfs
from .mounts import is_written_by_other_hosts
from .space import Space as Space

FOLDER_MODE: Final = 0o700
OUT_OF_HANDLES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What opening a file is refused with when the system, and not the disk, has no more to give."""
FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM})
"""What opening a file is refused with when its permissions are not what we gave it."""
_BLOCK: Final = 512
"""Bytes in what stat(2) counts as a block, whatever the file system does."""
GROUP_FOLDER_MODE: Final = 0o2770
_FILE_MODE: Final = 0o600
_GROUP_FILE_MODE: Final = 0o660
_DEFAULT_ACL: Final = struct.pack(
    "<I" + "HHI" * 3, 2, *(0x01, 7, 0xFFFF_FFFF), *(0x04, 7, 0xFFFF_FFFF), *(0x20, 0, 0xFFFF_FFFF)
)
"""Version 2: the user and the group may do all, others nothing."""


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A symbolic link, a socket, a device: never ours."""


@dataclass(frozen=True, slots=True)
class Found:
    """One name in a folder."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    kind: Kind
    size: int
    links: int
    changed_ns: int
    """Unix time in nanoseconds at which content or name last changed, as the file system says."""


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

    def append(self, path: str, content: bytes, *, sync: bool) -> None:
        """Write at the end of a file that exists; with `sync` all of it is on stable media at return.

        On an error a part may be there, which nobody takes away.
        """

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        """A regular file's content, or its first `limit` bytes; EINVAL for anything else.

        `afresh` from the disk itself, but for what still waits to be written: after a sync that failed
        the system may show from memory what the disk never got.
        """

    def open(self, path: str) -> BinaryIO:
        """A regular file, to be read in pieces; EINVAL for anything else. The caller closes it.

        It stays readable when its name is moved or removed.
        """

    def scan(self, path: str) -> list[Found]:
        """All names in a folder, in no order."""

    def facts(self, path: str) -> Facts:
        """About the name itself: a link is not followed."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder. Replaces a file, or an empty folder, that stands at `target`."""

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
        """An exclusive lock on an existing file or folder, or None if another process holds it.

        A locked folder is still at `path`. EISDIR or EBADF where folders can't be locked.
        """


def is_for_group(mode: int) -> bool:
    """Whether a folder of this mode says that its group may use all that is in it.

    The set-group-ID bit is part of that, because a careless umask never sets it.
    """
    return mode & GROUP_FOLDER_MODE == GROUP_FOLDER_MODE


def ignore_umask_in(folder: str) -> None:
    """Let all that is made in `folder` be its group's from birth, where the system can (acl(5)).

    A mode that is given afterwards comes too late for who looks in between, or if we die in between.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # There is no such thing, or it is not our folder.
            os.setxattr(folder, "system.posix_acl_default", _DEFAULT_ACL)


class LocalDisk:
    """The file system under a folder of this machine.

    What it makes is its user's alone, unless the mode of the root's own folder says that the group may
    use it: there every process learns it, whoever started first.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """`root` must exist. It may be renamed while we work, and removed only to our harm."""
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Not when a store closes: somebody may still be reading.
        self._close = weakref.finalize(self, os.close, self._root)
        # Nor at the interpreter's end, before whoever has us open has ended: the system does it then.
        self._close.atexit = False
        self._for_group = is_for_group(os.fstat(self._root).st_mode)
        self._calls = calls_for(is_local=not is_written_by_other_hosts(root))
        self._syncfs = find_syncfs()
        self.can_sync_all = self._syncfs is not None

    def close(self) -> None:
        """Use it no more. Happens by itself when nobody refers to it."""
        self._close()

    def make_folder(self, path: str) -> None:
        mode = 0o770 if self._for_group else FOLDER_MODE
        self._calls.make_folder(self._root, path, mode)
        if self._for_group:
            # The umask may have taken from the mode, and it is the whole process's.
            os.chmod(path, GROUP_FOLDER_MODE, dir_fd=self._root)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        mode = _GROUP_FILE_MODE if self._for_group else _FILE_MODE
        file = self._calls.open(self._root, path, _CREATE_FLAGS, mode)
        try:
            try:
                if self._for_group:
                    os.fchmod(file, mode)
                for part in parts:
                    self._calls.write_all(file, part)
                if sync:
                    _sync_new(file, path)
            finally:
                self._calls.close(file)
        except BaseException:
            os.unlink(path, dir_fd=self._root)
            raise

    def append(self, path: str, content: bytes, *, sync: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(path, flags, dir_fd=self._root)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            if sync:
                _sync_new(file, path)
        finally:
            os.close(file)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        file, size = self._open_file(path)
        try:
            if afresh:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            wanted = size if limit is None else min(limit, size)
            content = self._calls.read(file, wanted)
            while len(content) < wanted:
                more = self._calls.read(file, wanted - len(content))
                if not more:
                    break
                content += more
            return content
        finally:
            self._calls.close(file)

    def open(self, path: str) -> BinaryIO:
        # Unbuffered: whoever hands the file to the kernel moves its offset behind our back.
        return cast(BinaryIO, FileIO(self._open_file(path)[0]))

    def _open_file(self, path: str) -> tuple[int, int]:
        """A regular file's descriptor and size."""
        # A pipe that somebody put here must not hold us up: hence O_NONBLOCK.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = self._calls.open(self._root, path, flags)
        try:
            mode, size = self._calls.mode_and_size(file)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
        except BaseException:
            os.close(file)
            raise
        return file, size

    def scan(self, path: str) -> list[Found]:
        folder = os.open(path, _FOLDER_FLAGS, dir_fd=self._root)
        try:
            with os.scandir(folder) as entries:
                return [Found(entry.name, _kind_of(entry)) for entry in entries]
        finally:
            os.close(folder)

    def facts(self, path: str) -> Facts:
        found = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            kind = Kind.FILE
        elif stat.S_ISDIR(found.st_mode):
            kind = Kind.FOLDER
        else:
            kind = Kind.OTHER
        return Facts(kind=kind, size=found.st_size, links=found.st_nlink, changed_ns=found.st_ctime_ns)

    def rename(self, source: str, target: str) -> None:
        self._calls.rename(self._root, source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path, dir_fd=self._root)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path, dir_fd=self._root)

    def sync_file(self, path: str) -> None:
        self._sync(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def sync_folder(self, path: str) -> None:
        self._sync(path, _FOLDER_FLAGS)

    def _sync(self, path: str, flags: int) -> None:
        opened = os.open(path, flags, dir_fd=self._root)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def sync_all(self) -> None:
        if self._syncfs is None:
            raise OSError(errno.ENOSYS, "this system's syncfs doesn't report errors")
        # The root's own descriptor: if the root was removed, a new one couldn't be opened, and what
        # lies under it is no longer anybody's queue.
        self.facts("FORMAT")
        if self._syncfs(self._root) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "syncfs")

    def space(self) -> Space:
        found = os.fstatvfs(self._root)
        return Space(
            bytes=found.f_bavail * found.f_frsize,
            files=found.f_favail,
            unlimited=found.f_files == 0,
            all_bytes=found.f_blocks * found.f_frsize,
            all_files=found.f_files,
        )

    def set_aside(self, path: str, size: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(
            path, flags, _GROUP_FILE_MODE if self._for_group else _FILE_MODE, dir_fd=self._root
        )
        try:
            facts = os.fstat(file)
            if size < facts.st_size:
                os.ftruncate(file, size)
            elif facts.st_blocks * _BLOCK < size:
                # Also where the size is right: a copy of the root may have holes.
                os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)

    def lock(self, path: str) -> Lock | None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = self._calls.open(self._root, path, flags)
            is_folder = False
        except IsADirectoryError:
            file = self._calls.open(self._root, path, _FOLDER_FLAGS)
            is_folder = True
        try:
            if not self._calls.lock(file):
                self._calls.close(file)
                return None
            if is_folder and not _is_at(os.fstat(file), os.stat(path, dir_fd=self._root)):
                raise FileNotFoundError(errno.ENOENT, "moved before it was locked", path)
        except BaseException:
            os.close(file)
            raise
        return _FileLock(file)


_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _FileLock:
    def __init__(self, file: int) -> None:
        self._file: int | None = file
        _held.add(self)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


_held: Final[weakref.WeakSet[_FileLock]] = weakref.WeakSet()


def _leave_locks_to_parent() -> None:
    """A lock says that its process lives. A child that is forked off shares it, and would hold it on
    after the parent's death; to close the child's side takes nothing from the parent."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_locks_to_parent)


def _is_at(opened: os.stat_result, found: os.stat_result) -> bool:
    return (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino)


def _sync_new(file: int, path: str) -> None:
    try:
        os.fsync(file)
    except OSError as error:
        raise NotSynced(error.errno, error.strerror, path) from error


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.OTHER
