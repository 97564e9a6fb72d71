"""Receives are in the order of priorities, through power cuts and deaths, with one process and several;
and each condition of that is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest
from spoolrack_store.engine import sender
from spoolrack_store.engine.entry_orders import PriorityOrder
from spoolrack_store.engine.group_order import GroupOrder
from spoolrack_store.model.batch_file import Line, stem_of
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import Receive, Request, Send

from tests.proof.crash.stories import ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.proof.crash.test_group_crashes import GroupStory
from tests.support.engine_story import DEAD, SETTINGS
from tests.support.power_disk import Model

AGING: Final = {"q": Millis(0), "r": Millis(1_500), DEAD: Millis(700)}


class PriorityStory(GroupStory):
    """A story in which most messages have priorities; groups are strict in one of the queues."""

    strict: ClassVar = ("r",)
    settings: ClassVar = {
        queue: replace(
            each, priority_aging=AGING[queue], group_order="strict" if queue == "r" else "fair"
        )
        for queue, each in SETTINGS.items()
    }

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.priorities: dict[str, int] = {}
        """Of each message its priority."""
        self.overtaken = 0
        """Receives that got a message before an older one."""
        super().__init__(seed, model, **rest)

    def _request(self) -> Request[Any]:
        request = super()._request()
        if isinstance(request, Send):
            share = self.random.choice((0.0, 0.5, 1.0))
            request.priorities = {
                position: self.random.choice((0, 1, 2, 9))
                for position in range(len(request.bodies))
                if self.random.random() < share
            }
        return request

    def _sent(self, sender: str, id: str, request: Send, place: int) -> None:
        super()._sent(sender, id, request, place)
        self.priorities[id] = request.priorities.get(place, 0)

    def _read_more(self, id: str, name: Name, line: Line, index: int) -> None:
        super()._read_more(id, name, line, index)
        self.priorities[id] = name.stem.priority

    def _check_order(self, request: Receive, got: list[str], left: list[str], sent: set[str]) -> None:
        super()._check_order(request, got, left, sent)
        self.overtaken += bool(got and left and max(got) > min(left))

    def _rank(self, id: str) -> Any:
        queue = self.queue_of[id]
        if queue in self.strict and self.groups[id]:
            return id
        aging, priority = AGING[queue], self.priorities[id]
        return (sent_at(id) - priority * aging if aging else -priority), id


@ALONE_AND_SHARED
def test_priorities_keep_their_order_through_crashes(run: Run) -> None:
    told = run.tell(PriorityStory, 4)
    assert told.least("overtaken", "crashes") > told["stories"]


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


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], PriorityStory)
