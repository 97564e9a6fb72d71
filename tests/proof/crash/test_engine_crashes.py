"""The engine keeps its promises through power cuts, and through deaths at any step, alone and beside
others."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.engine_story import Story, caching, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(15)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_every_message_is_found_as_it_was_promised(model: Model, can_sync_all: bool) -> None:
    told = tell(caching(Story), SEEDS, model, steps=80, can_sync_all=can_sync_all)
    assert told["crashes"] > len(SEEDS)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_know_exactly_what_is_there(model: Model, processes: int) -> None:
    told = tell(caching(Story), SEEDS, model, processes=processes)
    assert told.least("crashes", "replayed") > len(SEEDS)
    assert told["buried"] > 0
