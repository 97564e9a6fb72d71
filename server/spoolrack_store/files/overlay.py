"""Overlay over a disk that is only read: changes are made in memory alone.

An engine on it does all that a start does, and no file of the root is touched. So a root can be looked
at that is mounted read-only, that another user owns, or that other processes have open.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import BinaryIO, Final

from ..model.names import name_at
from .disk import Disk, Facts, FileKind, FolderEntry, Lock, OpenFile, Space, read_one_by_one
from .layout import (
    BODIES,
    CONFIG,
    DELAY,
    KEYS,
    NEW,
    PUBLISHED,
    QUARANTINE,
    QUEUES,
    REDRIVES,
    REMOVE,
    RESERVED,
    STAGED,
    spare_owner,
)

_ORDER: Final = (CONFIG, QUEUES, RESERVED, REDRIVES, STAGED, NEW)
_AFTER: Final = (PUBLISHED, KEYS, BODIES, DELAY, REMOVE, QUARANTINE)
"""The folders before and after the queues': most messages move in this direction."""
_RECORDS: Final = (CONFIG, RESERVED, REDRIVES)


File = FileKind | str | bytes
"""What a name stands for: the kind of what is on the disk under this name, the path of a file that is
on the disk elsewhere, or the content of a file in memory."""


class _OverlayLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked, self._path = locked, path
        locked.add(path)

    def is_held(self) -> bool:
        return self._path in self._locked

    def release(self) -> None:
        self._locked.discard(self._path)


class _Bytes:
    """Memory of this process alone."""

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(size)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._bytes[offset : offset + length])

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        self._bytes[offset : offset + len(content)] = content

    def close(self) -> None:
        """Keep the bytes: they take up no descriptor."""


class OverlayDisk:
    """A disk whose changes are in memory. As thread-safe as its store needs. Folders are created and
    removed, never renamed."""

    def __init__(self, disk: Disk) -> None:
        """`disk` is read and never written."""
        self._disk = disk
        self.can_sync_all = True
        self.overwrites = False
        self.several_hosts = disk.several_hosts
        self.kind = ""
        self._locked: set[str] = set()
        self._folders: dict[str, dict[str, File]] = {}
        """The names of each folder, once it was listed or made."""

    def freeze(self) -> None:
        """List all folders, beside processes that go on: their later moves aren't seen.

        The folders are listed twice, the second time in the opposite order. A name that moves meanwhile
        is seen under its old path, its new one, or both: of two the later version counts. Settings,
        records and messages that are being sent are read at once. Raise `OSError`.
        """
        order = [*_ORDER, *(f"{QUEUES}/{queue.name}" for queue in self._disk.scan(QUEUES)), *_AFTER]
        for folder in (*order, *reversed(order)):
            with suppress(FileNotFoundError, NotADirectoryError):
                listed = self._disk.scan(folder)
                names = self._folders.setdefault(folder, {})
                for name, kind in listed:
                    if not _is_copied(folder, name):
                        names[name] = kind
                    elif kind is FileKind.FILE and name not in names:
                        # Other processes rename and unlink it, and a start reads it.
                        with suppress(FileNotFoundError):
                            names[name] = self._disk.read(f"{folder}/{name}", afresh=True)

    def make_folder(self, path: str) -> None:
        self._put(path, FileKind.FOLDER)
        self._folders[path] = {}

    def remove_folder(self, path: str) -> None:
        if self._names(path):
            raise _fails(errno.ENOTEMPTY, path)
        self._take(path)
        del self._folders[path]

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self._put(path, b"".join(parts))

    def make_open(self, path: str, size: int) -> OpenFile:
        raise _fails(errno.EROFS, path)

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        before = self.read(path)
        self._take(path)
        self._put(path, before[:offset] + content + before[offset + len(content) :])

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        file = self._file(path)
        if isinstance(file, str):
            return self._disk.read(file, limit, afresh=afresh)
        return file if limit is None else file[:limit]

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        return read_one_by_one(self, paths)

    def open(self, path: str) -> BinaryIO:
        file = self._file(path)
        return self._disk.open(file) if isinstance(file, str) else BytesIO(file)

    def scan(self, path: str) -> list[FolderEntry]:
        return [
            FolderEntry(name, file if isinstance(file, FileKind) else FileKind.FILE)
            for name, file in self._names(path).items()
        ]

    def listing(self, path: str) -> Iterator[FolderEntry]:
        yield from self.scan(path)

    def facts(self, path: str) -> Facts:
        if self._entry(path) is FileKind.FOLDER:
            return Facts(kind=FileKind.FOLDER, size=0, links=1, changed_ns=0)
        file = self._file(path)
        if isinstance(file, str):
            return self._disk.facts(file)
        return Facts(kind=FileKind.FILE, size=len(file), links=1, changed_ns=0)

    def rename(self, source: str, target: str) -> None:
        file = self._file(source)
        folder, name = _split(target)
        names = self._names(folder)
        self._take(source)
        names[name] = file

    def rename_new(self, source: str, target: str) -> None:
        self.link(source, target)
        self._take(source)

    def link(self, source: str, target: str) -> None:
        self._put(target, self._file(source))

    def unlink(self, path: str) -> None:
        if self._entry(path) is FileKind.FOLDER:
            raise _fails(errno.EISDIR, path)
        self._take(path)

    def sync_file(self, path: str) -> None:
        """Do nothing: no change here is made durable. The other syncs do the same."""

    def sync_folder(self, path: str) -> None: ...

    def sync_all(self) -> None: ...

    def run_at_once(self, syncs: Sequence[Callable[[], None]]) -> None: ...

    def link_from(self, source: str, target: str) -> int:
        raise _fails(errno.EROFS, target)

    def space(self) -> Space:
        return self._disk.space()

    def set_aside(self, path: str, size: int) -> None:
        """Do nothing: a change here takes no disk space."""

    def lock(self, path: str) -> Lock | None:
        """Return a lock that excludes this process alone, and no other one."""
        return None if path in self._locked else _OverlayLock(self._locked, path)

    def close_lock(self) -> None:
        """Do nothing: the lock has no file."""

    def touch(self, path: str) -> None:
        """Do nothing: no other process sees changes in memory."""

    def watch(self, path: str) -> None:
        """Do nothing: no other process makes changes in memory."""

    def map(self, path: str, size: int) -> _Bytes:
        return _Bytes(size)

    def _names(self, folder: str) -> dict[str, File]:
        """Return the names of a folder; list it if that wasn't done before."""
        names = self._folders.get(folder)
        if names is None:
            if folder != "." and self._entry(folder) is not FileKind.FOLDER:
                raise _fails(errno.ENOTDIR, folder)
            names = self._folders[folder] = dict[str, File](self._disk.scan(folder))
        return names

    def _entry(self, path: str) -> File:
        folder, name = _split(path)
        file = self._names(folder).get(name)
        if file is None:
            raise _fails(errno.ENOENT, path)
        return file

    def _file(self, path: str) -> str | bytes:
        """Return where a file is on the disk, or its content in memory."""
        file = self._entry(path)
        return path if isinstance(file, FileKind) else file

    def _put(self, path: str, file: File) -> None:
        folder, name = _split(path)
        if name in self._names(folder):
            raise _fails(errno.EEXIST, path)
        self._names(folder)[name] = file

    def _take(self, path: str) -> None:
        folder, name = _split(path)
        if self._names(folder).pop(name, None) is None:
            raise _fails(errno.ENOENT, path)


def _is_copied(folder: str, name: str) -> bool:
    """Return whether a file is settings, a record, or a message that is being sent."""
    if folder != NEW:
        return folder in _RECORDS
    return bool(name_at(f"{NEW}/{name}") or spare_owner(name))


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or ".", name


def _fails(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
