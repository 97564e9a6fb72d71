"""A lease that is over is deleted or extended by its last receive, and by no earlier one, through power
cuts and deaths, with one process and several; and each condition of that is needed."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import leaser
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import LastReceive
from spoolrack_store.model.transitions import State

from tests.proof.crash.last_receive_story import LastReceiveStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_the_last_receive_deletes_and_extends_through_crashes(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    told = tell(LastReceiveStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert told.least("late", "crashes") > len(SEEDS)


def _any_receive(name: Name, queue: str, last: LastReceive | None) -> bool:
    return last is not None and name.queue == queue and name.state in (State.LEASED, State.READY)


def _leases_alone(name: Name, queue: str, last: LastReceive | None) -> bool:
    return name.state is State.LEASED and last == (name.receives, name.first)


PLANTED: Final[dict[str, Bug]] = {
    "any receive is the last": Bug(leaser, "_is_last", _any_receive, first=17),
    "only a lease has a last receive": Bug(leaser, "_is_last", _leases_alone),
}
MOST_STORIES: Final = 100


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_last_receive_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_broken(
        monkeypatch, PLANTED[planted], LastReceiveStory, MOST_STORIES, match=r"was refused|was taken"
    )
