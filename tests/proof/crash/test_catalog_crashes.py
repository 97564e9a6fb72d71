"""Queues are as they were promised through power cuts and deaths, and what was deleted with a queue
never comes back."""

from __future__ import annotations

from typing import Final

import pytest

from tests.proof.crash.catalog_story import CatalogStory
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (2, True), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_queues_are_found_as_they_were_promised(
    model: Model, processes: int, can_sync_all: bool
) -> None:
    told = tell(CatalogStory, SEEDS, model, steps=100, processes=processes, can_sync_all=can_sync_all)
    assert told.least("deleted", "crashes") > len(SEEDS)
