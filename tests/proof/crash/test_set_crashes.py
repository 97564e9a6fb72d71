"""Reserved sets keep their promises through power cuts, and through deaths at any step, alone and
beside other processes."""

from __future__ import annotations

from typing import Final

import pytest

from tests.proof.crash.set_story import SetStory
from tests.support.engine_story import seeds_of_run
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(24)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_set_is_whole_until_it_is_lost_or_committed(model: Model, can_sync_all: bool) -> None:
    made = lost = done = taken_back = 0
    for seed in SEEDS:
        story = SetStory(seed, model, can_sync_all=can_sync_all, cache_bytes=10_000 * (seed % 2))
        story.run(80)
        made, lost, done = made + story.made, lost + story.lost, done + story.done
        taken_back += story.taken_back
    assert made > len(SEEDS)
    assert min(lost, done) > len(SEEDS) // 10
    assert taken_back


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_reservation_of_one_process_is_ended_or_finished_by_any_other(
    model: Model, processes: int
) -> None:
    made = lost = done = taken_back = 0
    for seed in SEEDS:
        story = SetStory(seed, model, processes=processes, cache_bytes=10_000 * (seed % 2))
        story.run(120)
        made, lost, done = made + story.made, lost + story.lost, done + story.done
        taken_back += story.taken_back
    assert made > len(SEEDS)
    assert min(lost, done) > len(SEEDS) // 10
    assert taken_back


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_crash_between_two_slices_of_a_set_leaves_all_of_it_or_undoes_it(
    model: Model, processes: int
) -> None:
    made = lost = done = slices = cut_short = 0
    for seed in SEEDS:
        can_sync_all = processes > 1 or seed % 2 == 0
        story = SetStory(
            seed, model, processes=processes, can_sync_all=can_sync_all, effort=1 + seed % 3
        )
        story.run(120)
        made, lost, done = made + story.made, lost + story.lost, done + story.done
        slices, cut_short = slices + story.slices, cut_short + story.cut_short
    assert min(made, slices, cut_short) > len(SEEDS)
    assert min(lost, done) > len(SEEDS) // 10
