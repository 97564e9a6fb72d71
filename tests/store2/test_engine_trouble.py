"""The engine goes on when the disk refuses calls: each answer is right, nothing is lost, and the index
is what the folders are."""

from __future__ import annotations

import os

import pytest
from power_disk import Model
from troubled_story import TroubledStory

SEEDS = int(os.environ.get("SPOOLRACK_STORIES", "50"))


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_what_the_disk_refuses_has_no_effect_and_stops_nothing(model: Model, processes: int) -> None:
    refused = 0
    for seed in range(SEEDS):
        story = TroubledStory(seed, model, processes=processes, cache_bytes=10_000 * (seed % 2))
        story.run(100)
        refused += story.refused
    assert refused > SEEDS
