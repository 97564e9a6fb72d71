"""Short system calls, with the interpreter's lock kept or released.

Python lets other threads run during every call into the kernel. Where a call takes microseconds, and
another thread is busy, it takes ten times as long to get the lock back: the committer waited for that
most of the time. So on a local file system the lock is kept during calls that are answered from memory.
A call that waits for a disk releases it, and where every call may wait for another host, all of them
do. Every call raises `OSError` as the system does.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import struct
import sys
from typing import Final, Protocol

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


class SystemCalls(Protocol):
    """Paths are from the open `folder`."""

    def open(self, folder: int, path: str, flags: int, mode: int = 0) -> int: ...

    def make_folder(self, folder: int, path: str, mode: int) -> None: ...

    def rename(self, folder: int, source: str, target: str) -> None: ...

    def write_all(self, file: int, content: bytes) -> None: ...

    def read(self, file: int, size: int) -> bytes:
        """Return up to so many bytes, perhaps fewer; none at the end of the file."""

    def mode_and_size(self, file: int) -> tuple[int, int]:
        """Of an open file, as stat(2) calls them."""

    def lock(self, file: int) -> bool:
        """Lock it for this descriptor alone (flock(2)); return False if another descriptor has it."""

    def close(self, file: int) -> None: ...


class Released:
    """Python's own calls."""

    def open(self, folder: int, path: str, flags: int, mode: int = 0) -> int:
        return os.open(path, flags, mode, dir_fd=folder)

    def make_folder(self, folder: int, path: str, mode: int) -> None:
        os.mkdir(path, mode, dir_fd=folder)

    def rename(self, folder: int, source: str, target: str) -> None:
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)

    def write_all(self, file: int, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]

    def read(self, file: int, size: int) -> bytes:
        return os.read(file, size)

    def mode_and_size(self, file: int) -> tuple[int, int]:
        found = os.fstat(file)
        return found.st_mode, found.st_size

    def lock(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self, file: int) -> None:
        os.close(file)


class Kept(Released):
    """The C library's, by way of ctypes, which keeps the lock."""

    def __init__(self) -> None:
        libc = ctypes.PyDLL(None, use_errno=True)
        number, text, size = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
        self._openat = libc.openat
        self._openat.argtypes = [number, text, number, ctypes.c_uint]
        self._mkdirat = libc.mkdirat
        self._mkdirat.argtypes = [number, text, ctypes.c_uint]
        self._renameat = libc.renameat
        self._renameat.argtypes = [number, text, number, text]
        self._write = libc.write
        self._write.argtypes = [number, text, size]
        self._write.restype = ctypes.c_ssize_t
        self._read = libc.read
        self._read.argtypes = [number, ctypes.c_void_p, size]
        self._read.restype = ctypes.c_ssize_t
        self._statx = libc.statx
        self._statx.argtypes = [number, text, number, ctypes.c_uint, ctypes.c_void_p]
        self._flock = libc.flock
        self._flock.argtypes = [number, number]
        self._close = libc.close
        self._close.argtypes = [number]

    def open(self, folder: int, path: str, flags: int, mode: int = 0) -> int:
        name = _encoded(path)
        while (file := self._openat(folder, name, flags, mode)) < 0:
            _complain(path)
        return int(file)

    def make_folder(self, folder: int, path: str, mode: int) -> None:
        name = _encoded(path)
        while self._mkdirat(folder, name, mode) < 0:
            _complain(path)

    def rename(self, folder: int, source: str, target: str) -> None:
        before, after = _encoded(source), _encoded(target)
        while self._renameat(folder, before, folder, after) < 0:
            _complain(source, target)

    def write_all(self, file: int, content: bytes) -> None:
        if len(content) > _SHORT:
            super().write_all(file, content)
            return
        while content:
            while (written := self._write(file, content, len(content))) < 0:
                _complain(None)
            content = content[written:]

    def read(self, file: int, size: int) -> bytes:
        if size > _SHORT:
            return super().read(file, size)
        buffer = ctypes.create_string_buffer(size)
        while (count := self._read(file, buffer, size)) < 0:
            _complain(None)
        return buffer.raw[:count]

    def mode_and_size(self, file: int) -> tuple[int, int]:
        found = ctypes.create_string_buffer(_STATX_BYTES)
        while self._statx(file, b"", _AT_EMPTY_PATH, _STATX_TYPE | _STATX_SIZE, found) < 0:
            _complain(None)
        (mode,) = _STATX_MODE.unpack_from(found, _STATX_MODE_AT)
        (size,) = _STATX_LENGTH.unpack_from(found, _STATX_LENGTH_AT)
        return mode, size

    def lock(self, file: int) -> bool:
        while self._flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB) < 0:
            if ctypes.get_errno() == errno.EWOULDBLOCK:
                return False
            _complain(None)
        return True

    def close(self, file: int) -> None:
        if (
            self._close(file) < 0 and ctypes.get_errno() != errno.EINTR
        ):  # EINTR: it is closed (close(2))
            _complain(None)


def calls_for(*, is_local: bool) -> SystemCalls:
    """Return the calls for a file system of this machine's, or for one that other hosts serve."""
    # Only the GNU C library is known to have all of them.
    is_known = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
    return Kept() if is_local and is_known else Released()


def _encoded(path: str) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


def _complain(path: str | None, target: str | None = None) -> None:
    """Raise what the last call has met; return if it was only interrupted (PEP 475)."""
    code: Final = ctypes.get_errno()
    if code != errno.EINTR:
        raise OSError(code, os.strerror(code), path, None, target)


def find_syncfs() -> ctypes._NamedFuncPointer | None:
    """syncfs(2), where it reports errors: since Linux 5.8 (commit 735e4ae5ba28)."""
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
