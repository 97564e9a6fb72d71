"""A disk that can lose power.

It answers like `MemoryDisk` and remembers, of every change, what was synced since. `cut` gives the disk
that might be found afterwards. Nothing that a sync has covered is lost; of the rest:

- a file that wasn't synced holds any beginning of its content, or zeros;
- of a file that was durable and is overwritten in place, each sector is the old one or the new one;
- a file that was cut off may have its end again, whatever survives of its names;
- names survive as the file system's journal has them. ORDERED: a prefix of the changes, as with one
  journal for all (ext4, XFS). ANY_SUBSET: any of the changes, each whole, whatever came before it, as a
  file system may do that promises no more than fsync(2) does. A rename is one change, and durable when
  both its folders are.

A file that two surviving changes name has two names; a folder has one at most, the last. Which of the
changes survive, and what is in the files, is said by a `Cut`: see there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, repeat

from spoolrack_store.files.layout import RESERVE

from tests.support.cuts import Bytes, Cut, Model
from tests.support.memory_disk import File, Folder, MemoryDisk, Node

__all__ = ["Model", "PowerDisk"]


@dataclass(slots=True, eq=False)
class Change:
    """A name that went from one place to another; from nowhere, if made, to nowhere, if removed. Or an
    end that was cut off: `longer` is the content before."""

    node: Node
    source: tuple[Folder, str] | None
    target: tuple[Folder, str] | None
    waits_for: set[Node]
    """The folders, or the file, that must be synced yet."""
    longer: bytes | None = None


class PowerDisk(MemoryDisk):
    """Not thread-safe."""

    def __init__(self, *, can_sync_all: bool = True, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=can_sync_all)
        self.model = model
        self._durable: dict[Folder, dict[str, Node]] = {self.root: {}}
        """The names that no power cut can take, but for the changes below."""
        self._changes: list[Change] = []
        self._unsynced: dict[File, None] = {}
        self._overwritten: dict[File, bytes] = {}
        """Files that were durable, and what was in them before they were overwritten."""
        self._given_up: dict[File, None] = {}
        """Files whose sync failed: their pages count as clean, and no later sync writes them."""
        self.losses = 0
        """Files that a sync has failed to write, ever."""

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
            self._unsynced[file] = None
        self._change(file, None, (parent, name))

    def overwrite(self, file: File, offset: int, content: bytes) -> None:
        if file not in self._unsynced:
            self._overwritten.setdefault(file, file.content)
        super().overwrite(file, offset, content)

    def sync_data(self, file: File) -> None:
        self._unsynced.pop(file, None)
        self._overwritten.pop(file, None)
        for change in self._changes:
            change.waits_for.discard(file)
        self._compact()

    def truncate(self, file: File, size: int) -> None:
        longer = file.content
        super().truncate(file, size)
        self._changes.append(Change(file, None, None, {file}, longer))

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        super().write_at(path, offset, content)
        node = self.node(path)
        assert isinstance(node, File)
        self._unsynced[node] = None

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        node = self.node(path)
        if afresh and isinstance(node, File) and node in self._given_up:
            # Its pages count as clean: a read from the disk takes their place.
            node.content = b""
            del self._given_up[node]
        return super().read(path, limit)

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
        self.sync_data(file)

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        covered = [change for change in self._changes if folder in change.waits_for]
        for change in covered:
            change.waits_for.discard(folder)
        if self.model is Model.ORDERED and covered:
            # One journal: earlier changes are on disk as well.
            last = self._changes.index(covered[-1])
            for change in self._changes[: last + 1]:
                change.waits_for.clear()
        self._compact()

    def sync_all(self) -> None:
        super().sync_all()
        self._unsynced.clear()
        self._overwritten.clear()
        for change in self._changes:
            change.waits_for.clear()
        self._compact()

    def set_aside(self, path: str, size: int) -> None:
        """Make a file whose loss is no harm: nothing is noted, and a power cut takes it."""
        parent, name = self._parent(path)
        parent.entries[name] = File(_zeros(size))

    # Effects of a fault.

    def give_up(self, path: str | None) -> None:
        """Fail a sync of the file at `path`, or of everything: its data is never written any more,
        though a read finds it until the power is cut."""
        given = [*self._unsynced, *self._overwritten]
        if path is not None:
            node = self.node(path)
            given = [file for file in given if file is node]
        for file in given:
            self._unsynced.pop(file, None)
            self._overwritten.pop(file, None)
            self._given_up[file] = None
            self.losses += 1

    # The cut.

    @property
    def pending(self) -> int:
        """So many changes of names may be lost."""
        return sum(1 for change in self._changes if change.waits_for)

    @property
    def unsynced_files(self) -> int:
        """So many files may not hold what was written."""
        return len(self._unsynced) + len(self._overwritten) + len(self._given_up)

    def cut(self, cut: Cut) -> PowerDisk:
        """Return the disk that is found at the next start; all of it is durable."""
        kept = cut.kept(self.pending, self.model)
        numbers = count()
        names = {folder: dict(entries) for folder, entries in self._durable.items()}
        longer: dict[File, bytes] = {}
        for change in self._changes:
            if not change.waits_for or next(numbers) in kept:
                _replay(change, names)
            elif change.longer is not None:
                assert isinstance(change.node, File)
                longer.setdefault(change.node, change.longer)
        files = list(chain(self._unsynced, self._overwritten, self._given_up))
        kinds = zip(files, chain(cut.contents(len(files)), repeat(Bytes.WHOLE)), strict=False)
        contents = dict(longer)
        for file, kind in kinds:
            new = longer.get(file, file.content)
            old = self._overwritten.get(file)
            contents[file] = kind.of(new) if old is None else kind.over(old, new)
        found = type(self)(can_sync_all=self.can_sync_all, model=self.model)
        found.room, found.overwrites = self.room, self.overwrites
        found.root = _rebuilt(self.root, names, {}, contents)
        found._durable = {}
        found._take_as_durable(found.root)
        return found

    def copy(self) -> PowerDisk:
        """Return the same disk once more, with all that isn't durable yet, and without locks."""
        nodes: dict[Node, Node] = {}
        other = type(self)(can_sync_all=self.can_sync_all, model=self.model)
        other.room, other.losses = self.room, self.losses
        other.overwrites = self.overwrites
        other.root = _copied_folder(self.root, nodes)
        other._ticks = count(next(self._ticks))
        other._durable = {
            _copied_folder_only(folder, nodes): {
                name: _copied(node, nodes) for name, node in entries.items()
            }
            for folder, entries in self._durable.items()
        }
        other._changes = [
            Change(
                _copied(change.node, nodes),
                _copied_place(change.source, nodes),
                _copied_place(change.target, nodes),
                {_copied_place_only(place, nodes) for place in change.waits_for},
                change.longer,
            )
            for change in self._changes
        ]
        for file, old in self._overwritten.items():
            twin = _copied(file, nodes)
            assert isinstance(twin, File)
            other._overwritten[twin] = old
        for mine, others in ((self._unsynced, other._unsynced), (self._given_up, other._given_up)):
            for file in mine:
                twin = _copied(file, nodes)
                assert isinstance(twin, File)
                others[twin] = None
        return other

    def signature(self) -> tuple[object, ...]:
        """Equal for two disks that a start can't tell apart."""
        seen: dict[Node, int] = {}

        def of(folder: Folder) -> tuple[object, ...]:
            parts: list[object] = []
            for name, node in sorted(folder.entries.items()):
                if isinstance(node, Folder):
                    parts.append((name, of(node)))
                elif isinstance(node, File) and name != RESERVE:
                    parts.append((name, node.content, seen.setdefault(node, len(seen))))
                else:
                    parts.append(name)
            return tuple(parts)

        return of(self.root)

    def _take_as_durable(self, folder: Folder) -> None:
        self._durable[folder] = dict(folder.entries)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._take_as_durable(node)

    def _change(
        self, node: Node, source: tuple[Folder, str] | None, target: tuple[Folder, str] | None
    ) -> None:
        folders: set[Node] = {place[0] for place in (source, target) if place is not None}
        self._changes.append(Change(node, source, target, folders))

    def _compact(self) -> None:
        """Drop the changes before the first undurable one: they can't be lost any more."""
        done = 0
        for change in self._changes:
            if change.waits_for:
                break
            _replay(change, self._durable)
            done += 1
        del self._changes[:done]


@lru_cache(64)
def _zeros(size: int) -> bytes:
    return bytes(size)


def _rebuilt(
    folder: Folder,
    names: dict[Folder, dict[str, Node]],
    done: dict[Node, File],
    contents: dict[File, bytes],
) -> Folder:
    copy = Folder()
    for name, node in names.get(folder, {}).items():
        if isinstance(node, Folder):
            copy.entries[name] = _rebuilt(node, names, done, contents)
        elif isinstance(node, File):
            if node in done:
                done[node].links += 1
            else:
                done[node] = File(contents.get(node, node.content), node.changed)
            copy.entries[name] = done[node]
        else:
            copy.entries[name] = node
    return copy


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


def _copied(node: Node, nodes: dict[Node, Node]) -> Node:
    if node not in nodes:
        if isinstance(node, Folder):
            return _copied_folder(node, nodes)
        nodes[node] = File(node.content, node.changed, node.links) if isinstance(node, File) else node
    return nodes[node]


def _copied_folder(folder: Folder, nodes: dict[Node, Node]) -> Folder:
    copy = _copied_folder_only(folder, nodes)
    copy.changed = folder.changed
    copy.entries = {name: _copied(node, nodes) for name, node in folder.entries.items()}
    return copy


def _copied_folder_only(folder: Folder, nodes: dict[Node, Node]) -> Folder:
    copy = nodes.setdefault(folder, Folder())
    assert isinstance(copy, Folder)
    return copy


def _copied_place_only(node: Node, nodes: dict[Node, Node]) -> Node:
    return _copied_folder_only(node, nodes) if isinstance(node, Folder) else _copied(node, nodes)


def _copied_place(
    place: tuple[Folder, str] | None, nodes: dict[Node, Node]
) -> tuple[Folder, str] | None:
    return None if place is None else (_copied_folder_only(place[0], nodes), place[1])
