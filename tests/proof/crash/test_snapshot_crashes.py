"""A snapshot that is taken between any two steps is a root in which nothing is missing that was
answered, and nothing is back that was deleted; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from spoolrack_store import snapshot
from spoolrack_store.engine import recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files import layout
from spoolrack_store.files.changes import LOCK, Changes
from spoolrack_store.files.disk import FileKind, Lock
from spoolrack_store.files.layout import ARCHIVE, BODIES, BODY
from spoolrack_store.files.removed import RemovedFiles
from spoolrack_store.files.spares import messages_in_spares
from spoolrack_store.model.names import parse

from tests.proof.crash.stories import ALONE_AND_SHARED, Run
from tests.proof.crash.test_body_crashes import BodyStory
from tests.support.engine_story import SETTINGS, Broken, seeds_from
from tests.support.linked_disk import LinkedDisk, Memory, reap
from tests.support.memory_disk import File, Folder
from tests.support.power_disk import Model, PowerDisk


class SnapshotStory(BodyStory):
    """A twelfth of the steps are snapshots, and more while reapers have something to move."""

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.snapshots = Random(seed + 6)
        """When one is taken, and what happens meanwhile."""
        self.taken = self.meanwhile = 0
        """Snapshots, and steps of processes while they were taken."""
        super().__init__(seed, model, **rest)

    def _prepare(self, engine: Engine) -> None:
        super()._prepare(engine)
        # A start publishes with one commit all that the dead had sent, which is much after a snapshot.
        engine.moves.effort.files = 10_000

    def _step(self) -> None:
        is_reaping = any(engine.moves.removed_files._paths for engine in self.engines.values())
        if self.snapshots.random() < (1 / 2 if is_reaping else 1 / 12):
            self._take_snapshot()
        super()._step()

    def _take_snapshot(self) -> None:
        self.told.append("a snapshot is taken")
        links = _Links(self)
        kept = self._archived(self.disk)
        in_spares = partial(messages_in_spares, self.disk)
        snapshot.link_root(links, self._stop_commits, self.clock, in_spares)
        self.taken += 1
        self._restored(links.made)._check_restored(kept)
        self.told.append("the snapshot is whole")

    def _stop_commits(self) -> tuple[Lock, Memory]:
        lock = self.disk.lock(LOCK)
        assert lock is not None, "a process holds the lock between two steps"
        return lock, Memory(self.disk)

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
    copied: int = 0
    made: LinkedDisk = field(init=False)
    drops = True
    """Whether what is gone in the root is unlinked."""

    def __post_init__(self) -> None:
        self.made = LinkedDisk(model=self.story.disk.model, can_sync_all=self.story.disk.can_sync_all)
        for path in ("FORMAT", LOCK):
            self.made.create(path, [b"spoolrack 4\n"], sync=True)
        self.files_made: dict[int, tuple[File, File]] = {}
        """Each file with its twin, by its `id`, which no other file gets as long as it is kept here."""
        self.pace = self.story.snapshots.choice((0.05, 0.15, 0.4))
        """How probable it is that something happens before a folder or a name."""

    def make(self, folder: str) -> None:
        self.made.make_folder(folder)

    @property
    def files(self) -> int:
        return len(_files_of(self.made, "."))

    def follow(self, folder: str, takes: Callable[[str], bool] | None = None) -> int:
        if self.story.snapshots.random() < self.pace:
            self.story.advance()
        try:
            into = self.made.node(folder)
        except FileNotFoundError:
            self.make(folder)
            into = self.made.node(folder)
        assert isinstance(into, Folder)
        known, into.entries = into.entries, {}
        linked = 0
        for found in self.story.disk.scan(folder):
            path = f"{folder}/{found.name}"
            if found.kind is FileKind.FOLDER:
                if found.name in known:
                    into.entries[found.name] = known[found.name]
                with suppress(FileNotFoundError):  # A queue or a day that is removed meanwhile.
                    linked += self.follow(path)
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
            _, twin = self.files_made.setdefault(id(file), (file, File(file.content, file.changed, 0)))
            linked += known.get(found.name) is not twin
            into.entries[found.name] = twin
        if not self.drops:
            into.entries = {**known, **into.entries}
        if "/" not in folder:
            self._count_links()
            self.made._take_as_durable(self.made.root)
            self.made._changes.clear()
        return linked

    def put(self, path: str, content: bytes) -> None:
        self.made.create(path, [content], sync=True)
        self.made._take_as_durable(self.made.root)
        self.made._changes.clear()

    def _count_links(self) -> None:
        for _, twin in self.files_made.values():
            twin.links = 0
        for path in _files_of(self.made, "."):
            file = self.made.node(path)
            assert isinstance(file, File)
            file.links += 1


def _files_of(disk: LinkedDisk, folder: str) -> list[str]:
    """Return the paths of all files below a folder."""
    found: list[str] = []
    for each in disk.scan(folder):
        path = f"{folder}/{each.name}"
        found += _files_of(disk, path) if each.kind is FileKind.FOLDER else [path]
    return found


@ALONE_AND_SHARED
def test_a_snapshot_between_any_two_steps_is_a_consistent_root(run: Run) -> None:
    told = run.tell(SnapshotStory, 4)
    assert told.least("taken", "meanwhile", "crashes") > told["stories"]


def _links_without_the_lock(patched: pytest.MonkeyPatch) -> None:
    """Let commits go on while names are linked: one that moves behind the reading is missed."""
    honest = Changes.hold

    def hold(self: Changes, now: int) -> None:
        honest(self, now)
        released[0].release()

    released: list[Lock] = []
    stop_commits = SnapshotStory._stop_commits

    def stops_none(self: SnapshotStory) -> tuple[Lock, Memory]:
        lock, memory = stop_commits(self)
        released[:] = [lock]
        patched.setattr(Changes, "hold", hold)
        return lock, memory

    link_root = snapshot.link_root

    def released_at_once(*arguments: object) -> object:
        try:
            return link_root(*arguments)  # type: ignore[arg-type]
        finally:
            patched.setattr(Changes, "hold", honest)

    patched.setattr(SnapshotStory, "_stop_commits", stops_none)
    patched.setattr(snapshot, "link_root", released_at_once)


def _reads_once(patched: pytest.MonkeyPatch) -> None:
    """Miss what moves, while commits go on, from a folder that isn't read yet to one that is."""
    honest = snapshot._follow

    def follow(links: _Links, spares: list[str] | None = None) -> int:
        return 0 if _files_of(links.made, ".")[2:] else honest(links, spares)

    patched.setattr(snapshot, "_follow", follow)


def _drops_nothing(patched: pytest.MonkeyPatch) -> None:
    """Leave linked what was deleted, and reaped, since it was linked."""
    patched.setattr(_Links, "drops", False)


def _without(folder: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Leave a folder of the snapshot empty."""

    def plant(patched: pytest.MonkeyPatch) -> None:
        linked = tuple(each for each in snapshot._LINKED if each != folder)
        honest = snapshot.link_root

        def link_root(links: snapshot.RootLinks, *rest: object) -> object:
            links.make(folder)
            return honest(links, *rest)  # type: ignore[arg-type]

        patched.setattr(snapshot, "_LINKED", linked)
        patched.setattr(snapshot, "link_root", link_root)

    return plant


def _archive_first(patched: pytest.MonkeyPatch) -> None:
    """Miss what the reaper moves there meanwhile."""
    patched.setattr(snapshot, "_LINKED", (layout.ARCHIVE, *snapshot._LINKED[:-1]))


def _bodies_after_the_archive(patched: pytest.MonkeyPatch) -> None:
    """Miss a body that the reaper moves to the archive meanwhile."""
    linked = tuple(each for each in snapshot._LINKED if each != layout.BODIES)
    patched.setattr(snapshot, "_LINKED", (*linked, layout.BODIES))


def _unlinks_bodies_of_the_archived(patched: pytest.MonkeyPatch) -> None:
    """Unlink, at a start, the body that a power cut has left behind its archived message."""
    patched.setattr(recovery, "archived_files", lambda disk, ids: {})


def _makes_days_undurable(patched: pytest.MonkeyPatch) -> None:
    """Let a power cut take a day of the archive, and with it a body that was moved there."""
    honest = RemovedFiles._make_folders

    def make_folders(self: RemovedFiles, kept: str) -> bool:
        with pytest.MonkeyPatch.context() as quiet:
            quiet.setattr(PowerDisk, "sync_folder", lambda self, path: None)
            return honest(self, kept)

    patched.setattr(RemovedFiles, "_make_folders", make_folders)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "commits go on meanwhile": _links_without_the_lock,
    "names are read once": _reads_once,
    "what is gone stays linked": _drops_nothing,
    "the archive is read first": _archive_first,
    "bodies are read after the archive": _bodies_after_the_archive,
    "bodies of the archived are unlinked": _unlinks_bodies_of_the_archived,
    "days are not durable": _makes_days_undurable,
    **{
        f"{folder} is left out": _without(folder)
        for folder in ("new", "delay", "remove", "archive", "bodies")
    },
}
STARTS: Final = {
    "bodies are read after the archive": 10,
    "bodies of the archived are unlinked": 6,
    "days are not durable": 26,
}
"""The stories that found them. After a change of the engine others may: all are told, these first."""


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[planted](monkeypatch)
    with pytest.raises(Broken):
        _tell(STARTS.get(planted, 0))


def _tell(first: int) -> None:
    for seed in seeds_from(first, 400):
        for can_sync_all in (True, False):
            processes = 3 if seed % 4 == 3 and can_sync_all else 1
            story = SnapshotStory(
                seed, Model.ANY_SUBSET, processes=processes, can_sync_all=can_sync_all
            )
            story.run(120)
