"""A disk over another one, which is only read: what is changed is changed in memory alone.

A store on it does all that a start does, finishes what a crash left and brings back what is due, and no
file of the root is touched. So a root can be looked at that is mounted read-only, or that somebody else
owns. It must not be moved in meanwhile: what has left its place is not found any more.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO

from .disk import Disk, Facts, Found, Kind, Lock
from .space import Space


class _Node:
    """A file or a folder, as it is on the disk or in memory."""

    __slots__ = ("content", "kind", "names", "place")

    def __init__(self, place: str | None, kind: Kind | None, content: bytes = b"") -> None:
        self.place = place
        """Where it is on the disk, wherever it was moved to; None: only in memory."""
        self.kind = kind
        """None: as the disk says."""
        self.content = content
        """Of a file in memory."""
        self.names: dict[str, _Node | None] = {}
        """What differs from the disk in this folder; None: removed."""


class _Held:
    def release(self) -> None:
        """Nothing was locked."""


class OverlayDisk:
    """`Disk`, as far as its users can tell. Not thread-safe beyond what its store does."""

    can_sync_all = True

    def __init__(self, disk: Disk) -> None:
        """`disk` is read and never written."""
        self._disk = disk
        self._root = _Node(".", Kind.FOLDER)

    def make_folder(self, path: str) -> None:
        folder, name = self._new(path)
        folder.names[name] = _Node(None, Kind.FOLDER)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        folder, name = self._new(path)
        folder.names[name] = _Node(None, Kind.FILE, b"".join(parts))

    def append(self, path: str, content: bytes, *, sync: bool) -> None:
        whole = self.read(path) + content
        folder, name = self._parent(path)
        folder.names[name] = _Node(None, Kind.FILE, whole)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        node = self._find(path)
        if node.place is not None:
            return self._disk.read(node.place, limit, afresh=afresh)
        if node.kind is not Kind.FILE:
            raise _fails(errno.EINVAL, path)
        return node.content if limit is None else node.content[:limit]

    def open(self, path: str) -> BinaryIO:
        node = self._find(path)
        return self._disk.open(node.place) if node.place is not None else BytesIO(self.read(path))

    def scan(self, path: str) -> list[Found]:
        node = self._find(path)
        if node.kind is Kind.FILE:
            raise _fails(errno.ENOTDIR, path)
        kinds: dict[str, Kind] = {}
        if node.place is not None:
            kinds = {found.name: found.kind for found in self._disk.scan(node.place)}
        for name, changed in node.names.items():
            if changed is None:
                kinds.pop(name, None)
            elif changed.kind is not None:
                kinds[name] = changed.kind
        return [Found(name, kind) for name, kind in kinds.items()]

    def facts(self, path: str) -> Facts:
        node = self._find(path)
        if node.place is not None:
            return self._disk.facts(node.place)
        assert node.kind is not None
        return Facts(kind=node.kind, size=len(node.content), links=1, changed_ns=0)

    def rename(self, source: str, target: str) -> None:
        kind = self.facts(source).kind
        node = self._find(source)
        try:
            is_full = self.facts(target).kind is Kind.FOLDER and bool(self.scan(target))
        except FileNotFoundError:
            is_full = False
        if is_full:
            raise _fails(errno.ENOTEMPTY, target)
        folder, name = self._parent(source)
        into, new_name = self._parent(target)
        node.kind = kind
        folder.names[name] = None
        into.names[new_name] = node

    def unlink(self, path: str) -> None:
        if self.facts(path).kind is Kind.FOLDER:
            raise _fails(errno.EISDIR, path)
        folder, name = self._parent(path)
        folder.names[name] = None

    def remove_folder(self, path: str) -> None:
        if self.scan(path):
            raise _fails(errno.ENOTEMPTY, path)
        folder, name = self._parent(path)
        folder.names[name] = None

    def sync_file(self, path: str) -> None:
        self.facts(path)

    def sync_folder(self, path: str) -> None:
        self.facts(path)

    def sync_all(self) -> None:
        """What is in memory alone is nobody's promise."""

    def space(self) -> Space:
        return self._disk.space()

    def set_aside(self, path: str, size: int) -> None:
        """Nothing here takes up room."""

    def lock(self, path: str) -> Lock | None:
        """A lock that holds nobody off: who only looks needs to be alone with what is in memory."""
        self.facts(path)
        return _Held()

    # Finding.

    def _find(self, path: str) -> _Node:
        node = self._root
        for name in path.split("/"):
            if name != ".":
                node = self._inside(node, name, path)
        return node

    def _inside(self, folder: _Node, name: str, path: str) -> _Node:
        if name in folder.names:
            node = folder.names[name]
            if node is None:
                raise _fails(errno.ENOENT, path)
            return node
        if folder.place is None:
            raise _fails(errno.ENOENT, path)
        return _Node(f"{folder.place}/{name}" if folder.place != "." else name, None)

    def _parent(self, path: str) -> tuple[_Node, str]:
        """The folder that `path` lies in, kept from now on, and its name there."""
        *folders, last = path.split("/")
        if folders and self.facts("/".join(folders)).kind is not Kind.FOLDER:
            raise _fails(errno.ENOTDIR, path)
        node = self._root
        for name in folders:
            inside = self._inside(node, name, path)
            node.names[name] = inside
            node = inside
        return node, last

    def _new(self, path: str) -> tuple[_Node, str]:
        try:
            self.facts(path)
        except FileNotFoundError:
            return self._parent(path)
        raise _fails(errno.EEXIST, path)


def _fails(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
