"""A snapshot that is taken between any two steps is a root in which nothing is missing that was
answered, and nothing is back that was deleted; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from spoolrack_store import snapshot
from spoolrack_store.engine import recovery
from spoolrack_store.files import layout
from spoolrack_store.files.changes import Changes
from spoolrack_store.files.disk import Lock
from spoolrack_store.files.removed import RemovedFiles

from tests.proof.crash.snapshot_story import SnapshotStory
from tests.support.engine_story import Broken, seeds_from, seeds_of_run, tell
from tests.support.power_disk import Model, PowerDisk

SEEDS: Final = seeds_of_run(8)


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_snapshot_between_any_two_steps_is_a_consistent_root(model: Model, processes: int) -> None:
    def of(seed: int, model: Model) -> SnapshotStory:
        can_sync_all = processes > 1 or seed % 2 == 0
        return SnapshotStory(seed, model, can_sync_all=can_sync_all, processes=processes)

    assert tell(of, SEEDS, model).least("taken", "meanwhile", "crashes") > len(SEEDS)


def _links_without_the_lock(patched: pytest.MonkeyPatch) -> None:
    """Let commits go on while names are linked: one that moves behind the reading is missed."""
    honest = Changes.hold

    def hold(self: Changes, now: int) -> None:
        honest(self, now)
        released[0].release()

    released: list[Lock] = []
    link_root = snapshot.link_root

    def released_at_once(links: object, memory: object, lock: Lock, clock: object) -> object:
        released[:] = [lock]
        patched.setattr(Changes, "hold", hold)
        try:
            return link_root(links, memory, lock, clock)  # type: ignore[arg-type]
        finally:
            patched.setattr(Changes, "hold", honest)

    patched.setattr(snapshot, "link_root", released_at_once)


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
    "the archive is read first": _archive_first,
    "bodies are read after the archive": _bodies_after_the_archive,
    "bodies of the archived are unlinked": _unlinks_bodies_of_the_archived,
    "days are not durable": _makes_days_undurable,
    **{
        f"{folder} is left out": _without(folder)
        for folder in ("new", "delay", "remove", "archive", "bodies")
    },
}
MOST_STORIES: Final = 400
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
    for seed in seeds_from(first, MOST_STORIES):
        for can_sync_all in (True, False):
            processes = 3 if seed % 4 == 3 and can_sync_all else 1
            story = SnapshotStory(
                seed, Model.ANY_SUBSET, processes=processes, can_sync_all=can_sync_all
            )
            story.run(120)
