"""Processes of several hosts that share a root keep their promises through power cuts and deaths at any
step."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import moves
from spoolrack_store.files.changes import Changes
from spoolrack_store.files.disk import Commit, Syncer

from tests.proof.crash.hosts_story import EveryHostsStory, HostsStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.engine_story import caching, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(15)
MOST_STORIES: Final = 400


@pytest.fixture(autouse=True)
def clocks_that_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story expects that every process ends a lease at its time."""
    monkeypatch.setattr(moves, "MARGIN", 0)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_of_several_hosts_know_what_is_there_and_lose_nothing(
    model: Model, processes: int
) -> None:
    told = tell(caching(HostsStory), SEEDS, model, processes=processes)
    assert told["crashes"] > len(SEEDS)
    assert told["replayed"] > len(SEEDS) or processes == 1


@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_all_features_on_several_hosts_keep_what_was_answered(model: Model) -> None:
    told = tell(caching(EveryHostsStory), seeds_of_run(4), model, steps=100, processes=3)
    assert told["ended"]


def _taken_over(self: Syncer) -> Commit:
    commit = Commit(self, list(self._files), list(self._dirty), self._files_unsynced)
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
    expect_broken(monkeypatch, PLANTED[planted], HostsStory, MOST_STORIES, processes=2)
