"""Receives are in the order of priorities, through power cuts and deaths, with one process and several;
and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from spoolrack_store.engine import sender
from spoolrack_store.engine.index import GroupOrder, PriorityOrder
from spoolrack_store.model.batch_file import stem_of
from spoolrack_store.model.names import Stem

from tests.proof.crash.priority_story import PriorityStory
from tests.support.engine_story import Broken, seeds_from, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_priorities_keep_their_order_through_crashes(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    told = tell(PriorityStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert told.least("overtaken", "crashes") > len(SEEDS)


def _without_priority(*arguments: object, **more: object) -> Stem:
    return replace(stem_of(*arguments, **more), priority=0)  # type: ignore[arg-type]


def _sends_lose_it(patched: pytest.MonkeyPatch) -> None:
    """Name a file without the priority of its messages."""
    patched.setattr(sender, "stem_of", _without_priority)


def _with_aging(patched: pytest.MonkeyPatch, other: Callable[[int | None], int | None]) -> None:
    honest = PriorityOrder.runs
    patched.setattr(
        PriorityOrder,
        "runs",
        lambda self, but, members_of, aging: honest(self, but, members_of, other(aging)),
    )


def _never_ages(patched: pytest.MonkeyPatch) -> None:
    """Deliver a higher priority always first."""
    _with_aging(patched, lambda aging: None if aging is None else 0)


def _orders_strict_groups(patched: pytest.MonkeyPatch) -> None:
    """Order a strict group by its priorities, too."""
    patched.setattr(GroupOrder, "_aging_of", lambda self, group: self._aging)


def _keeps_the_sends_order(patched: pytest.MonkeyPatch) -> None:
    """Priorities change nothing."""
    _with_aging(patched, lambda aging: None)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "files lose their priority": _sends_lose_it,
    "an aging is not followed": _never_ages,
    "strict groups follow priorities": _orders_strict_groups,
    "priorities are not followed": _keeps_the_sends_order,
}


MOST_STORIES: Final = 100
STARTS: Final = {"dead letters lose their priority": 79}
"""The stories that found them. After a change of the engine others may: all are told, these first."""


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[planted](monkeypatch)
    with pytest.raises(Broken):
        tell(PriorityStory, seeds_from(STARTS.get(planted, 0), MOST_STORIES), Model.ANY_SUBSET)
