"""The file system under a folder of this machine, with the two calls that batches need."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spoolrack_store.files import disk

_NOREPLACE: Final = 1


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

    def link(self, source: str, target: str) -> None:
        if self._linkat(self._root, source.encode(), self._root, target.encode(), 0):
            raise _failure(source, target)

    def rename_new(self, source: str, target: str) -> None:
        if self._renameat2(self._root, source.encode(), self._root, target.encode(), _NOREPLACE):
            raise _failure(source, target)

    def map(self, path: str, size: int) -> MappedMemory:
        """Return the bytes of a file of this size as memory."""
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root)
        try:
            return MappedMemory(file, size)
        finally:
            os.close(file)


def _failure(source: str, target: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), source, None, target)
