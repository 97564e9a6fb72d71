"""Receives that wait: first come, first served, each with its own deadline."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.operations import Outgoing, Receive, Request, Send
from spoolrack_store.parking import Parked, Parking

queues = st.sampled_from(["a", "b", "c"])


def parked_at(queue: str, deadline: int | None = None, credits: Credits | None = None) -> Parked:
    request = Receive(queue=queue, credits=credits)
    return Parked(request, Future(), None if deadline is None else Millis(deadline))


class ParkingStory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.parking = Parking()
        self.waiting: list[Parked] = []
        self.now = 0
        self.spent = Credits(0, lambda: None)

    @rule(queue=queues, deadline=st.none() | st.integers(0, 100), spent=st.booleans())
    def park(self, queue: str, deadline: int | None, spent: bool) -> None:
        parked = parked_at(
            queue,
            None if deadline is None else self.now + deadline,
            self.spent if spent else None,
        )
        self.parking.park(parked)
        self.waiting.append(parked)

    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        if self.waiting:
            parked = self.waiting.pop(pick % len(self.waiting))
            self.parking.leave(parked)
            self.parking.leave(parked)  # Answered, and cancelled at once: both may say so.

    @rule(
        ready=st.dictionaries(queues, st.integers(0, 4) | st.none()),
        asked=st.sets(queues),
        sent=st.dictionaries(queues, st.integers(1, 4)),
    )
    def look(self, ready: dict[str, int | None], asked: set[str], sent: dict[str, int]) -> None:
        requests: list[Request[Any]] = [Receive(queue=queue) for queue in asked]
        requests += [
            Send(queue=queue, messages=[Outgoing(body=b"")] * count) for queue, count in sent.items()
        ]
        chosen = self.parking.worth_a_try(lambda queue: ready.get(queue, 0), requests)
        for queue in "abc":
            here = [parked for parked in self.waiting if parked.request.queue == queue]
            most, coming = ready.get(queue, 0), sent.get(queue, 0)
            able = here if most is None else [p for p in here if p.has_credit]
            if most is not None and queue not in asked:
                able = able[: most + coming]
            assert [p for p in chosen if p.request.queue == queue] == able

    @rule(by=st.integers(0, 60))
    def pass_time(self, by: int) -> None:
        self.now += by
        late = list(self.parking.take_late(Millis(self.now)))
        due = [p for p in self.waiting if p.deadline is not None and p.deadline <= self.now]
        assert late == sorted(due, key=lambda parked: (parked.deadline, parked.place))
        self.waiting = [parked for parked in self.waiting if parked not in due]

    @rule()
    def send_all_away(self) -> None:
        assert {id(p) for p in self.parking.take_all()} == {id(p) for p in self.waiting}
        self.waiting = []

    @invariant()
    def it_knows_who_waits(self) -> None:
        assert bool(self.parking) is bool(self.waiting)
        dues = [p.deadline for p in self.waiting if p.deadline is not None]
        assert self.parking.next_deadline() == min(dues, default=None)


TestParkedReceivesWaitInTurn = ParkingStory.TestCase
