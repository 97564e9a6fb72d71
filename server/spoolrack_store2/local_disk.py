"""The file system under a folder of this machine, with the two calls that batches need."""

from __future__ import annotations

import ctypes
import os
from typing import Final

from spoolrack_store.files import disk

_NOREPLACE: Final = 1


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


def _failure(source: str, target: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), source, None, target)
