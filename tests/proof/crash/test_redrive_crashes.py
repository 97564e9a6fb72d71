"""Redrives keep their promises through power cuts, and through deaths at any step, alone and beside
others."""

from __future__ import annotations

from typing import Final

import pytest

from tests.proof.crash.redrive_story import RedriveStory
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(15)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_redrive_moves_each_message_once_wherever_it_is_cut(model: Model, can_sync_all: bool) -> None:
    told = tell(RedriveStory, SEEDS, model, steps=80, can_sync_all=can_sync_all)
    assert told["redriven"] > len(SEEDS)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_any_process_goes_on_with_a_redrive(model: Model, processes: int) -> None:
    told = tell(RedriveStory, SEEDS, model, processes=processes)
    assert told["redriven"] > len(SEEDS)
