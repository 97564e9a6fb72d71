"""Stories in which snapshots are taken: folder by folder and name by name, between the steps that
processes do without the lock.

The snapshot is then a root of its own: a process starts on it, and finds each message as it was at that
instant. Of each message that is kept, the body is there.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from spoolrack_store import snapshot
from spoolrack_store.files.changes import LOCK
from spoolrack_store.files.disk import FileKind
from spoolrack_store.files.layout import ARCHIVE, BODIES, BODY
from spoolrack_store.model.names import parse

from tests.proof.crash.body_story import BodyStory
from tests.support.engine_story import SETTINGS, Broken
from tests.support.linked_disk import LinkedDisk, Memory, reap
from tests.support.memory_disk import File, Folder
from tests.support.power_disk import Model


class SnapshotStory(BodyStory):
    """A twelfth of the steps are snapshots, and more while reapers have something to move."""

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.snapshots = Random(seed + 6)
        """When one is taken, and what happens meanwhile."""
        self.taken = self.meanwhile = 0
        """Snapshots, and steps of processes while they were taken."""
        super().__init__(seed, model, **rest)

    def _step(self) -> None:
        is_reaping = any(engine.moves.removed_files._paths for engine in self.engines.values())
        if self.snapshots.random() < (1 / 2 if is_reaping else 1 / 12):
            self._take_snapshot()
        super()._step()

    def _take_snapshot(self) -> None:
        self.told.append("a snapshot is taken")
        lock = self.disk.lock(LOCK)
        assert lock is not None, "a process holds the lock between two steps"
        links = _Links(self)
        kept = self._archived(self.disk)
        snapshot.link_root(links, Memory(self.disk), lock, self.clock)
        self.taken += 1
        self._restored(links.made)._check_restored(kept)
        self.told.append("the snapshot is whole")

    def advance(self) -> None:
        """Do a step while a snapshot is taken, as far as other processes can."""
        owner = self.snapshots.choice(list(self.engines))
        lock = self.disk.lock(LOCK)
        if lock is not None:
            lock.release()
            self.told.append("while a snapshot is taken:")
            self._commit(owner)
        before = self.engines[owner].moves.removed_files.unlinked
        reap(self.engines[owner], self.snapshots.randint(1, 3))
        self.meanwhile += self.engines[owner].moves.removed_files.unlinked - before

    def _restored(self, disk: LinkedDisk) -> SnapshotStory:
        """Return this story as it goes on on the snapshot."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set | Random):
                setattr(other, name, copy(value))
        other.may = {id: [*history] for id, history in self.may.items()}
        other.disk = disk
        other.engines, other.flying, other.coming = {}, {}, {}
        return other

    def _check_restored(self, kept: set[str]) -> None:
        lost = kept - self._archived(self.disk)
        if lost:
            raise Broken(f"the archive of the snapshot lacks {sorted(lost)}")
        self._check_bodies()
        self.start_deaths = 0.0
        self._start()
        (engine,) = self.engines.values()
        self.at += 1
        self._bring_back()
        work = engine.apply([], tick=True)
        assert work is not None
        self._check(engine)
        self._adopt({})
        self._check_counts(engine)

    def _check_bodies(self) -> None:
        """Hold what is kept to the bodies: each is in its place or in the archive."""
        bodies = {each.name for each in self.disk.scan(BODIES)}
        files = _files_of(self.disk, ARCHIVE)
        bodies |= {path.rpartition("/")[2][:36] for path in files if path.endswith(BODY)}
        names = [parse(f"queues/q/{path.rpartition('/')[2]}") for path in files if BODY not in path]
        for name in [*names, *map(parse, self._paths())]:
            is_kept = name in names or SETTINGS[name.queue].archive_retention
            if name.stem.is_external and is_kept and name.stem.id not in bodies:
                raise Broken(f"{name.stem.id} has lost its body")

    @staticmethod
    def _archived(disk: LinkedDisk) -> set[str]:
        """Return the files that are in the archive, or on their way there."""
        archived = {path.rpartition("/")[2] for path in _files_of(disk, ARCHIVE)}
        there = {parse(f"queues/q/{each}").stem.text for each in archived if not each.endswith(BODY)}
        coming = map(parse, _files_of(disk, "remove"))
        return there | {name.stem.text for name in coming if SETTINGS[name.queue].archive_retention}


@dataclass
class _Links:
    """The snapshot that is made, in memory."""

    story: SnapshotStory
    made: LinkedDisk = field(init=False)

    def __post_init__(self) -> None:
        self.made = LinkedDisk(model=self.story.disk.model, can_sync_all=self.story.disk.can_sync_all)
        for path in ("FORMAT", LOCK):
            self.made.create(path, [b"spoolrack 3\n"], sync=True)
        self.files: dict[int, File] = {}
        self.pace = self.story.snapshots.choice((0.05, 0.15, 0.4))
        """How probable it is that something happens before a folder or a name."""

    def make(self, folder: str) -> None:
        self.made.make_folder(folder)

    def add(self, folder: str, takes: Callable[[str], bool] | None = None) -> int:
        if self.story.snapshots.random() < self.pace:
            self.story.advance()
        self.make(folder)
        into = self.made.node(folder)
        assert isinstance(into, Folder)
        linked = 0
        for found in self.story.disk.scan(folder):
            path = f"{folder}/{found.name}"
            if found.kind is FileKind.FOLDER:
                linked += self.add(path)
                continue
            if takes is not None and not takes(found.name):
                continue
            if self.story.snapshots.random() < self.pace:
                self.story.advance()
            try:
                file = self.story.disk.node(path)
            except FileNotFoundError:
                continue
            assert isinstance(file, File)
            twin = self.files.setdefault(id(file), File(file.content, file.changed, 0))
            twin.links += 1
            into.entries[found.name] = twin
            linked += 1
        if "/" not in folder:
            self.made._take_as_durable(self.made.root)
            self.made._changes.clear()
        return linked


def _files_of(disk: LinkedDisk, folder: str) -> list[str]:
    """Return the paths of all files below a folder."""
    found: list[str] = []
    for each in disk.scan(folder):
        path = f"{folder}/{each.name}"
        found += _files_of(disk, path) if each.kind is FileKind.FOLDER else [path]
    return found
