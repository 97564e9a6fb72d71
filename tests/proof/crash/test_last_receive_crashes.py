"""A lease that is over is deleted or extended by its last receive, and by no earlier one, through power
cuts and deaths, with one process and several; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest
from spoolrack_store.engine import leaser
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    LastReceive,
    Receive,
    Request,
)
from spoolrack_store.model.transitions import State

from tests.proof.crash.stories import ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.support.engine_story import (
    DEAD,
    GONE,
    HOLD,
    SETTINGS,
    Broken,
    Seen,
    Story,
    id_of,
)
from tests.support.power_disk import Model


class LastReceiveStory(Story):
    """A story in which consumers keep their receipts when their leases are over, and in which messages
    become dead letters at the receive after the last."""

    settings: ClassVar = {
        queue: replace(each, dead_letter_at="receive") for queue, each in SETTINGS.items()
    }

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.kept: dict[str, list[tuple[str, str, LastReceive]]] = {}
        """Of each message the queue, the receipt and the identity of each receive of it."""
        self.told_later: dict[str, tuple[str, str, LastReceive]] = {}
        self.late = 0
        """Deletes and extensions of leases that were over."""
        super().__init__(seed, model, **rest)

    def _request(self) -> Request[Any]:
        request = super()._request()
        if not isinstance(request, (Delete, ChangeVisibility)) or self.random.random() < 0.4:
            return request
        mine = [id for id, kept in self.kept.items() if kept[-1][0] == request.queue]
        received = [
            # The last one mostly, or one before.
            self.kept[id][-1] if self.random.random() < 0.8 else self.random.choice(self.kept[id])
            for id in self.random.sample(mine, min(len(mine), 3))
        ]
        received = [each for each in received if each[0] == request.queue]
        receipts = [receipt for _, receipt, _ in received]
        last = {place: each[2] for place, each in enumerate(received)}
        if isinstance(request, Delete):
            return Delete(queue=request.queue, receipts=receipts, last_receives=last)
        visibility = self.random.choice((Millis(0), HOLD))
        return ChangeVisibility(
            queue=request.queue, receipts=receipts, visibility_timeout=visibility, last_receives=last
        )

    def _take(self, engine: Engine, requests: list[Request[Any]], outcomes: Sequence[object]) -> None:
        pairs = list(zip(requests, outcomes, strict=True))
        gone = {id for id in self.may if self.now(id) == GONE}
        self._look_for_dying(engine, requests)
        for kind in (Delete, ChangeVisibility):
            for request, outcome in pairs:
                if isinstance(request, kind):
                    assert isinstance(outcome, list)
                    self._hold_against(request, outcome, gone)
        super()._take(engine, requests, outcomes)

    def _look_for_dying(self, engine: Engine, requests: Sequence[Request[Any]]) -> None:
        for id, queue in self.queue_of.items():
            if self._dies_at_a_receive(id, [each for each in requests if each.queue == queue]):
                holder = engine.index.holder(id)
                if holder is None or holder[0].name.queue == DEAD:
                    self._become(id, ("dying", self.now(id)[1]))

    def _dies_at_a_receive(self, id: str, requests: Sequence[Request[Any]]) -> bool:
        """Return whether a receive of its queue passes a message over, and makes it a dead letter."""
        now, limit = self.now(id), SETTINGS[self.queue_of[id]].max_receives
        is_used_up = limit and now[0] == "ready" and int(str(now[1])) >= limit
        return bool(is_used_up) and any(isinstance(each, Receive) for each in requests)

    def _hold_against(
        self, request: Delete | ChangeVisibility, outcome: list[object], gone: set[str]
    ) -> None:
        """Hold each result against the last receive of its message, before the story takes it in."""
        if isinstance(request, Delete):
            gone |= {
                id
                for id, result in zip(request.ids, outcome[len(request.receipts) :], strict=True)
                if result is None
            }
        for place, receipt in enumerate(request.receipts):
            id, result = id_of(receipt), outcome[place]
            is_done = result is None or isinstance(result, int)
            if place in request.last_receives and id not in gone:
                now, last = self.now(id), request.last_receives[place]
                is_last = now[0] in ("ready", "leased") and now[1] == last.receive_count
                is_here = self.queue_of[id] == request.queue and id not in self.unanswered
                if is_last and is_here and not is_done:
                    raise Broken(f"{id} is {now}, and {last} was refused: {result!r}")
                if now[0] in ("ready", "leased") and now[1] != last.receive_count and is_done:
                    raise Broken(f"{id} is {now}, and {last} was taken")
                self.late += bool(is_done and now[0] == "ready")
            if is_done and isinstance(request, Delete):
                gone.add(id)

    def _changed(self, receipt: str, visibility: Millis, result: object) -> None:
        id = id_of(receipt)
        now = self.now(id)
        if isinstance(result, int) and not visibility and now[0] == "ready":
            return  # It is ready already.
        if not isinstance(result, int) and self.receipts.get(id) != receipt:
            return  # Held against its last receive before.
        super()._changed(receipt, visibility, result)

    def _back(self, id: str, state: Seen) -> Seen:
        return "ready", state[1]

    def _received(self, engine: Engine, request: Receive, deliveries: list[Delivery]) -> None:
        self._look_for_dying(engine, [request])  # What this commit has released is among them.
        super()._received(engine, request, deliveries)
        for delivery in deliveries:
            assert delivery.first_received_at is not None
            last = LastReceive(delivery.receive_count, delivery.first_received_at)
            for id, receipt in zip(delivery.ids, delivery.receipts, strict=True):
                # Leased as it was sent: no consumer has the receipt before the commit is finished.
                received = delivery.queue, receipt, last
                if id in self.receipts:
                    self.kept.setdefault(id, []).append(received)
                else:
                    self.told_later[id] = received

    def _sync(self, owner: str) -> None:
        super()._sync(owner)
        for id in list(self.told_later):
            if id in self.receipts:
                self.kept.setdefault(id, []).append(self.told_later.pop(id))

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        super()._adopt(maybe)
        untold = {} if maybe is None else self.later  # A cut leaves no answer to give.
        self.told_later = {id: kept for id, kept in self.told_later.items() if id in untold}
        for id in list(self.kept):
            # The answer to a receive that a power cut undid was never given.
            if id not in self.may or (maybe is None and id in self.unanswered):
                self.kept[id].pop()
                if not self.kept[id] or id not in self.may:
                    del self.kept[id]

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        maybe = super()._forgive(requests)
        for id, queue in self.queue_of.items():
            if self._dies_at_a_receive(id, [each for each in requests if each.queue == queue]):
                maybe[id].append(("dying", self.now(id)[1]))
        for request in requests:
            if isinstance(request, ChangeVisibility) and request.visibility_timeout:
                end = self.clock.now + request.visibility_timeout
                for last_at, last in request.last_receives.items():
                    id = id_of(request.receipts[last_at])
                    maybe[id].append(("leased", last.receive_count, end))
        return maybe


@ALONE_AND_SHARED
def test_the_last_receive_deletes_and_extends_through_crashes(run: Run) -> None:
    told = run.tell(LastReceiveStory, 5)
    assert told.least("late", "crashes") > told["stories"]


def _any_receive(name: Name, queue: str, last: LastReceive | None) -> bool:
    return last is not None and name.queue == queue and name.state in (State.LEASED, State.READY)


def _leases_alone(name: Name, queue: str, last: LastReceive | None) -> bool:
    return name.state is State.LEASED and last == (name.receives, name.first)


PLANTED: Final[dict[str, Bug]] = {
    "any receive is the last": Bug(leaser, "_is_last", _any_receive, first=17),
    "only a lease has a last receive": Bug(leaser, "_is_last", _leases_alone),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_last_receive_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_broken(monkeypatch, PLANTED[planted], LastReceiveStory, match=r"was refused|was taken")
