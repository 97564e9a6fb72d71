"""Reserved sets keep their promises through power cuts, and through deaths at any step, alone and
beside other processes."""

from __future__ import annotations

from typing import Final

import pytest

from tests.proof.crash.set_story import SetStory
from tests.support.engine_story import caching, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(24)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_set_is_whole_until_it_is_lost_or_committed(model: Model, can_sync_all: bool) -> None:
    told = tell(caching(SetStory), SEEDS, model, steps=80, can_sync_all=can_sync_all)
    assert told["made"] > len(SEEDS)
    assert told.least("lost", "done") > len(SEEDS) // 10
    assert told["taken_back"]


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_reservation_of_one_process_is_ended_or_finished_by_any_other(
    model: Model, processes: int
) -> None:
    told = tell(caching(SetStory), SEEDS, model, processes=processes)
    assert told["made"] > len(SEEDS)
    assert told.least("lost", "done") > len(SEEDS) // 10
    assert told["taken_back"]


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_crash_between_two_slices_of_a_set_leaves_all_of_it_or_undoes_it(
    model: Model, processes: int
) -> None:
    def in_slices(seed: int, model: Model) -> SetStory:
        can_sync_all = processes > 1 or seed % 2 == 0
        return SetStory(
            seed, model, processes=processes, can_sync_all=can_sync_all, effort=1 + seed % 3
        )

    told = tell(in_slices, SEEDS, model)
    assert told.least("made", "slices", "cut_short") > len(SEEDS)
    assert told.least("lost", "done") > len(SEEDS) // 10
