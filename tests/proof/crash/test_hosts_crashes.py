"""Processes of several hosts that share a root keep their promises through power cuts and deaths at any
step."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import context
from spoolrack_store.files.changes import Changes
from spoolrack_store.files.syncer import Barrier, Syncer

from tests.proof.crash.everything_story import EverythingStory
from tests.proof.crash.stories import Bug, Run, expect_broken, runs
from tests.proof.crash.test_engine_trouble import TroubledDisk
from tests.support.engine_story import Story, caching
from tests.support.linked_disk import LinkedDisk
from tests.support.power_disk import Model


class SharedDisk(LinkedDisk):
    """A file system that several hosts have mounted: its syncs are of single files and folders."""

    def __init__(self, *, can_sync_all: bool = False, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=False, model=model)
        self.several_hosts = True

    def drop_unwritten(self) -> None:
        """Evict a host: what it wrote and hadn't synced never leaves its memory."""
        for file in self._unsynced:
            file.content = b""


class SharedTroubledDisk(SharedDisk, TroubledDisk):
    """One that refuses calls, too."""


class HostsStory(Story):
    disk_kind = SharedDisk


class EveryHostsStory(EverythingStory):
    disk_kind = SharedTroubledDisk


@pytest.fixture(autouse=True)
def clocks_that_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story expects that every process ends a lease at its time."""
    monkeypatch.setattr(context, "MARGIN", 0)


@runs((1, False), (2, False), (3, False))
def test_processes_of_several_hosts_know_what_is_there_and_lose_nothing(run: Run) -> None:
    told = run.tell(caching(HostsStory), 6)
    assert told["crashes"] > told["stories"]
    assert told["replayed"] > told["stories"] or run.processes == 1


@runs((3, False))
def test_all_features_on_several_hosts_keep_what_was_answered(run: Run) -> None:
    told = run.tell(caching(EveryHostsStory), 2, steps=100)
    assert told["ended"]


def _taken_over(self: Syncer) -> Barrier:
    overwritten, self._overwritten = self._overwritten, []
    commit = Barrier(self, list(self._files), list(self._dirty), self._files_unsynced, overwritten)
    self._files.clear()
    self._dirty.clear()
    self._files_unsynced = self.is_in_doubt = False
    return commit


PLANTED: Final[dict[str, Bug]] = {
    "a commit that is synced after the lock is released": Bug(Syncer, "begin", _taken_over),
    "a move in doubt taken for made": Bug(Changes, "in_doubt", lambda self: self.decide(True)),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_several_hosts_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_broken(monkeypatch, PLANTED[planted], HostsStory, processes=2)
