"""The engine keeps its promises through power cuts, and through deaths at any step, alone and beside
others."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.engine_story import Story, seeds_of_run
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(15)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_every_message_is_found_as_it_was_promised(model: Model, can_sync_all: bool) -> None:
    crashes = 0
    for seed in SEEDS:
        story = Story(seed, model, can_sync_all=can_sync_all, cache_bytes=10_000 * (seed % 2))
        story.run(80)
        crashes += story.crashes
    assert crashes > len(SEEDS)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_know_exactly_what_is_there(model: Model, processes: int) -> None:
    crashes = replayed = buried = 0
    for seed in SEEDS:
        story = Story(seed, model, processes=processes, cache_bytes=10_000 * (seed % 2))
        story.run(120)
        crashes += story.crashes
        replayed += story.replayed
        buried += story.buried
    assert crashes > len(SEEDS)
    assert replayed > len(SEEDS)
    assert buried > 0
