"""A strict group has its messages in order, none behind one that is leased or delayed, through power
cuts and deaths, with one process and several; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product
from typing import Any, ClassVar, Final

import pytest
from spoolrack_store.engine import group_order
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.group_order import GroupOrder, _Group
from spoolrack_store.engine.leaser import Leaser
from spoolrack_store.model.batch_file import Line
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import Delete, Receive, Request, Send
from spoolrack_store.model.transitions import State

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken
from tests.support.engine_story import (
    DELAY,
    GONE,
    HOLD,
    SETTINGS,
    Broken,
    Story,
    parse,
    seeds_from,
    tell,
)
from tests.support.power_disk import Model

GROUPS: Final = ("a", "b", "c")
STRICT: Final = ("q", "r")
MOST_COMMITS: Final = 1_000
"""So many steps receive and delete all that is left at the end."""


class GroupStory(Story):
    """A story in which most messages have groups; two of the queues are strict."""

    strict: ClassVar = STRICT
    settings: ClassVar = {
        queue: replace(each, group_order="strict" if queue in STRICT else "fair")
        for queue, each in SETTINGS.items()
    }

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.groups: dict[str, str] = {}
        """Of each message its group."""
        self.blocked = self.shared = 0
        """Receives that passed over a blocked group, and those that got several of one group."""
        self._script: Iterator[tuple[str, type[Request[Any]]]] | None = None
        """The requests that are made, at the end of a story."""
        super().__init__(seed, model, **rest)

    def _end(self) -> None:
        super()._end()
        self._drain()

    def _drain(self) -> None:
        """In the end every message is received and deleted: no group is stuck."""
        self._script = cycle(product(self.settings, (Receive, Delete)))
        for _ in range(MOST_COMMITS):
            owner = next(iter(self.engines))
            if self.flying[owner]:
                self._sync(owner)
                continue
            if all(self.now(id) == GONE for id in self.may):
                return
            self.clock.now += DELAY
            self._commit(owner)
        left = {id: self.now(id) for id in self.may if self.now(id) != GONE}
        raise Broken(f"never received, or never deleted: {left}")

    def _request(self) -> Request[Any]:
        if self._script is not None:
            queue, kind = next(self._script)
            if kind is Receive:
                return Receive(queue=queue, max_messages=5, visibility_timeout=Millis(HOLD * 100))
            mine = [self.receipts[id] for id in self.receipts if self.queue_of[id] == queue]
            return Delete(queue=queue, receipts=mine)
        request = super()._request()
        if isinstance(request, Send) and self.random.random() < 0.9:
            request.groups = {
                position: self.random.choice(GROUPS)
                for position in range(len(request.bodies))
                if self.random.random() < 0.8
            }
        return request

    def _sent(self, sender: str, id: str, request: Send, place: int) -> None:
        super()._sent(sender, id, request, place)
        group = self.groups[id] = request.groups.get(place, "")
        if group and request.queue in self.strict:
            above = [each for each in self._answered(request.queue, group) if each > id]
            if above:
                raise Broken(f"{id} of {group} was sent after {above}, and stands before them")

    def _answered(self, queue: str, group: str) -> list[str]:
        """Return the messages of a group that were answered and are still to be received."""
        return [
            id
            for id in self.answered
            if self.queue_of.get(id) == queue
            and self.groups[id] == group
            and self.now(id)[0] in ("ready", "delayed")
        ]

    def _read_more(self, id: str, name: Name, line: Line, index: int) -> None:
        self.groups[id] = line.group_of(index)

    def _check_order(self, request: Receive, got: list[str], left: list[str], sent: set[str]) -> None:
        is_strict = request.queue in self.strict
        mine = [id for id, queue in self.queue_of.items() if queue == request.queue]
        dying = {self.groups[id] for id in self._originals(request.queue)}
        for group in ("", *GROUPS):
            taken = [id for id in got if self.groups[id] == group]
            ready = [id for id in left if self.groups[id] == group]
            ranks, left_ranks = map(self._rank, taken), map(self._rank, ready)
            in_order, first_left = sorted(ranks), min(left_ranks, default=None)
            is_passed = taken and first_left is not None and in_order[-1] > first_left
            if is_passed or [self._rank(id) for id in taken] != in_order:
                raise Broken(f"{group} is out of order: {taken}, left {sorted(ready)[:3]}")
            if not is_strict or not group:
                is_blocked = False
            else:
                others = [id for id in mine if self.groups[id] == group and id not in got]
                leased = [id for id in others if self.now(id)[0] == "leased"]
                # A receive knows of no delay in `new/`, and leases nothing of a strict group there.
                delayed = [id for id in others if self.now(id)[0] == "delayed" and id not in sent]
                hidden = min([*leased, *delayed], default=None)
                # The copy of a dead letter is ahead of what it was copied from, which blocks its group.
                is_dying = group in dying or any(self.now(id)[0] == "dying" for id in others)
                first = min([*taken, *ready], default="")
                is_blocked = is_dying or (hidden is not None and hidden < first)
                if taken and hidden is not None and hidden < max(taken):
                    raise Broken(f"{taken} of {group} are received behind {hidden}")
                missed = [id for id in self._answered(request.queue, group) if id in sent]
                if taken and missed and min(missed) < max(taken):
                    raise Broken(f"{taken} of {group} are received before {missed}")
                if sent.intersection(taken):
                    raise Broken(f"{taken} of {group} are leased before they are published")
                self.blocked += bool(is_blocked and ready)
                self.shared += len(taken) > 1
            if not got and ready and not is_blocked:
                raise Broken(f"nothing is received of {group}, {ready} are ready")

    def _rank(self, id: str) -> Any:
        """Return what the order of the receives is by."""
        return id

    def _originals(self, queue: str) -> set[str]:
        """Return the messages that are dead letters elsewhere, and not yet deleted where they died."""
        leased = (name for name in map(parse, self._paths()) if name.state is State.LEASED)
        held = {
            name.stem.message_id(index)
            for name in leased
            if name.queue == queue
            for index in indexes(name.members)
        }
        return {id for id in held if self.queue_of.get(id, queue) != queue}


@ALONE
def test_groups_keep_their_order_through_crashes(run: Run) -> None:
    told = run.tell(GroupStory, 10)
    assert told.least("blocked", "crashes") > told["stories"]
    assert told["shared"]


@SHARED
def test_processes_that_share_a_root_share_its_groups(run: Run) -> None:
    told = run.tell(GroupStory, 5)
    assert told.least("blocked", "crashes") > told["stories"]
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
        group_order, "_before", lambda _, members, end: members, first=16
    ),
    "receives of a commit share a group": Bug(GroupOrder, "runs", _without_claims),
    "groups of other processes are not read": Bug(Leaser, "_read_groups", lambda self: None),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_group_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(
        monkeypatch,
        PLANTED[planted],
        GroupStory,
        match=r"received behind|received before|nothing is received",
        processes=2,
    )


def test_a_message_of_a_strict_group_is_in_its_queue_before_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = {"processes": 2, "plot": (0.02, 0.01)}
    tell(GroupStory, range(10), Model.ANY_SUBSET, **calm)
    finish = Engine.finish

    def answer_first(self: Engine, work: Work) -> object:
        work.to_enqueue = [entry for entry in work.to_enqueue if entry.name.token]
        return finish(self, work)

    monkeypatch.setattr(Engine, "finish", answer_first)
    with pytest.raises(Broken, match=r"stands before them|are received before"):
        tell(GroupStory, seeds_from(30, 40), Model.ANY_SUBSET, **calm)
