"""The root as its system calls leave it: a tree of folders and files, and what of it isn't durable yet.

A change of a name is durable once every folder that it touches was synced by a call that began after
the change was done, and has ended; a file's content once the file was. Whatever else a file system
writes back by itself isn't counted on. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Node:
    """A file or a folder, under whatever name."""

    name: str
    parent: Node | None
    is_folder: bool
    entries: dict[str, Node] = field(default_factory=dict)
    content: bytes = b""
    """All that was ever written to it, in order."""
    unsynced: bool = False
    """Whether there is content that no sync has covered."""
    last_change: int = 0
    """The number of the last change of this node's name."""

    @property
    def path(self) -> str:
        """From the root, also of what is gone: where it was."""
        if self.parent is None or self.parent.parent is None:
            return self.name
        return f"{self.parent.path}/{self.name}"

    def above(self) -> Iterator[Node]:
        """Itself and the folders that it lies in, but for the root."""
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    def inside(self) -> Iterator[Node]:
        """Itself and all that lies in it."""
        yield self
        for entry in self.entries.values():
            yield from entry.inside()


@dataclass(slots=True, eq=False)
class Change:
    """A name that went from one place to another; from "", if it was made, to "", if it was removed."""

    number: int
    line: int
    node: Node
    source: str
    target: str
    waits_for: set[Node]
    """The folders that must be synced yet."""
    left: Node | None = None
    """The folder that a move led out of."""
    excused: bool = False
    """Whether no answer has to wait for it."""

    def __str__(self) -> str:
        if not self.source:
            what = f"{self.target} was made"
        elif not self.target:
            what = f"{self.source} was removed"
        else:
            what = f"{self.source} was moved to {self.target}"
        return f"{what} in line {self.line}"


@dataclass(slots=True)
class Sync:
    """A sync that has begun: what it covers if it succeeds."""

    changes: list[Change]
    files: dict[Node, int]
    """With how much of each was written by then."""
    folder: Node | None
    """None: the whole file system."""


class Shadow:
    def __init__(self) -> None:
        self.root = Node("", None, True)
        self.pending: list[Change] = []
        """What isn't durable, in order."""
        self._unsynced: set[Node] = set()
        self.changes = 0

    def find(self, path: str) -> Node | None:
        node = self.root
        for name in path.split("/"):
            if name in ("", "."):
                continue
            found = node.entries.get(name)
            if found is None:
                return None
            node = found
        return node

    # Changes.

    def make(self, path: str, line: int, *, is_folder: bool) -> Node:
        parent, name = self._place(path)
        node = Node(name, parent, is_folder)
        parent.entries[name] = node
        self._change(line, node, "", path, {parent})
        return node

    def write(self, node: Node, content: bytes) -> None:
        node.content += content
        node.unsynced = True
        self._unsynced.add(node)

    def rename(self, source: str, target: str, line: int) -> Change:
        node = self.find(source)
        assert node is not None, f"line {line}: {source} was never made"
        assert node.parent is not None
        left, (into, name) = node.parent, self._place(target)
        del left.entries[node.name]
        node.parent, node.name = into, name
        into.entries[name] = node
        return self._change(line, node, source, target, {left, into}, left)

    def remove(self, path: str, line: int) -> Change:
        node = self.find(path)
        assert node is not None, f"line {line}: {path} was never made"
        assert node.parent is not None
        del node.parent.entries[node.name]
        self._unsynced.discard(node)
        node.unsynced = False
        return self._change(line, node, path, "", {node.parent})

    # Syncs.

    def begin_sync(self, path: str | None) -> Sync:
        """Of a file, of a folder, or with None of everything."""
        node = None if path is None else self.find(path)
        if path is None:
            return Sync(list(self.pending), {file: len(file.content) for file in self._unsynced}, None)
        if node is None:
            return Sync([], {}, None)  # Gone meanwhile.
        if not node.is_folder:
            return Sync([], {node: len(node.content)}, node)
        return Sync([change for change in self.pending if node in change.waits_for], {}, node)

    def end_sync(self, sync: Sync) -> None:
        """It has succeeded."""
        for change in sync.changes:
            if sync.folder is None:
                change.waits_for.clear()
            else:
                change.waits_for.discard(sync.folder)
        self.pending = [change for change in self.pending if change.waits_for]
        for file, length in sync.files.items():
            if len(file.content) == length:
                file.unsynced = False
                self._unsynced.discard(file)

    # What isn't durable.

    def pending_of(self, node: Node) -> list[Change]:
        """The changes on which the place of `node` depends."""
        nodes = set(node.above())
        return [change for change in self.pending if change.node in nodes]

    def doubts_about(self, node: Node) -> list[str]:
        """Why a power cut could take `node`, or something in it, from where it is."""
        nodes = {*node.above(), *node.inside()}
        doubts = [str(change) for change in self.pending if change.node in nodes]
        return doubts + [f"{file.path} isn't synced" for file in node.inside() if file.unsynced]

    @property
    def unsynced_files(self) -> list[Node]:
        return sorted(self._unsynced, key=lambda node: node.path)

    def _change(
        self,
        line: int,
        node: Node,
        source: str,
        target: str,
        folders: set[Node],
        left: Node | None = None,
    ) -> Change:
        self.changes += 1
        node.last_change = self.changes
        change = Change(self.changes, line, node, source, target, folders, left)
        self.pending.append(change)
        return change

    def _place(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        parent = self.find(folder)
        assert parent is not None, f"{folder} was never made"
        return parent, name
