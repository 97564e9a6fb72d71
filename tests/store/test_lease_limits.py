"""Limits of leases: never more than the bound at a time, in any process, and never faster than the
rate; what waits for a limit is leased as soon as the limit allows it, and holds nothing else back.

A receive that a limit cuts is no error: it gets what the limit leaves, as at RabbitMQ's prefetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from spoolrack_store.engine.lease_limits import RateBucket
from spoolrack_store.model.clock import MINUTE, Millis
from spoolrack_store.model.errors import StaleReceipt
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    LastReceive,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.store.front_rig import GIVE_UP, FrontRig, bodies_of, opened
from tests.support.dead_letter_rig import LEASE, Rig
from tests.support.engines import commit

BOUNDED = QueueSettings(max_leased=3, backoff_initial=Millis(0))
RATED = QueueSettings(rate=2_000, rate_burst=2)
"""Two a second."""
GROUPED = QueueSettings(group_max_leased=2)
GROUP_RATED = QueueSettings(group_rate=100)
"""One in ten seconds."""


def rig(**queues: QueueSettings) -> Rig:
    return Rig({"q": QueueSettings(), **queues})


@contextmanager
def served(path: Path, **limits: int) -> Iterator[FrontRig]:
    """A store with its thread, whose queue has these limits."""
    path.mkdir(exist_ok=True)
    with opened(path / "root") as front:
        front.ask(UpdateQueue(name="q", changes=limits))
        yield front


def send_groups(rig: Rig, groups: str, queue: str = "q") -> None:
    """Send a message for each letter, its group."""
    rig.ask(Send(queue=queue, bodies=[g.encode() for g in groups], groups=dict(enumerate(groups))))
    rig.settle()


def bodies(found: list[Delivery]) -> str:
    return b"".join(body for each in found for body in each.bodies).decode()


def receipts(found: list[Delivery]) -> list[str]:
    return [receipt for each in found for receipt in each.receipts]


def leased(rig: Rig, queue: str = "q") -> int:
    return rig.engine.index.queue(queue).counts[State.LEASED]


def obstacles(rig: Rig, queue: str = "q") -> dict[str, str]:
    found = rig.engine.described(queue, is_disk_full=False).obstacles
    return {each.reason: each.explanation for each in found}


# Bounds on leases.


def test_no_more_messages_are_leased_than_the_bound() -> None:
    one = rig(q=BOUNDED)
    one.send(*[b"x"] * 5)
    assert len(bodies(one.receive())) == 3
    assert one.receive() == []
    assert obstacles(one)["MAX_LEASED"] == "3 of 3 leased, 2 wait"


@pytest.mark.parametrize("end", ["delete", "release", "reject", "expiry"])
def test_each_end_of_a_lease_frees_its_place(end: str) -> None:
    dying = QueueSettings(
        max_leased=1, max_receives=5, dead_letter_queue="dead", backoff_initial=Millis(0)
    )
    one = rig(q=dying, dead=QueueSettings())
    one.send(b"a", b"b")
    (receipt,) = receipts(one.receive())
    match end:
        case "delete":
            one.ask(Delete(queue="q", receipts=[receipt]))
        case "release":
            one.ask(ReleaseMessages(queue="q", receipts=[receipt]))
        case "reject":
            one.ask(RejectMessages(queue="q", receipts=[receipt]))
        case "expiry":
            one.after(LEASE)
            one.ask()
    assert leased(one) == 0
    assert len(bodies(one.receive())) == 1


def test_requests_of_one_commit_share_the_bound() -> None:
    one = rig(q=BOUNDED)
    one.send(*[b"x"] * 9)
    found = commit(one.engine, *(Receive(queue="q", max_messages=2) for _ in range(4)))
    assert [len(receipts(each)) for each in found] == [2, 1, 0, 0]


def test_a_reserved_set_counts_and_is_cut_by_the_bound() -> None:
    one = rig(q=BOUNDED)
    one.send(*[b"x"] * 9)
    one.receive(most=2)
    one.ask(Reserve(queue="q", stream="s", sequence_number=0, max_messages=5))
    assert leased(one) == 3


def test_processes_share_the_bound() -> None:
    one = rig(q=BOUNDED)
    other = one.join("p2")
    one.send(*[b"x"] * 9)
    assert len(receipts(one.receive(most=2))) == 2
    assert len(receipts(other.receive(most=5))) == 1
    assert other.receive() == one.receive() == []


def test_a_start_counts_what_is_leased() -> None:
    one = rig(q=BOUNDED)
    one.send(*[b"x"] * 9)
    one.receive(most=2)
    assert len(receipts(one.restart().receive())) == 1


def test_a_bound_that_is_lowered_takes_no_lease_back_and_one_that_is_raised_gives_at_once() -> None:
    one = rig(q=BOUNDED)
    one.send(*[b"x"] * 9)
    found = receipts(one.receive())
    one.ask(UpdateQueue(name="q", changes={"max_leased": 2}))
    one.ask(Delete(queue="q", receipts=found[:1]))
    assert one.receive() == []
    one.ask(UpdateQueue(name="q", changes={"max_leased": 4}))
    assert len(receipts(one.receive())) == 2


def test_a_receive_that_waits_gets_the_place_that_a_delete_frees(tmp_path: Path) -> None:
    with served(tmp_path, max_leased=1) as front:
        front.send(b"a", b"b")
        first = front.receive()
        waiting = front.wait_for()
        assert not waiting.done()
        front.delete(*first)
        assert bodies_of(waiting.result(GIVE_UP)) == [b"b"]


def test_a_lone_receive_in_its_callers_thread_keeps_to_the_limits(tmp_path: Path) -> None:
    with served(tmp_path, max_leased=2) as front:
        front.send(b"a")
        front.send(b"b")
        front.send(b"c")
        front.in_turn()
        first = front.store.try_now(Receive(queue="q"), 60.0)
        assert first is not None
        assert front.store.try_now(Receive(queue="q"), 60.0) is not None
        assert front.store.try_now(Receive(queue="q"), 60.0) is None
        assert front.receive() == []
        front.delete(*first)
        assert bodies_of(front.receive()) == [b"c"]
    with served(tmp_path / "rated", rate=100) as front:
        front.send(b"a")
        front.send(b"b")
        front.in_turn()
        assert front.store.try_now(Receive(queue="q"), 60.0) is not None
        assert front.store.try_now(Receive(queue="q"), 60.0) is None
        waiting = front.wait_for()
        front.manual_clock.advance(10_000)
        assert bodies_of(waiting.result(GIVE_UP)) == [b"b"]


@pytest.mark.parametrize(("limit", "raised"), [("max_leased", 2), ("rate", 0)])
def test_a_receive_that_waits_is_answered_when_a_limit_is_raised(
    tmp_path: Path, limit: str, raised: int
) -> None:
    with served(tmp_path, **{limit: 1}) as front:
        front.send(b"a", b"b")
        assert bodies_of(front.receive()) == [b"a"]
        waiting = front.wait_for()
        assert not waiting.done()
        front.ask(UpdateQueue(name="q", changes={limit: raised}))
        assert bodies_of(waiting.result(GIVE_UP)) == [b"b"]


@pytest.mark.parametrize("bound", [0, 1])
def test_an_extension_after_the_leases_end_begins_none_above_the_bound(bound: int) -> None:
    one = rig(q=QueueSettings(max_leased=bound, backoff_initial=Millis(0)))
    one.send(b"a")
    (first,) = one.receive(most=1)
    one.after(LEASE)
    one.ask(Send(queue="q", bodies=[b"b"], priorities={0: 9}))
    one.settle()
    assert bodies(one.receive(most=1)) == "b"
    assert first.first_received_at is not None
    last = LastReceive(first.receive_count, first.first_received_at)
    (answer,) = one.ask(
        ChangeVisibility(
            queue="q",
            receipts=first.receipts,
            visibility_timeout=LEASE,
            last_receives={0: last},
        )
    )
    assert isinstance(answer, StaleReceipt) == bool(bound)
    assert leased(one) == (1 if bound else 2)


# Bounds of groups.


def test_a_group_at_its_bound_costs_the_others_nothing() -> None:
    one = rig(q=GROUPED)
    send_groups(one, "aaaab")
    assert bodies(one.receive()) in ("aab", "baa", "aba")
    assert one.receive() == []
    assert obstacles(one)["GROUP_MAX_LEASED"] == "group a: 2 of 2 leased, 2 wait"
    send_groups(one, "c")
    assert bodies(one.receive()) == "c"


def test_a_place_of_a_group_is_free_once_its_lease_ends() -> None:
    one = rig(q=GROUPED)
    send_groups(one, "aaa")
    found = receipts(one.receive())
    one.ask(Delete(queue="q", receipts=found[:1]))
    assert bodies(one.receive()) == "a"
    assert one.receive() == []


def test_requests_of_one_commit_share_a_groups_bound() -> None:
    one = rig(q=GROUPED)
    send_groups(one, "aaaa")
    found = commit(one.engine, *(Receive(queue="q") for _ in range(4)))
    assert sum(len(receipts(each)) for each in found) == 2


def test_messages_without_a_group_have_no_bound_of_groups() -> None:
    one = rig(q=GROUPED)
    send_groups(one, "a")
    one.send(*[b"x"] * 5)
    assert len(bodies(one.receive())) == 6


# Rates.


def test_a_bucket_is_full_at_first_and_fills_by_its_rate() -> None:
    bucket = RateBucket(rate=2_500, burst=3, now=Millis(0))
    assert bucket.left(Millis(0)) == 3
    bucket.take(3, Millis(0))
    assert bucket.next(Millis(0)) == 400
    assert (bucket.left(Millis(399)), bucket.left(Millis(400))) == (0, 1)
    assert bucket.left(Millis(10_000)) == 3, "a rest brings no more than the burst"
    bucket.take(1, Millis(10_000))
    bucket.be_set(1_000, 1, Millis(10_000))
    assert bucket.left(Millis(10_000)) == 1


def test_leases_begin_by_the_rate_and_at_once_only_as_many_as_the_burst() -> None:
    one = rig(q=RATED)
    one.send(*[b"x"] * 9)
    assert len(receipts(one.receive())) == 2
    assert one.receive() == []
    assert obstacles(one)["RATE"] == "the rate is used up: the next lease begins in 0.5 s"
    one.after(300)
    assert one.receive() == []
    one.after(200)
    assert len(receipts(one.receive())) == 1
    one.after(60_000)
    assert len(receipts(one.receive())) == 2


def test_a_receive_that_waits_is_answered_when_the_rate_allows_it(tmp_path: Path) -> None:
    with served(tmp_path, rate=100) as front:
        front.send(b"a", b"b")
        assert bodies_of(front.receive(2)) == [b"a"]
        waiting = front.wait_for()
        assert not waiting.done()
        front.manual_clock.advance(10_000)
        assert bodies_of(waiting.result(GIVE_UP)) == [b"b"]


def test_a_groups_rate_holds_back_the_group_alone() -> None:
    one = rig(q=GROUP_RATED)
    send_groups(one, "aab")
    found = one.receive()
    assert sorted(bodies(found)) == ["a", "b"]
    one.ask(Delete(queue="q", receipts=receipts(found)))
    assert obstacles(one)["GROUP_RATE"] == (
        "group a: its rate is used up: the next lease begins in 10.0 s"
    )
    one.after(9_000)
    assert one.receive() == []
    one.after(1_000)
    assert bodies(one.receive()) == "a"


def test_a_group_that_was_empty_meanwhile_has_no_new_burst() -> None:
    one = rig(q=GROUP_RATED)
    send_groups(one, "a")
    one.ask(Delete(queue="q", receipts=receipts(one.receive())))
    send_groups(one, "a")
    assert one.receive() == []


def test_a_receive_that_waits_is_answered_when_a_groups_rate_allows_it(tmp_path: Path) -> None:
    with served(tmp_path, group_rate=100) as front:
        front.ask(Send(queue="q", bodies=[b"a", b"b"], groups={0: "g", 1: "g"}))
        assert bodies_of(front.wait_for(2, wait=MINUTE).result(GIVE_UP)) == [b"a"]
        waiting = front.wait_for()
        assert not waiting.done()
        front.manual_clock.advance(10_000)
        assert bodies_of(waiting.result(GIVE_UP)) == [b"b"]


# Any history.

GROUPS = ("", "a", "b")


class LimitsStory(RuleBasedStateMachine):
    """Sends, receives and ends of leases in two processes, with a death and a restart: no bound is
    ever exceeded, and at the end everything is leased once."""

    def __init__(self) -> None:
        super().__init__()
        limits = QueueSettings(
            max_leased=4, group_max_leased=2, rate=5_000, rate_burst=3, group_rate=2_000,
            group_rate_burst=2, backoff_initial=Millis(0),
        )  # fmt: skip
        self.rigs = [Rig({"q": limits})]
        self.rigs.append(self.rigs[0].join("p2"))
        self.held: list[str] = []
        self.begun: list[int] = []
        self.deaths = 0

    @property
    def now(self) -> int:
        return self.rigs[0].clock.now

    @rule(groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4), at=st.integers(0, 1))
    def send(self, groups: list[str], at: int) -> None:
        named = {place: group for place, group in enumerate(groups) if group}
        self.rigs[at].ask(Send(queue="q", bodies=[b"x"] * len(groups), groups=named))
        self.rigs[at].settle()

    @rule(at=st.integers(0, 1), most=st.integers(1, 9))
    def receive(self, at: int, most: int) -> None:
        found = receipts(self.rigs[at].receive(most=most))
        self.held += found
        self.begun += [self.now] * len(found)

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 1), delete=st.booleans())
    def end(self, at: int, delete: bool) -> None:
        receipt = self.held.pop(0)
        kind = Delete if delete else ReleaseMessages
        self.rigs[at].ask(kind(queue="q", receipts=[receipt]))

    @rule(millis=st.integers(1, 700))
    def wait(self, millis: int) -> None:
        self.rigs[0].after(millis)

    @precondition(lambda self: self.deaths < 2)
    @rule()
    def die(self) -> None:
        self.deaths += 1
        first = self.rigs[0].restart(f"p{2 * self.deaths + 1}")
        self.rigs = [first, first.join(f"p{2 * self.deaths + 2}")]

    @invariant()
    def no_bound_is_exceeded(self) -> None:
        index = self.rigs[0].engine.index.queue("q")
        assert index.counts[State.LEASED] <= 4
        for group in GROUPS[1:]:
            held = sum(
                (entry.members & entry.batch.groups.members(group)).bit_count()
                for entry in index.orders[State.LEASED]
                if entry.batch.groups is not None
            )
            assert held <= 2
        # Each process has buckets of its own, and a start full ones.
        recent = [moment for moment in self.begun if moment > self.now - 1_000]
        assert len(recent) <= 2 * (1 + self.deaths) * (3 + 5)


LimitsStory.TestCase.settings = hypothesis_settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLimitsStory = LimitsStory.TestCase
