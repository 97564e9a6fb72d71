"""The file system under a folder of this machine.

Python lets other threads run during every call into the kernel. Where a call takes microseconds, and
another thread is busy, it takes ten times as long to get the lock back: the committer waited for that
most of the time. So on a local file system the lock is kept during calls that are answered from memory.
A call that waits for a disk releases it, and where every call may wait for another host, all of them
do. Every call raises `OSError` as the system does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import platform
import re
import select
import socket
import stat
import struct
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, cast

from ..model.clock import Millis
from .changes import LOCK, Memory
from .disk import Facts, FileKind, FolderEntry, Lock, NotSynced, OpenFile, Space
from .mounts import doubt_about, is_written_by_other_hosts, kind_of, passes_on_syncfs

_AT_ONCE: Final = 16
"""Syncs that wait for the disk at the same time, each in a thread."""
_SHORT: Final = 64 * 1024
"""Bytes that are copied in no time."""


# statx(2), which looks the same on all machines.
_AT_EMPTY_PATH: Final = 0x1000
_STATX_TYPE: Final = 0x1
_STATX_SIZE: Final = 0x200
_STATX_BYTES: Final = 256
_STATX_MODE: Final = struct.Struct("=H")
_STATX_MODE_AT: Final = 28
_STATX_LENGTH: Final = struct.Struct("=Q")
_STATX_LENGTH_AT: Final = 40


def closer(owner: object, *files: int) -> Callable[[], object]:
    """Return what closes these descriptors, once; it happens by itself with the owner's last reference.

    Not at the interpreter's end, where a thread may still use them: the system does it then.
    """
    close = weakref.finalize(owner, _close, *files)
    close.atexit = False
    return close


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


class SystemCalls:
    """The C library's system calls in one open folder, from which paths are resolved.

    What a message's every move calls is the library's own function, which returns -1 at an error.
    """

    def __init__(self, folder: int, *, keeps_lock: bool) -> None:
        """`keeps_lock`: short calls keep the interpreter's lock."""
        self._folder = folder
        library = (ctypes.PyDLL if keeps_lock else ctypes.CDLL)(None, use_errno=True)
        number, bits, size, count = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_ssize_t
        text, buffer, offset = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_longlong

        def call(name: str, *types: type, result: type = number) -> ctypes._NamedFuncPointer:
            function: ctypes._NamedFuncPointer = getattr(library, name)
            function.argtypes, function.restype = types, result
            return function

        self._openat = call("openat", number, text, number, bits)
        self._mkdirat = call("mkdirat", number, text, bits)
        self.renameat2 = call("renameat2", number, text, number, text, bits)
        self.linkat = call("linkat", number, text, number, text, number)
        self._write = call("write", number, text, size, result=count)
        self.pwrite = call("pwrite", number, text, size, offset, result=count)
        self._read = call("read", number, buffer, size, result=count)
        self._statx = call("statx", number, text, number, bits, buffer)
        self.flock = call("flock", number, number)
        self._close = call("close", number)

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        name = _encoded(path)
        while (file := self._openat(self._folder, name, flags, mode)) < 0:
            _complain(path)
        return int(file)

    def make_folder(self, path: str, mode: int) -> None:
        name = _encoded(path)
        while self._mkdirat(self._folder, name, mode) < 0:
            _complain(path)

    def write_all(self, file: int, content: bytes) -> None:
        while content:
            if len(content) > _SHORT:
                written = os.write(file, content)
            else:
                while (written := self._write(file, content, len(content))) < 0:
                    _complain(None)
            content = content[written:]

    def write_all_at(self, file: int, offset: int, content: bytes) -> None:
        while content:
            if len(content) > _SHORT:
                written = os.pwrite(file, content, offset)
            else:
                while (written := self.pwrite(file, content, len(content), offset)) < 0:
                    _complain(None)
            content, offset = content[written:], offset + written

    def read(self, file: int, size: int) -> bytes:
        """Return up to so many bytes, perhaps fewer; none at the end of the file."""
        if size > _SHORT:
            return os.read(file, size)
        buffer = ctypes.create_string_buffer(size)
        while (count := self._read(file, buffer, size)) < 0:
            _complain(None)
        return buffer.raw[:count]

    def mode_and_size(self, file: int) -> tuple[int, int]:
        """Return mode and size of an open file, as stat(2) has them."""
        buffer = ctypes.create_string_buffer(_STATX_BYTES)
        while self._statx(file, b"", _AT_EMPTY_PATH, _STATX_TYPE | _STATX_SIZE, buffer) < 0:
            _complain(None)
        (mode,) = _STATX_MODE.unpack_from(buffer, _STATX_MODE_AT)
        (size,) = _STATX_LENGTH.unpack_from(buffer, _STATX_LENGTH_AT)
        return mode, size

    def close(self, file: int) -> None:
        # After EINTR it is closed, too (close(2)).
        if self._close(file) < 0 and ctypes.get_errno() != errno.EINTR:
            _complain(None)


def _encoded(path: str) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


def _complain(path: str | None, target: str | None = None) -> None:
    """Raise what the last call has met; return if it was only interrupted (PEP 475)."""
    if ctypes.get_errno() != errno.EINTR:
        raise _failure(path, target)


def find_syncfs() -> ctypes._NamedFuncPointer | None:
    """Return syncfs(2), if it reports errors: since Linux 5.8 (commit 735e4ae5ba28)."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or release is None:
        return None
    if (int(release[1]), int(release[2])) < (5, 8):
        return None
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return None
    syncfs.argtypes = [ctypes.c_int]
    syncfs.restype = ctypes.c_int
    return syncfs  # type: ignore[no-any-return]


log = logging.getLogger(__name__)

FOLDER_MODE: Final = 0o700
_AHEAD: Final = 64
"""Files that the disk reads at a time."""
_OVERWRITING: Final = frozenset({"ext4", "xfs"})
"""File systems of which it was measured that a file costs less to overwrite than to make. Others write
a new copy of each block, or have no disk."""
_BLOCK: Final = 512
"""Bytes in what stat(2) counts as a block, whatever the file system does."""
GROUP_FOLDER_MODE: Final = 0o2770
_FILE_MODE: Final = 0o600
_GROUP_FILE_MODE: Final = 0o660
_DEFAULT_ACL: Final = struct.pack(
    "<I" + "HHI" * 3, 2, *(0x01, 7, 0xFFFF_FFFF), *(0x04, 7, 0xFFFF_FFFF), *(0x20, 0, 0xFFFF_FFFF)
)
"""Version 2: the user and the group may do all, others nothing."""
_NOREPLACE: Final = 1
_IN_ATTRIB: Final = 0x4
_EVENTS: Final = 4_096
"""Bytes. Equal events that follow each other are one."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """The namespace and host of a process."""

    pid: int
    host: str
    boot: str
    """Another host, the same one after a restart, and a time namespace of its own has another: their
    monotonic times can't be compared. Other containers of a host share it."""


def this_process() -> RunningProcess:
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().decode().strip()
    with contextlib.suppress(FileNotFoundError):  # A kernel before 5.6 has no time namespaces.
        boot += f" {Path('/proc/self/ns/time').readlink()}"
    return RunningProcess(os.getpid(), socket.gethostname(), boot)


class SharedBytes:
    """The bytes of a file that all processes of the host share.

    They are read as mapped memory, and written by pwrite(2): a disk that is dead or read-only refuses
    a write to mapped memory by SIGBUS, which ends the process without a word.
    """

    def __init__(self, file: int, size: int, calls: SystemCalls) -> None:
        """Take over `file`, a descriptor that can be read and written."""
        self._bytes = mmap.mmap(file, size, access=mmap.ACCESS_READ)
        self._file = file
        self._calls = calls
        self._close = closer(self, file)

    def read(self, offset: int, length: int) -> bytes:
        return self._bytes[offset : offset + length]

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        if may_block:
            os.pwrite(self._file, content, offset)  # It gives the interpreter's lock to others.
            return
        self._calls.write_all_at(self._file, offset, content)

    def close(self) -> None:
        self._bytes.close()
        self._close()


class _LocalFile:
    """A file that is open to be written."""

    def __init__(self, file: int, calls: SystemCalls, syncfs: ctypes._NamedFuncPointer | None) -> None:
        """Take over `file`."""
        self._file = file
        self._calls = calls
        self._syncfs = syncfs
        self._close = closer(self, file)

    def is_there(self) -> bool:
        return os.fstat(self._file).st_nlink > 0

    def write_at(self, offset: int, content: bytes) -> None:
        self._calls.write_all_at(self._file, offset, content)

    def sync_data(self) -> None:
        os.fdatasync(self._file)

    def sync_all(self) -> None:
        # Through a descriptor of its own: the kernel reports an error once to each.
        if self._syncfs is None:
            raise OSError(errno.ENOSYS, "syncfs reports no errors here")
        if self._syncfs(self._file) != 0:
            raise _failure("syncfs")

    def truncate(self, size: int) -> None:
        os.ftruncate(self._file, size)

    def close(self) -> None:
        self._close()


class _FileLock:
    """A lock of a file (flock(2)), for this process alone or shared with others."""

    def __init__(self, file: int, calls: SystemCalls, *, stays_open: bool) -> None:
        """Take over `file`. With `stays_open` a lock that was released can be acquired again."""
        self._file: int | None = file
        self._flock = calls.flock
        self._stays_open = stays_open
        self._is_locked = False
        self._close = closer(self, file)
        _open_locks.add(self)

    def acquire(self, how: int = fcntl.LOCK_EX) -> bool:
        """Take the lock; return False if another process, or another user of this file, holds it."""
        if self._is_locked or self._file is None:
            return False
        while self._flock(self._file, how | fcntl.LOCK_NB) < 0:
            if ctypes.get_errno() == errno.EWOULDBLOCK:
                return False
            _complain(None)
        self._is_locked = True
        return True

    def is_held(self) -> bool:
        if self._file is None:
            return False
        try:
            # To lock it again changes nothing, and asks the servers of a file system of several hosts.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        if not self._stays_open:
            self.close()
        elif self._is_locked and self._file is not None:
            self._flock(self._file, fcntl.LOCK_UN)
        self._is_locked = False

    def close(self) -> None:
        self._file = None
        self._close()


_open_locks: Final[weakref.WeakSet[_FileLock]] = weakref.WeakSet()


def _leave_locks_to_parent() -> None:
    """Close inherited locks in a forked child, which shares them with its parent: an unlock would take
    one from the parent, and a descriptor that stays open would hold it after the parent's death."""
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_leave_locks_to_parent)


class TouchWatch:
    """A watch of a file that other processes touch (inotify(7)). `wait` is for one thread, the rest is
    thread-safe."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._kernel = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._kernel < 0:
            raise _failure(path)
        self._close_kernel = closer(self, self._kernel)
        if libc.inotify_add_watch(self._kernel, os.fsencode(path), _IN_ATTRIB) < 0:
            raise _failure(path)
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._close_woken = closer(self, self._woken)
        self._poll = select.poll()
        for descriptor in (self._kernel, self._woken):
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, span: Millis) -> None:
        """Return when the file was touched since the last call, `wake` called, or `span` is over."""
        self._poll.poll(span)
        for descriptor in (self._kernel, self._woken):
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, _EVENTS)

    def wake(self) -> None:
        """End the present `wait`, or else the next one."""
        os.eventfd_write(self._woken, 1)

    def close(self) -> None:
        """Close the watch; no thread is in another call."""
        self._close_kernel()
        self._close_woken()


def is_for_group(mode: int) -> bool:
    """Return whether a folder's mode gives its group access to its content.

    The set-group-ID bit is part of that, because a careless umask never sets it.
    """
    return mode & GROUP_FOLDER_MODE == GROUP_FOLDER_MODE


def ignore_umask_in(folder: str) -> None:
    """Give new files in `folder` to its group, if the system can (acl(5)).

    A mode that is set afterwards is too late for a process that opens the file in between, or if we die
    in between.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # There is no such thing, or it is not our folder.
            os.setxattr(folder, "system.posix_acl_default", _DEFAULT_ACL)


class LocalDisk:
    """The file system under a folder of this machine.

    Its files are its user's alone, unless the mode of the root's own folder says that the group may use
    them: each process reads it there.
    """

    _threads: ThreadPoolExecutor | None = None
    """Made when syncs first run at once."""
    several_hosts = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """`root` must exist. It may be renamed while we work, and removed only to our harm."""
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Not when a store closes: a thread may still be reading.
        self._close = closer(self, self._root)
        self._for_group = is_for_group(os.fstat(self._root).st_mode)
        self.kind = kind_of(root)
        self._calls = SystemCalls(self._root, keeps_lock=not is_written_by_other_hosts(self.kind))
        self._syncfs = find_syncfs() if passes_on_syncfs(self.kind) else None
        self.can_sync_all = self._syncfs is not None
        self._lock_file: _FileLock | None = None

    @cached_property
    def overwrites(self) -> bool:
        is_known = self.can_sync_all and self.kind in _OVERWRITING
        return is_known and doubt_about(f"/proc/self/fd/{self._root}") is None

    def close(self) -> None:
        """Close the folder. Happens by itself with the last reference."""
        self._close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def make_folder(self, path: str) -> None:
        mode = 0o770 if self._for_group else FOLDER_MODE
        self._calls.make_folder(path, mode)
        if self._for_group:
            # The umask may have taken from the mode, and it is the whole process's.
            os.chmod(path, GROUP_FOLDER_MODE, dir_fd=self._root)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        mode = _GROUP_FILE_MODE if self._for_group else _FILE_MODE
        file = self._calls.open(path, _CREATE_FLAGS, mode)
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

    def make_open(self, path: str, size: int) -> OpenFile:
        mode = _GROUP_FILE_MODE if self._for_group else _FILE_MODE
        file = self._calls.open(path, _CREATE_FLAGS, mode)
        try:
            if self._for_group:
                os.fchmod(file, mode)
            self._calls.write_all(file, bytes(size))
            return _LocalFile(file, self._calls, self._syncfs)
        except BaseException:
            self._calls.close(file)
            os.unlink(path, dir_fd=self._root)
            raise

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        file = self._calls.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.lseek(file, offset, os.SEEK_SET)
            self._calls.write_all(file, content)
        finally:
            self._calls.close(file)

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

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        for at in range(0, len(paths), _AHEAD):
            part = paths[at : at + _AHEAD]
            for path in part:
                with contextlib.suppress(OSError):  # It comes up again below.
                    self._read_ahead(path)
            for path in part:
                try:
                    yield self.read(path)
                except OSError as error:
                    yield error

    def _read_ahead(self, path: str) -> None:
        """Drop what memory has of a file, and let the disk begin to read it."""
        file, _ = self._open_file(path)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            self._calls.close(file)

    def open(self, path: str) -> BinaryIO:
        # Unbuffered: sendfile(2) moves the file's offset behind our back.
        return cast(BinaryIO, FileIO(self._open_file(path)[0]))

    def _open_file(self, path: str) -> tuple[int, int]:
        """Open a regular file; return its descriptor and size."""
        # A foreign pipe must not hold us up: hence O_NONBLOCK.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = self._calls.open(path, flags)
        try:
            mode, size = self._calls.mode_and_size(file)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
        except BaseException:
            os.close(file)
            raise
        return file, size

    def scan(self, path: str) -> list[FolderEntry]:
        folder = os.open(path, _FOLDER_FLAGS, dir_fd=self._root)
        try:
            with os.scandir(folder) as entries:
                return [FolderEntry(entry.name, _kind_of(entry)) for entry in entries]
        finally:
            os.close(folder)

    def listing(self, path: str) -> Iterator[FolderEntry]:
        folder = os.open(path, _FOLDER_FLAGS, dir_fd=self._root)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    yield FolderEntry(entry.name, _kind_of(entry))
        finally:
            os.close(folder)

    def facts(self, path: str) -> Facts:
        status = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            kind = FileKind.FILE
        elif stat.S_ISDIR(status.st_mode):
            kind = FileKind.FOLDER
        else:
            kind = FileKind.OTHER
        return Facts(
            kind=kind, size=status.st_size, links=status.st_nlink, changed_ns=status.st_ctime_ns
        )

    def rename(self, source: str, target: str) -> None:
        before, after = _encoded(source), _encoded(target)
        while self._calls.renameat2(self._root, before, self._root, after, 0) < 0:
            _complain(source, target)

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
            raise OSError(errno.ENOSYS, "syncfs reports no errors here")
        # The root's own descriptor: if the root was removed, a new one couldn't be opened, and what
        # lies under it is no longer a queue.
        self.facts("FORMAT")
        if self._syncfs(self._root) != 0:
            raise _failure("syncfs")

    def run_at_once(self, syncs: Sequence[Callable[[], None]]) -> None:
        waiting, errors = deque(syncs), list[Exception]()

        def run() -> None:
            while True:
                try:
                    sync = waiting.popleft()
                except IndexError:
                    return
                try:
                    sync()
                except Exception as error:  # noqa: BLE001  # raised below
                    errors.append(error)

        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "spoolrack-sync")
        others: list[Future[None]] = []
        with contextlib.suppress(RuntimeError):  # No more threads, or the interpreter ends.
            for _ in syncs[1:_AT_ONCE]:
                others.append(self._threads.submit(run))
        run()
        for other in others:
            if not other.cancel():
                other.result()
        if errors:
            raise errors[0]

    def space(self) -> Space:
        return space_of(os.fstatvfs(self._root))

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
        if path == LOCK:
            if self._lock_file is None:
                self._lock_file = self._lock_of(path, os.O_RDWR, stays_open=True)
            return self._lock_file if self._lock_file.acquire() else None
        lock = self._lock_of(path, os.O_RDWR)
        return lock if lock.acquire() else None

    def _lock_of(self, path: str, flags: int, *, stays_open: bool = False) -> _FileLock:
        file = self._calls.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        return _FileLock(file, self._calls, stays_open=stays_open)

    def close_lock(self) -> None:
        """Close the file of `LOCK`; a later `lock` opens it again."""
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def link(self, source: str, target: str) -> None:
        while self._calls.linkat(self._root, source.encode(), self._root, target.encode(), 0) < 0:
            _complain(source, target)

    def link_from(self, source: str, target: str) -> int:
        """Give the regular file at `source`, resolved as the process's own paths are, the name `target`
        in the root, with its content on stable media; return its size. EXDEV on another file system."""
        file = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", source)
            # Of what is open, whatever has become of its name.
            os.link(f"/proc/self/fd/{file}", target, dst_dir_fd=self._root)
            try:
                os.fsync(file)
            except BaseException:
                os.unlink(target, dir_fd=self._root)
                raise
            return facts.st_size
        finally:
            os.close(file)

    def rename_new(self, source: str, target: str) -> None:
        before, after = os.fsencode(source), os.fsencode(target)
        while self._calls.renameat2(self._root, before, self._root, after, _NOREPLACE) < 0:
            _complain(source, target)

    def touch(self, path: str) -> None:
        with contextlib.suppress(OSError):  # It has ended, or is another user's: it looks by itself.
            os.utime(path, dir_fd=self._root)

    def watch(self, path: str) -> TouchWatch | None:
        """Watch the file for touches by other processes; return None if the system can't."""
        try:
            return TouchWatch(f"/proc/self/fd/{self._root}/{path}")
        except OSError as error:
            log.warning(
                "changes of other processes are looked for every 20 ms, as %s can't be watched (%s): "
                "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches",
                path,
                error.strerror,
            )
            return None

    def share_lock(self) -> Lock | None:
        """Return `LOCK` for reading, shared with other readers; None while a process commits. It needs
        no permission to write."""
        lock = self._lock_of(LOCK, os.O_RDONLY)
        return lock if lock.acquire(fcntl.LOCK_SH) else None

    def map(self, path: str, size: int) -> Memory:
        """Return the bytes of a file of this size, which all processes of the host share."""
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root)
        try:
            return SharedBytes(file, size, self._calls)
        except BaseException:
            os.close(file)
            raise


def space_of(status: os.statvfs_result) -> Space:
    """Return what statvfs(3) tells of a file system.

    One without a limit of files says 0 of 0, and ceph-fuse -1 free ones, which it doesn't know.
    """
    return Space(
        bytes=status.f_bavail * status.f_frsize,
        files=status.f_favail if status.f_files and 0 <= status.f_favail <= status.f_files else None,
        all_bytes=status.f_blocks * status.f_frsize,
        all_files=max(0, status.f_files),
    )


_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _sync_new(file: int, path: str) -> None:
    try:
        os.fsync(file)
    except OSError as error:
        raise NotSynced(error.errno, error.strerror, path) from error


def _kind_of(entry: os.DirEntry[str]) -> FileKind:
    if entry.is_file(follow_symlinks=False):
        return FileKind.FILE
    if entry.is_dir(follow_symlinks=False):
        return FileKind.FOLDER
    return FileKind.OTHER


def _failure(source: str | None, target: str | None = None) -> OSError:
    """Return what the last call has met."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), source, None, target)
