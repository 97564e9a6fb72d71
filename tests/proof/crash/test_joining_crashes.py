"""A process that lists the root beside others knows exactly what is there, whatever they move
meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.files import changes
from spoolrack_store.files.changes import LOCK
from spoolrack_store.files.disk import FolderEntry

from tests.proof.crash.stories import Run, runs
from tests.support.engine_story import Broken, Seen, Story, tell
from tests.support.linked_disk import LinkedDisk
from tests.support.power_disk import Model


class SeenDisk(LinkedDisk):
    """A disk on which others move names between any two listings of a folder."""

    def __init__(self, *, can_sync_all: bool = True, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=can_sync_all, model=model)
        self.between: Callable[[], None] = lambda: None

    def scan(self, path: str) -> list[FolderEntry]:
        self.between()
        found = super().scan(path)
        self.between()
        return found


class JoiningStory(Story):
    disk_kind = SeenDisk

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.visits = Random(seed + 5)
        """When other processes commit between two listings."""
        self.visited = 0
        self.is_still = False
        """Whether the listing at hand is none of the process that may let others commit."""
        super().__init__(seed, model, plot=(0.03, 0.03), **rest)

    def _start(self) -> None:
        assert isinstance(self.disk, SeenDisk)
        self.disk.between = self._others_commit
        super()._start()
        self._check([*self.engines.values()][-1])

    def _look(self, owner: str) -> None:
        self.guest = owner
        super()._look(owner)
        self.guest = ""

    def _bury(self, owner: str, maybe: dict[str, list[Seen]]) -> None:
        self.guest = ""
        super()._bury(owner, maybe)

    def _others_commit(self) -> None:
        """Let other processes commit, if one is listing without the lock."""
        others = [owner for owner in self.engines if owner != self.guest]
        if not self.guest or not others or self.is_still:
            return
        self.is_still = True
        left, self.disk.steps_left = self.disk.steps_left, None
        lock = self.disk.lock(LOCK)
        if lock is not None:
            lock.release()
            while self.visits.random() < 0.6:
                owner = self.visits.choice(others)
                self.visited += 1
                if self.flying[owner] and (self.visits.random() < 0.5 or len(self.flying[owner]) > 1):
                    self._sync(owner)
                else:
                    self._commit(owner)
        self.disk.steps_left, self.is_still = left, False

    def _check(self, engine: Engine) -> None:
        was, self.is_still = self.is_still, True
        super()._check(engine)
        self.is_still = was


@pytest.fixture(autouse=True)
def a_log_that_is_followed_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "FOLLOWED", 3)


@runs((3, True))
@pytest.mark.parametrize("ring", [changes.RING, 4_000, 1_600])
def test_a_process_that_joins_beside_others_knows_what_they_moved(
    ring: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "RING", ring)
    assert run.tell(JoiningStory, 3, steps=100)["visited"]


def _noted_after_the_listing(self: Sharing) -> None:
    _list(self)
    self._changes.read_header()
    self._changes.skip()


_list = Sharing._list


def test_the_head_of_the_log_is_noted_before_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sharing, "_list", _noted_after_the_listing)
    with pytest.raises(Broken):
        tell(JoiningStory, range(200), Model.ANY_SUBSET, steps=100, processes=3)
