"""A disk that can lose power.

It answers like `MemoryDisk` and remembers, of every change, what was synced since. `cut_power` gives
the disk that might be found afterwards. Nothing that a sync has covered is lost; of the rest:

- a file that wasn't synced holds any beginning of its content, or zeros;
- names survive as the file system's journal has them. ORDERED: a prefix of the changes, as with one
  journal for all (ext4, XFS). ANY_SUBSET: any of the changes, each whole, whatever came before it, as a
  file system may do that promises no more than fsync(2) does. A rename is one change, and durable when
  both its folders are.

A file that two surviving changes name has two names; a folder has one at most, the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from memory_disk import File, Folder, MemoryDisk, Node


class Model(Enum):
    ORDERED = "ordered"
    ANY_SUBSET = "any subset"


@dataclass(slots=True, eq=False)
class Change:
    """A name that went from one place to another; from nowhere, if made, to nowhere, if removed."""

    node: Node
    source: tuple[Folder, str] | None
    target: tuple[Folder, str] | None
    waits_for: set[Folder]
    """The folders that must be synced yet."""


class PowerDisk(MemoryDisk):
    """Not thread-safe."""

    def __init__(self, *, can_sync_all: bool = True, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=can_sync_all)
        self._model = model
        self._durable: dict[Folder, dict[str, Node]] = {self.root: {}}
        """The names that no power cut can take, but for the changes below."""
        self._changes: list[Change] = []
        self._unsynced: set[File] = set()

    # Disk.

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        parent, name = self._parent(path)
        self._change(parent.entries[name], None, (parent, name))

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        super().create(path, parts, sync=sync)
        parent, name = self._parent(path)
        file = parent.entries[name]
        assert isinstance(file, File)
        if not sync:
            self._unsynced.add(file)
        self._change(file, None, (parent, name))

    def rename(self, source: str, target: str) -> None:
        place, new_place = self._parent(source), self._parent(target)
        super().rename(source, target)
        self._change(new_place[0].entries[new_place[1]], place, new_place)

    def unlink(self, path: str) -> None:
        place = self._parent(path)
        node = place[0].entries.get(place[1])
        super().unlink(path)
        assert node is not None
        self._change(node, place, None)

    def remove_folder(self, path: str) -> None:
        place = self._parent(path)
        node = place[0].entries.get(place[1])
        super().remove_folder(path)
        assert node is not None
        self._change(node, place, None)

    def sync_file(self, path: str) -> None:
        file = self.node(path)
        assert isinstance(file, File)
        self._unsynced.discard(file)

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        covered = [change for change in self._changes if folder in change.waits_for]
        for change in covered:
            change.waits_for.discard(folder)
        if self._model is Model.ORDERED and covered:
            # One journal: what came before is on disk as well.
            last = self._changes.index(covered[-1])
            for change in self._changes[: last + 1]:
                change.waits_for.clear()
        self._compact()

    def sync_all(self) -> None:
        super().sync_all()
        self._unsynced.clear()
        for change in self._changes:
            change.waits_for.clear()
        self._compact()

    # The cut.

    @property
    def unsynced_changes(self) -> int:
        return len(self._changes)

    def cut_power(self, random: Random) -> PowerDisk:
        """The disk that is found at the next start; all of it is durable."""
        names = {folder: dict(entries) for folder, entries in self._durable.items()}
        for change in self._surviving(random):
            _replay(change, names)
        found = PowerDisk(can_sync_all=self.can_sync_all, model=self._model)
        found.root = self._rebuilt(self.root, names, {}, random)
        found._durable = {}
        found._take_as_durable(found.root)
        return found

    def kill(self) -> PowerDisk:
        """The same disk for another process: what the dead one did is there, synced or not."""
        return self

    def _surviving(self, random: Random) -> list[Change]:
        pending = [change for change in self._changes if change.waits_for]
        if self._model is Model.ORDERED:
            keep = random.randint(0, len(pending))
            kept = set(map(id, pending[:keep]))
        else:
            share = random.choice((0.0, 0.5, 0.5, 0.9, 1.0))
            kept = {id(change) for change in pending if random.random() < share}
        return [change for change in self._changes if not change.waits_for or id(change) in kept]

    def _rebuilt(
        self,
        folder: Folder,
        names: dict[Folder, dict[str, Node]],
        done: dict[Node, Node],
        random: Random,
    ) -> Folder:
        copy = Folder()
        for name, node in names.get(folder, {}).items():
            if isinstance(node, Folder):
                copy.entries[name] = self._rebuilt(node, names, done, random)
            elif isinstance(node, File):
                if node not in done:
                    done[node] = File(self._survivor(node, random), node.changed)
                else:
                    linked = done[node]
                    assert isinstance(linked, File)
                    linked.links += 1
                copy.entries[name] = done[node]
            else:
                copy.entries[name] = node
        return copy

    def _survivor(self, file: File, random: Random) -> bytes:
        content = file.content
        if file not in self._unsynced or not content:
            return content
        match random.randrange(4):
            case 0:
                return b""
            case 1:
                return content[: random.randrange(len(content))]
            case 2:
                return bytes(len(content))
            case _:
                return content

    def _take_as_durable(self, folder: Folder) -> None:
        self._durable[folder] = dict(folder.entries)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._take_as_durable(node)

    def _change(
        self,
        node: Node,
        source: tuple[Folder, str] | None,
        target: tuple[Folder, str] | None,
    ) -> None:
        folders = {place[0] for place in (source, target) if place is not None}
        self._changes.append(Change(node, source, target, folders))

    def _compact(self) -> None:
        """What is durable up to the first change that isn't can't be lost any more."""
        done = 0
        for change in self._changes:
            if change.waits_for:
                break
            _replay(change, self._durable)
            done += 1
        del self._changes[:done]


def _replay(change: Change, names: dict[Folder, dict[str, Node]]) -> None:
    node = change.node
    if isinstance(node, Folder):
        names.setdefault(node, {})
        for entries in names.values():
            for name in [name for name, there in entries.items() if there is node]:
                del entries[name]
    elif change.source is not None:
        folder, name = change.source
        entries = names.setdefault(folder, {})
        if entries.get(name) is node:
            del entries[name]
    if change.target is not None:
        folder, name = change.target
        names.setdefault(folder, {})[name] = node
