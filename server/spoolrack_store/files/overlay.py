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
from .disk import Disk, Facts, FileKind, Found, Lock, Space, read_one_by_one
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
)

_ORDER: Final = (CONFIG, QUEUES, RESERVED, REDRIVES, STAGED, NEW)
_AFTER: Final = (PUBLISHED, KEYS, BODIES, DELAY, REMOVE, QUARANTINE)
"""The folders before and after the queues': most messages move in this direction."""
_RECORDS: Final = (CONFIG, RESERVED, REDRIVES)


class _Node:
    """A file that is elsewhere than on the disk, or a folder."""

    __slots__ = ("content", "place")

    def __init__(self, place: str | None, content: bytes = b"") -> None:
        self.place = place
        """Where the file is on the disk; None: only in memory."""
        self.content = content


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

    def write(self, offset: int, content: bytes) -> None:
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
        self.several_hosts = disk.several_hosts
        self.kind = ""
        self._locked: set[str] = set()
        self._files: dict[str, dict[str, _Node | None]] = {}
        """By folder the names that differ from the disk; None: there is none."""
        self._folders: dict[str, bool] = {}
        """Folders that were made (True) or removed."""
        self._listed: dict[str, dict[str, FileKind]] = {}
        """Folders as `freeze` has listed them."""

    def freeze(self) -> None:
        """List all folders, beside processes that go on: their later moves aren't seen.

        The folders are listed twice, the second time in the opposite order. A name that moves meanwhile
        is seen under its old path, its new one, or both: of two the later version counts. Settings,
        records and messages that are being sent are read at once. Raise `OSError`.
        """
        order = [*_ORDER, *(f"{QUEUES}/{each.name}" for each in self._disk.scan(QUEUES)), *_AFTER]
        for folder in (*order, *reversed(order)):
            with suppress(FileNotFoundError, NotADirectoryError):
                found = {each.name: each.kind for each in self._disk.scan(folder)}
                for name in [name for name in found if _is_copied(folder, name)]:
                    if found.pop(name) is FileKind.FILE:
                        self._copy(folder, name)
                self._listed.setdefault(folder, {}).update(found)

    def _copy(self, folder: str, name: str) -> None:
        """Keep the content of a file that other processes rename or unlink, and that a start reads."""
        path = f"{folder}/{name}"
        if name not in self._files.get(folder, {}):
            with suppress(FileNotFoundError):
                self._put(path, _Node(None, self._disk.read(path, afresh=True)))

    def make_folder(self, path: str) -> None:
        self._require_new(path)
        self._folders[path] = True

    def remove_folder(self, path: str) -> None:
        if self.scan(path):
            raise _fails(errno.ENOTEMPTY, path)
        self._folders[path] = False

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self._require_new(path)
        self._put(path, _Node(None, b"".join(parts)))

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        before = self.read(path)
        self._put(path, _Node(None, before[:offset] + content + before[offset + len(content) :]))

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        node = self._file(path)
        if node.place is not None:
            return self._disk.read(node.place, limit, afresh=afresh)
        return node.content if limit is None else node.content[:limit]

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        return read_one_by_one(self, paths)

    def open(self, path: str) -> BinaryIO:
        node = self._file(path)
        return self._disk.open(node.place) if node.place is not None else BytesIO(node.content)

    def scan(self, path: str) -> list[Found]:
        is_made = self._folders.get(path)
        if is_made is False:
            raise _fails(errno.ENOENT, path)
        kinds: dict[str, FileKind] = {}
        if is_made is None:
            listed = self._listed.get(path)
            if listed is None:
                listed = {found.name: found.kind for found in self._disk.scan(path)}
            kinds = dict(listed)
        for folder, exists in self._folders.items():
            above, _, name = folder.rpartition("/")
            if (above or ".") == path:
                kinds.pop(name, None)
                if exists:
                    kinds[name] = FileKind.FOLDER
        for name, node in self._files.get(path, {}).items():
            kinds.pop(name, None)
            if node is not None:
                kinds[name] = FileKind.FILE
        return [Found(name, kind) for name, kind in kinds.items()]

    def facts(self, path: str) -> Facts:
        is_made = self._folders.get(path)
        if is_made:
            return Facts(kind=FileKind.FOLDER, size=0, links=1, changed_ns=0)
        if is_made is False:
            raise _fails(errno.ENOENT, path)
        node = self._file(path)
        if node.place is not None:
            return self._disk.facts(node.place)
        return Facts(kind=FileKind.FILE, size=len(node.content), links=1, changed_ns=0)

    def rename(self, source: str, target: str) -> None:
        node = self._file(source)
        self._require_there(source)
        self._put(target, node)
        self._put(source, None)

    def rename_new(self, source: str, target: str) -> None:
        self._require_new(target)
        self.rename(source, target)

    def link(self, source: str, target: str) -> None:
        self._require_new(target)
        self._require_there(source)
        self._put(target, self._file(source))

    def unlink(self, path: str) -> None:
        self._require_there(path)
        folder, name = _split(path)
        is_listed_file = self._listed.get(folder, {}).get(name) is FileKind.FILE
        if not is_listed_file and self.facts(path).kind is FileKind.FOLDER:
            raise _fails(errno.EISDIR, path)
        self._put(path, None)

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

    def _file(self, path: str) -> _Node:
        folder, name = _split(path)
        if self._folders.get(folder) is False:
            raise _fails(errno.ENOENT, path)
        names = self._files.get(folder, {})
        if name in names:
            node = names[name]
            if node is None:
                raise _fails(errno.ENOENT, path)
            return node
        listed = self._listed.get(folder)
        if self._folders.get(folder) or (listed is not None and name not in listed):
            raise _fails(errno.ENOENT, path)
        return _Node(path)

    def _put(self, path: str, node: _Node | None) -> None:
        folder, name = _split(path)
        self._files.setdefault(folder, {})[name] = node

    def _require_there(self, path: str) -> None:
        """Raise `FileNotFoundError` for a file that is neither on the disk nor listed."""
        self._file(path)
        folder, name = _split(path)
        if name not in self._listed.get(folder, {}):
            self.facts(path)

    def _require_new(self, path: str) -> None:
        try:
            self._require_there(path)
        except FileNotFoundError:
            return
        raise _fails(errno.EEXIST, path)


def _is_copied(folder: str, name: str) -> bool:
    """Return whether a file is settings, a record, or a message that is being sent."""
    return folder in _RECORDS or (folder == NEW and name_at(f"{NEW}/{name}") is not None)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or ".", name


def _fails(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
