"""Receives that wait, many threads, and starts and ends of the store, on a real disk."""

from __future__ import annotations

import gc
import os
import weakref
from concurrent.futures import Future
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from spoolrack_store.credits import Credits
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueNotFound
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    DeleteQueue,
    Receive,
    Request,
    Send,
)
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.parking import Parking, QueuedRequest, Waiting

from tests.store.front_rig import GIVE_UP, bodies_of, opened, receipts_of

queues = st.sampled_from(["a", "b", "c"])


# Waiting receives, in order.


def waiter_at(
    now: int, queue: str, wait: int | None, credits: Credits | None = None, most: int = 1
) -> QueuedRequest[Waiting]:
    span = None if wait is None else Millis(wait)
    receive = Receive(queue=queue, wait=span, credits=credits, max_messages=most)
    return QueuedRequest(receive, Future(), Millis(now))


def reserve_at(now: int, queue: str, most: int) -> QueuedRequest[Waiting]:
    reserve = Reserve(queue=queue, stream="s", sequence_number=0, wait=None, max_messages=most)
    return QueuedRequest(reserve, Future(), Millis(now))


class WaitingStory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[str, None] = {}
        self.parking = Parking(self.changed)
        self.waiting: list[QueuedRequest[Waiting]] = []
        self.now = 0
        self.parked_since: set[str] = set()
        self.spent = Credits(0, lambda: None)

    @rule(
        queue=queues,
        wait=st.none() | st.integers(0, 100),
        spent=st.booleans(),
        reserves=st.booleans(),
        most=st.integers(1, 3),
    )
    def park(self, queue: str, wait: int | None, spent: bool, reserves: bool, most: int) -> None:
        parked = waiter_at(self.now, queue, wait, self.spent if spent else None, most)
        if reserves:
            parked = reserve_at(self.now, queue, most)
        self.parking.park(parked)
        self.parked_since.add(queue)
        self.waiting.append(parked)

    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        if self.waiting:
            parked = self.waiting.pop(pick % len(self.waiting))
            assert parked.place is not None
            queue, place = parked.request.queue, parked.place
            self.parking.leave(queue, place)
            self.parking.leave(queue, place)  # Answered, and cancelled at once: both may say so.

    @rule(
        ready=st.dictionaries(queues, st.integers(0, 4) | st.none()),
        asked=st.dictionaries(queues, st.integers(1, 4)),
        sent=st.dictionaries(queues, st.integers(1, 4)),
    )
    def look(self, ready: dict[str, int | None], asked: dict[str, int], sent: dict[str, int]) -> None:
        requests: list[Request[Any]] = []
        requests += [Receive(queue=queue, max_messages=count) for queue, count in asked.items()]
        requests += [Send(queue=queue, bodies=[b""] * count) for queue, count in sent.items()]
        self.changed.update(ready)
        looked_at: list[str] = []
        chosen = self.parking.worth_a_try(
            lambda queue: looked_at.append(queue) or ready.get(queue, 0), requests
        )
        # Queues that have not changed, and are not asked for, are not looked at.
        assert set(looked_at) <= ready.keys() | asked.keys() | sent.keys() | self.parked_since
        self.parked_since = {queue for queue in "abc" if ready.get(queue, 0) != 0}
        for queue in "abc":
            here = [parked for parked in self.waiting if parked.request.queue == queue]
            most, able = ready.get(queue, 0), here
            if most is not None:
                creditable = [p for p in here if p.has_credit]
                able, others = creditable[:most], creditable[most:]
                passed = 0  # What those before could take of the messages to come.
                for p in others:
                    is_wanted = passed < asked.get(queue, 0)
                    if is_wanted or (passed < sent.get(queue, 0) and isinstance(p.request, Receive)):
                        able.append(p)
                    passed += p.request.max_messages
            assert [p for p in chosen if p.request.queue == queue] == able

    @rule(by=st.integers(0, 60))
    def pass_time(self, by: int) -> None:
        self.now += by
        late = list(self.parking.pop_late(Millis(self.now)))
        due = [p for p in self.waiting if p.deadline is not None and p.deadline <= self.now]
        assert late == sorted(due, key=lambda parked: (parked.deadline, parked.place))
        self.waiting = [parked for parked in self.waiting if parked not in due]

    @rule()
    def take_all(self) -> None:
        assert {id(p) for p in self.parking.pop_all()} == {id(p) for p in self.waiting}
        self.waiting = []

    @invariant()
    def it_knows_what_waits(self) -> None:
        assert self.parking.waiting == len(self.waiting)
        dues = [p.deadline for p in self.waiting if p.deadline is not None]
        assert self.parking.next_deadline() == min(dues, default=None)


TestReceivesWaitInTurn = WaitingStory.TestCase


def test_a_look_costs_the_same_after_thousands_of_queues_have_changed_together() -> None:
    def looks(queues: int) -> float:
        changed = dict.fromkeys(map(str, range(queues)))
        parking = Parking(changed)
        parking.park(waiter_at(0, "q", None))
        parking.worth_a_try(lambda queue: 0)
        began = thread_time()
        for _ in range(1_000):
            changed["q"] = None
            parking.worth_a_try(lambda queue: 0)
        return thread_time() - began

    # Of a set, each `pop` searches the room that it once needed: a hundred times as long.
    assert min(looks(20_000) for _ in range(3)) < 10 * min(looks(1) for _ in range(3))


# Ends of a wait.


def test_a_release_wakes_a_receive_that_waits(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        receipts = receipts_of(rig.receive())
        future = rig.wait_for()
        rig.ask(ChangeVisibility(queue="q", receipts=receipts, visibility_timeout=Millis(0)))
        assert bodies_of(future.result(GIVE_UP)) == [b"a"]


def test_a_receive_waits_until_the_bytes_in_flight_are_fewer_than_allowed(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        credits = Credits(9, lambda: None, max_bytes=10)
        rig.send(b"four", b"five5", b"six666")
        rig.send(b"7")
        got = rig.ask(Receive(queue="q", max_messages=9, credits=credits))
        assert bodies_of(got) == [b"four", b"five5"]
        assert credits.bytes_in_flight == 9
        more = rig.ask(Receive(queue="q", max_messages=9, credits=credits))
        assert bodies_of(more) == [b"six666"]  # A message of any size is received while a byte is free.
        assert (credits.in_flight, credits.free, credits.bytes_in_flight) == (3, 0, 15)
        future = rig.store.submit(Receive(queue="q", max_messages=9, wait=None, credits=credits))
        rig.ask(Delete(queue="q", receipts=receipts_of(got)[:1]))
        rig.in_turn()
        assert not future.done()
        rig.ask(Delete(queue="q", receipts=receipts_of(got)[1:]))
        assert bodies_of(future.result(GIVE_UP)) == [b"7"]
        assert (credits.in_flight, credits.bytes_in_flight) == (2, 7)


def test_attributes_count_against_the_bytes_of_a_receive(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        credits = Credits(9, lambda: None)
        attributes: dict[int, dict[str, str | bytes]] = {0: {"name": "x" * 8}, 1: {"name": b"y" * 8}}
        rig.ask(Send(queue="q", bodies=[b"body"] * 3, attributes=attributes))
        first = rig.ask(Receive(queue="q", max_messages=9, max_bytes=32, credits=credits))
        assert [len(each.ids) for each in first] == [2]
        assert credits.bytes_in_flight == 32


def test_a_receive_that_waits_on_a_queue_that_is_deleted_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        futures = [rig.wait_for() for _ in range(3)]
        rig.ask(DeleteQueue(name="q"))
        for future in futures:
            with pytest.raises(QueueNotFound, match="no queue q"):
                future.result(GIVE_UP)
        assert rig.store.metrics.root().waiting == 0


# Many threads.


def test_sends_of_many_threads_share_a_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.in_turn()
        prefixes = {id[:-3] for id in rig.send_together(50)[1:]}
        assert len(prefixes) == 1, "they are not one file of one commit"


def test_a_receive_that_has_waited_leaves_no_garbage_to_collect(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        future = rig.wait_for()
        rig.send(b"a")
        assert bodies_of(future.result(GIVE_UP)) == [b"a"]
        rig.in_turn()  # The committer's own frames are done with it.
        kept = weakref.ref(future)
        del future
        assert kept() is None


# Failures, starts and ends.


def test_to_open_and_close_leaks_no_handle(tmp_path: Path) -> None:
    def handles() -> int:
        gc.collect()  # A store that is closed keeps its folder open for what may still be read.
        return len(os.listdir("/proc/self/fd"))

    with opened(tmp_path) as rig:
        rig.send(b"a")
    del rig
    before = handles()
    for _ in range(5):
        with opened(tmp_path) as rig:
            rig.send(b"a")
        del rig
    assert handles() == before
