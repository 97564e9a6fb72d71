"""A second implementation of `disk.Disk`: a tree of folders and files in memory.

It answers as Linux does, errors included, and is fast enough for thousands of random stories. It only
has what a running system sees. A power cut is not modelled; a subclass that needs one keeps a second
tree of the durable state, and changes it in the sync methods.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from typing import BinaryIO

from spoolrack_store.files.disk import Facts, FileKind, FolderEntry, Space, read_one_by_one

ROOM = 1 << 40


@dataclass(slots=True, eq=False)
class File:
    content: bytes
    changed: int = 0
    links: int = 1
    lock: MemoryLock | None = None


@dataclass(slots=True, eq=False)
class Other:
    """A symbolic link, a pipe, a socket: no more is needed of it than to be none of ours."""


@dataclass(slots=True, eq=False)
class Folder:
    entries: dict[str, Node] = field(default_factory=dict)
    changed: int = 0


Node = File | Folder | Other


class MemoryLock:
    def __init__(self, file: File) -> None:
        self._file = file

    def is_held(self) -> bool:
        return self._file.lock is self

    def release(self) -> None:
        if self._file.lock is self:
            self._file.lock = None


def fails(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class MemoryOpenFile:
    """A file that is open to be written."""

    def __init__(self, disk: MemoryDisk, file: File) -> None:
        self._disk, self._node = disk, file
        self._is_open = True

    def is_there(self) -> bool:
        assert self._is_open
        return self._node.links > 0

    def write_at(self, offset: int, content: bytes) -> None:
        assert self._is_open
        self._disk.overwrite(self._node, offset, content)

    def sync_data(self) -> None:
        assert self._is_open
        self._disk.sync_data(self._node)

    def sync_all(self) -> None:
        assert self._is_open
        self._disk.sync_all()

    def truncate(self, size: int) -> None:
        assert self._is_open
        self._disk.truncate(self._node, size)

    def close(self) -> None:
        self._is_open = False


class MemoryDisk:
    """Not thread-safe. The tree outlives any engine over it, as a disk outlives a process."""

    def __init__(self, *, can_sync_all: bool = True) -> None:
        self.can_sync_all = can_sync_all
        self.several_hosts = False
        self.overwrites = False
        self.root = Folder()
        self.room = Space(bytes=ROOM, files=1 << 30)
        self._ticks = count(1)

    def _note(self, path: str) -> None:
        self._parent(path)[0].changed = next(self._ticks)

    # Disk.

    def make_folder(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.entries:
            raise fails(errno.EEXIST, path)
        parent.entries[name] = Folder()
        self._note(path)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        parent, name = self._parent(path)
        if name in parent.entries:
            raise fails(errno.EEXIST, path)
        parent.entries[name] = File(b"".join(parts), next(self._ticks))
        self._note(path)

    def make_open(self, path: str, size: int) -> MemoryOpenFile:
        self.create(path, [bytes(size)], sync=False)
        node = self.node(path)
        assert isinstance(node, File)
        return MemoryOpenFile(self, node)

    def overwrite(self, file: File, offset: int, content: bytes) -> None:
        """Write into an open file."""
        assert offset + len(content) <= len(file.content), "it has no blocks there"
        file.content = file.content[:offset] + content + file.content[offset + len(content) :]

    def sync_data(self, file: File) -> None:
        """Make the bytes of an open file durable."""

    def truncate(self, file: File, size: int) -> None:
        """Cut off the end of an open file."""
        file.content = file.content[:size]

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        node = self.node(path)
        assert isinstance(node, File)
        node.content = node.content[:offset] + content + node.content[offset + len(content) :]
        self._note(path)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        node = self.node(path)
        if isinstance(node, Other):
            raise fails(errno.ELOOP, path)
        if not isinstance(node, File):
            raise fails(errno.EINVAL, path)
        return node.content if limit is None else node.content[:limit]

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        return read_one_by_one(self, paths)

    def open(self, path: str) -> BinaryIO:
        return BytesIO(self.read(path))

    def scan(self, path: str) -> list[FolderEntry]:
        return [FolderEntry(name, _kind_of(node)) for name, node in self._folder(path).entries.items()]

    def listing(self, path: str) -> Iterator[FolderEntry]:
        yield from self.scan(path)

    def facts(self, path: str) -> Facts:
        node = self.node(path)
        size = len(node.content) if isinstance(node, File) else 0
        links = node.links if isinstance(node, File) else 1
        changed = 0 if isinstance(node, Other) else node.changed
        return Facts(kind=_kind_of(node), size=size, links=links, changed_ns=changed)

    def rename(self, source: str, target: str) -> None:
        parent, name = self._parent(source)
        if name not in parent.entries:
            raise fails(errno.ENOENT, source)
        node = parent.entries[name]
        into, new_name = self._parent(target)
        if f"{target}/".startswith(f"{source}/") and source != target:
            raise fails(errno.EINVAL, target)
        there = into.entries.get(new_name)
        if there is not None and there is not node:
            if isinstance(there, Folder):
                if not isinstance(node, Folder):
                    raise fails(errno.EISDIR, target)
                if there.entries:
                    raise fails(errno.ENOTEMPTY, target)
            elif isinstance(node, Folder):
                raise fails(errno.ENOTDIR, target)
        del parent.entries[name]
        into.entries[new_name] = node
        if isinstance(node, File):
            node.changed = next(self._ticks)
        self._note(source)
        self._note(target)

    def unlink(self, path: str) -> None:
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None:
            raise fails(errno.ENOENT, path)
        if isinstance(node, Folder):
            raise fails(errno.EISDIR, path)
        del parent.entries[name]
        if isinstance(node, File):
            node.links -= 1
        self._note(path)

    def remove_folder(self, path: str) -> None:
        parent, name = self._parent(path)
        if self._folder(path).entries:
            raise fails(errno.ENOTEMPTY, path)
        del parent.entries[name]
        self._note(path)

    def sync_file(self, path: str) -> None:
        self.node(path)

    def sync_folder(self, path: str) -> None:
        self._folder(path)

    def sync_all(self) -> None:
        if not self.can_sync_all:
            raise fails(errno.ENOSYS, "syncfs")
        self.node("FORMAT")

    def run_at_once(self, syncs: Sequence[Callable[[], None]]) -> None:
        for sync in syncs:
            sync()

    def space(self) -> Space:
        return self.room

    def set_aside(self, path: str, size: int) -> None:
        parent, name = self._parent(path)
        parent.entries[name] = File(bytes(size), next(self._ticks))

    def lock(self, path: str) -> MemoryLock | None:
        node = self.node(path)
        if not isinstance(node, File):
            raise fails(errno.EISDIR if isinstance(node, Folder) else errno.ELOOP, path)
        if node.lock is not None:
            return None
        node.lock = MemoryLock(node)
        return node.lock

    # The tree.

    def free_locks(self) -> None:
        """Free all locks, as the death of their holder does."""
        waiting: list[Node] = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, File):
                node.lock = None
            elif isinstance(node, Folder):
                waiting.extend(node.entries.values())

    def node(self, path: str) -> Node:
        node: Node = self.root
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if not isinstance(node, Folder):
                raise fails(errno.ENOTDIR, path)
            there = node.entries.get(name)
            if there is None:
                code = errno.ENAMETOOLONG if len(os.fsencode(name)) > 255 else errno.ENOENT
                raise fails(code, path)
            node = there
        return node

    def _folder(self, path: str) -> Folder:
        node = self.node(path)
        if not isinstance(node, Folder):
            raise fails(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        # Most names are short: a character has four bytes at most.
        if len(name) > 63 and len(os.fsencode(name)) > 255:
            raise fails(errno.ENAMETOOLONG, path)
        return self._folder(folder), name


def _kind_of(node: Node) -> FileKind:
    if isinstance(node, File):
        return FileKind.FILE
    return FileKind.FOLDER if isinstance(node, Folder) else FileKind.OTHER
