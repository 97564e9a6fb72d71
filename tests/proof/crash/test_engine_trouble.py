"""The engine goes on when the disk refuses calls: each answer is right, nothing is lost, and the index
is what the folders are."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.sharing import Sharing

from tests.proof.crash.planted import Bug, expect_broken
from tests.proof.crash.troubled_story import TroubledStory
from tests.support.engine_story import seeds_of_run
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(5)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_request_that_the_disk_refuses_has_no_effect_and_stops_no_other(
    model: Model, processes: int
) -> None:
    refused = 0
    for seed in SEEDS:
        story = TroubledStory(seed, model, processes=processes, cache_bytes=10_000 * (seed % 2))
        story.has_hands = seed % 2 == 1
        story.run(100)
        refused += story.refused
    assert refused > len(SEEDS)


# Each condition is needed.


PLANTED: Final[dict[str, Bug]] = {
    "a refused move that other processes take for made": Bug(Moves, "_give_up", lambda self: None),
    "a name listed and replayed taken for two": Bug(
        recovery,
        "appear",
        lambda moves, name: moves.index.appear(
            name,
            moves.commit,
            due=0
            if name.due is None
            else moves.clock.monotonic() + max(0, name.due - moves.clock.wall()),
        ),
        first=307,
    ),
    "a lease delivered that was not handed out": Bug(
        Engine, "_leave_unpublished", lambda self, outcomes, refused: None, first=33
    ),
    "a move in doubt marked as made, as the lock can't be kept": Bug(
        Sharing, "_release", lambda self: (self._changes.finish(), _release(self)), first=307
    ),
}
_release = Sharing._release


MOST_STORIES: Final = 400


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed_on_a_disk_that_refuses(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(seed: int, model: Model) -> TroubledStory:
        return TroubledStory(seed, model, processes=1 + seed % 2)

    expect_broken(monkeypatch, PLANTED[planted], of, MOST_STORIES)
