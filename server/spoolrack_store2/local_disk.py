"""The file system under a folder of this machine, with the two calls that batches need."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import select
import socket
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spoolrack_store.files import disk
from spoolrack_store.model.clock import Millis

from .changes import LOCK, Memory

log = logging.getLogger(__name__)

_NOREPLACE: Final = 1
_IN_ATTRIB: Final = 0x4
_EVENTS: Final = 4_096
"""Bytes. Equal events that follow each other are one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs."""

    pid: int
    host: str
    boot: str
    """Another host, and the same one after a restart, has another. Containers of a host share it."""


def this_place() -> Place:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Place(os.getpid(), socket.gethostname(), boot)


class MappedMemory:
    """The bytes of a file that all processes of the host share."""

    def __init__(self, file: int, size: int) -> None:
        self._bytes = mmap.mmap(file, size)

    def read(self, offset: int, length: int) -> bytes:
        return self._bytes[offset : offset + length]

    def write(self, offset: int, content: bytes) -> None:
        self._bytes[offset : offset + len(content)] = content


class _LockFile:
    """`LOCK`, open as long as the disk is: to take and to release it is one system call each."""

    def __init__(self, file: int, flock: Callable[[int, int], int]) -> None:
        self._file: int | None = file
        self._flock = flock
        self._is_held = False
        self._close = weakref.finalize(self, os.close, file)
        self._close.atexit = False  # A thread may still commit: the system closes it then.
        _lock_files.add(self)

    def take(self, how: int = fcntl.LOCK_EX) -> bool:
        """Take the lock; return False if another process, or another user of this file, holds it."""
        if self._is_held or self._file is None:
            return False
        while self._flock(self._file, how | fcntl.LOCK_NB):
            code = ctypes.get_errno()
            if code == errno.EWOULDBLOCK:
                return False
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code), LOCK)
        self._is_held = True
        return True

    def release(self) -> None:
        if self._is_held and self._file is not None:
            self._flock(self._file, fcntl.LOCK_UN)
        self._is_held = False

    def leave_to_parent(self) -> None:
        """Close it in a child of fork, which shares the lock with its parent: an unlock would take it
        from the parent, and a descriptor that stays open would hold it after the parent's death."""
        self._file = None
        self._close()


_lock_files: Final[weakref.WeakSet[_LockFile]] = weakref.WeakSet()


def _leave_locks_to_parent() -> None:
    for file in list(_lock_files):
        file.leave_to_parent()


os.register_at_fork(after_in_child=_leave_locks_to_parent)


class Ear:
    """Hears when a file is touched (inotify(7)). `wait` is for one thread, the rest is thread-safe."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._kernel = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._kernel < 0:
            raise _failure(path, "")
        self._close = weakref.finalize(self, os.close, self._kernel)
        self._close.atexit = False
        if libc.inotify_add_watch(self._kernel, os.fsencode(path), _IN_ATTRIB) < 0:
            raise _failure(path, "")
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._close_woken = weakref.finalize(self, os.close, self._woken)
        self._close_woken.atexit = False
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
        """End the `wait` that is under way, or else the next one."""
        os.eventfd_write(self._woken, 1)

    def close(self) -> None:
        """Hear nothing more; no thread is in another call."""
        self._close()
        self._close_woken()


class LocalDisk(disk.LocalDisk):
    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        # PyDLL keeps the interpreter's lock: both calls are answered from memory.
        libc = ctypes.PyDLL(None, use_errno=True)
        folder, text = ctypes.c_int, ctypes.c_char_p
        self._renameat2 = libc.renameat2
        self._renameat2.argtypes = [folder, text, folder, text, ctypes.c_uint]
        self._linkat = libc.linkat
        self._linkat.argtypes = [folder, text, folder, text, ctypes.c_int]
        self._flock = libc.flock
        self._flock.argtypes = [ctypes.c_int, ctypes.c_int]
        self._lock_file: _LockFile | None = None

    def link(self, source: str, target: str) -> None:
        if self._linkat(self._root, source.encode(), self._root, target.encode(), 0):
            raise _failure(source, target)

    def rename_new(self, source: str, target: str) -> None:
        if self._renameat2(self._root, source.encode(), self._root, target.encode(), _NOREPLACE):
            raise _failure(source, target)

    def touch(self, path: str) -> None:
        with contextlib.suppress(OSError):  # It has ended, or is another user's: it looks by itself.
            os.utime(path, dir_fd=self._root)

    def watch(self, path: str) -> Ear | None:
        """Return what hears when another process touches the file; None if this can't be heard."""
        try:
            return Ear(f"/proc/self/fd/{self._root}/{path}")
        except OSError as error:
            log.warning(
                "changes of other processes are looked for every 20 ms, as %s can't be watched (%s): "
                "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches",
                path,
                error.strerror,
            )
            return None

    def lock(self, path: str) -> disk.Lock | None:
        if path != LOCK:
            return super().lock(path)
        if self._lock_file is None:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock_file = _LockFile(os.open(path, flags, dir_fd=self._root), self._flock)
        return self._lock_file if self._lock_file.take() else None

    def share_lock(self) -> disk.Lock | None:
        """Return `LOCK`, shared with others that only look; None while a process commits. It needs no
        permission to write."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        file = _LockFile(os.open(LOCK, flags, dir_fd=self._root), self._flock)
        return file if file.take(fcntl.LOCK_SH) else None

    def map(self, path: str, size: int) -> Memory:
        """Return the bytes of a file of this size as memory."""
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root)
        try:
            return MappedMemory(file, size)
        finally:
            os.close(file)


def _failure(source: str, target: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), source, None, target)
