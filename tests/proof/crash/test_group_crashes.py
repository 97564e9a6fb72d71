"""A strict group has its messages in order, none behind one that is leased or delayed, through power
cuts and deaths, with one process and several; and each condition of that is needed."""

from __future__ import annotations

from typing import Any, Final

import pytest
from spoolrack_store.engine import index as index_module
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.index import GroupOrder, _Group
from spoolrack_store.engine.leaser import Leaser
from spoolrack_store.model.transitions import State

from tests.proof.crash.group_story import GroupStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.engine_story import Broken, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_groups_keep_their_order_through_crashes(model: Model, can_sync_all: bool) -> None:
    told = tell(GroupStory, SEEDS, model, can_sync_all=can_sync_all)
    assert told.least("blocked", "crashes") > len(SEEDS)
    assert told["shared"]


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_share_its_groups(model: Model, processes: int) -> None:
    told = tell(GroupStory, SEEDS, model, processes=processes)
    assert told.least("blocked", "crashes") > len(SEEDS)
    assert told["shared"]


def _first_in(state: State) -> property:
    """Return a `_Group.end` that knows only one of the states that hide a message."""

    def end(self: _Group) -> str | None:
        found = (each.first_id for each in self.hidden if each.name.state is state)
        return min(found, default=None) if self.name else None

    return property(end)


def _without_claims(self: GroupOrder, room: int, but: Any, commit: int) -> Any:
    for group in self._groups.values():
        group.claimed = 0
    return _runs(self, room, but, commit)


_runs = GroupOrder.runs


PLANTED: Final[dict[str, Bug]] = {
    "a lease blocks nothing": Bug(_Group, "end", _first_in(State.DELAYED)),
    "a delay blocks nothing": Bug(_Group, "end", _first_in(State.LEASED), first=12),
    "a hidden message ends no receive": Bug(
        index_module, "_before", lambda _, members, end: members, first=16
    ),
    "receives of a commit share a group": Bug(GroupOrder, "runs", _without_claims),
    "groups of other processes are not read": Bug(Leaser, "_read_groups", lambda self: None),
}


MOST_STORIES: Final = 400


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_group_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(
        monkeypatch,
        PLANTED[planted],
        GroupStory,
        MOST_STORIES,
        match=r"received behind|received before|nothing is received",
        processes=2,
    )


def test_a_message_of_a_strict_group_is_in_its_queue_before_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = {"processes": 2, "plot": (0.02, 0.01)}
    tell(GroupStory, range(40), Model.ANY_SUBSET, **calm)
    finish = Engine.finish

    def answer_first(self: Engine, work: Work) -> object:
        work.unpublished = [entry for entry in work.unpublished if entry.name.token]
        return finish(self, work)

    monkeypatch.setattr(Engine, "finish", answer_first)
    with pytest.raises(Broken, match=r"stands before them|are received before"):
        tell(GroupStory, range(40), Model.ANY_SUBSET, **calm)
