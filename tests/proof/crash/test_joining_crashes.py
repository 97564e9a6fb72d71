"""A process that lists the root beside others knows exactly what is there, whatever they move
meanwhile."""

from __future__ import annotations

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.files import changes

from tests.proof.crash.joining_story import JoiningStory
from tests.support.engine_story import Broken, seeds_of_run, tell
from tests.support.power_disk import Model

MOST_STORIES = 200


@pytest.fixture(autouse=True)
def a_log_that_is_followed_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "FOLLOWED", 3)


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("ring", [changes.RING, 4_000, 1_600])
def test_a_process_that_joins_beside_others_knows_what_they_moved(
    ring: int, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "RING", ring)
    assert tell(JoiningStory, seeds_of_run(8), model, steps=100, processes=3)["visited"]


def _noted_after_the_listing(self: Sharing) -> None:
    _list(self)
    self._changes.read_header()
    self._changes.skip()


_list = Sharing._list


def test_the_head_of_the_log_is_noted_before_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sharing, "_list", _noted_after_the_listing)
    with pytest.raises(Broken):
        tell(JoiningStory, range(MOST_STORIES), Model.ANY_SUBSET, steps=100, processes=3)
