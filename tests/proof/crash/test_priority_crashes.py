"""Receives are in the order of priorities, through power cuts and deaths, with one process and several;
and each condition of that is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from spoolrack_store.engine import sender
from spoolrack_store.engine.index import GroupOrder, PriorityOrder
from spoolrack_store.model.batch_file import stem_of

from tests.proof.crash.planted import Bug, expect_broken
from tests.proof.crash.priority_story import PriorityStory
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_priorities_keep_their_order_through_crashes(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    told = tell(PriorityStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert told.least("overtaken", "crashes") > len(SEEDS)


_runs = PriorityOrder.runs

PLANTED: Final[dict[str, Bug]] = {
    "a file is named without the priority of its messages": Bug(
        sender, "stem_of", lambda *given, **more: replace(stem_of(*given, **more), priority=0)
    ),
    "a higher priority is always first, whatever the aging": Bug(
        PriorityOrder,
        "runs",
        lambda self, but, members_of, aging: _runs(self, but, members_of, aging and 0),
    ),
    "a strict group is ordered by its priorities, too": Bug(
        GroupOrder, "_aging_of", lambda self, group: self._aging
    ),
    "priorities change nothing": Bug(
        PriorityOrder, "runs", lambda self, but, members_of, aging: _runs(self, but, members_of, None)
    ),
}
MOST_STORIES: Final = 100


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], PriorityStory, MOST_STORIES)
