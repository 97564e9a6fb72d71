"""A receive counts once the consumer begins the message: prefetched messages come back uncounted."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    GiveBack,
    MessageFilter,
    Receive,
    RejectMessages,
    ReleaseMessages,
)
from spoolrack_store.model.settings import QueueSettings

from tests.store.front_rig import FrontRig, opened

LEASE = Millis(5_000)


def consumer(concurrency: int, limit: int = 10) -> Credits:
    return Credits(limit, lambda: None, concurrency=concurrency)


def receive(rig: FrontRig, credits: Credits, most: int = 10) -> list[str]:
    """Return the receipts of what the consumer gets now."""
    found = rig.ask(Receive(queue="q", max_messages=most, visibility_timeout=LEASE, credits=credits))
    return [receipt for delivery in found for receipt in delivery.receipts]


def expire(rig: FrontRig, millis: int = LEASE) -> None:
    assert isinstance(rig.clock, ManualClock)
    rig.clock.advance(millis)
    rig.in_turn()


def receives(rig: FrontRig, queue: str = "q") -> list[int]:
    """Return how often each message was received, in order."""
    found = rig.store.page(queue, MessageFilter(), after="", skip=0, limit=100, max_body_bytes=0)
    return [message.receive_count for message in found.messages]


def test_of_a_silent_consumer_only_as_many_receives_count_as_it_handles_at_a_time(
    rig: FrontRig,
) -> None:
    rig.send(*[b"x"] * 5)
    receive(rig, consumer(2))
    assert receives(rig) == [1] * 5
    expire(rig)
    assert receives(rig) == [1, 1, 0, 0, 0]


def test_a_consumer_without_a_concurrency_is_counted_for_all_that_it_got(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 3)
    credits = consumer(0)
    receive(rig, credits)
    expire(rig)
    assert receives(rig) == [1, 1, 1]
    assert len(receive(rig, credits)) == 3


def test_a_silent_consumer_gets_nothing_new_until_it_reports(rig: FrontRig) -> None:
    rig.send(b"1", b"2", b"3")
    credits = consumer(1)
    receive(rig, credits)
    expire(rig)
    assert credits.is_silent
    assert receive(rig, credits) == []
    waiting = rig.store.submit(Receive(queue="q", max_messages=9, wait=None, credits=credits))
    rig.in_turn()
    assert not waiting.done()
    credits.report(3)
    rig.store.retry_receives()
    assert [delivery.receive_count for delivery in waiting.result(60)] == [2, 1]


def test_a_silent_consumer_gets_something_new_once_it_answers(rig: FrontRig) -> None:
    rig.send(b"1", b"2", b"3")
    credits = consumer(1)
    first, *_ = receive(rig, credits)
    rig.ask(ChangeVisibility(queue="q", receipts=[first], visibility_timeout=Millis(3_600_000)))
    expire(rig)
    assert receive(rig, credits) == []
    rig.ask(Delete(queue="q", receipts=[first]))
    assert len(receive(rig, credits)) == 2


def test_a_message_that_was_begun_and_forgotten_makes_no_consumer_silent(rig: FrontRig) -> None:
    rig.send(b"1")
    credits = consumer(1)
    for count in (1, 2, 3):
        receive(rig, credits)
        credits.report(count)
        expire(rig)
        assert receives(rig) == [count]


def test_each_answer_tells_how_far_the_consumer_is(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 6)
    receipts = receive(rig, consumer(2))
    rig.ask(Delete(queue="q", receipts=receipts[1:2]))
    rig.ask(ReleaseMessages(queue="q", receipts=receipts[2:3], delay=Millis(3_600_000)))
    expire(rig)
    # It had the first and the fourth in hand.
    assert receives(rig) == [1, 1, 1, 0, 0]


def test_a_rejection_is_an_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.ask(CreateQueue(name="dead", settings=QueueSettings()))
        settings = QueueSettings(max_receives=9, dead_letter_queue="dead")
        rig.ask(CreateQueue(name="jobs", settings=settings))
        rig.send(*[b"x"] * 3, queue="jobs")
        found = rig.ask(
            Receive(queue="jobs", max_messages=3, visibility_timeout=LEASE, credits=consumer(1))
        )
        rejected = found[0].receipts[:1]
        assert rig.ask(RejectMessages(queue="jobs", receipts=rejected)) == [None]
        rig.in_turn()
        rig.in_turn()
        expire(rig)
        assert receives(rig, "jobs") == [1, 0]


def test_a_report_tells_how_far_a_consumer_is_that_answers_late(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 5)
    credits = consumer(1)
    receive(rig, credits)
    credits.report(3)
    credits.report(2)
    expire(rig)
    assert receives(rig) == [1, 1, 1, 0, 0]


def test_an_extended_message_keeps_its_place_in_the_order_of_delivery(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 4)
    receipts = receive(rig, consumer(2))
    for receipt in (receipts[3], receipts[0], receipts[2]):
        rig.ask(ChangeVisibility(queue="q", receipts=[receipt], visibility_timeout=LEASE))
    expire(rig)
    assert receives(rig) == [1, 1, 0, 0]


def test_messages_that_reached_no_consumer_move_no_other_ones_place(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 4)
    credits = consumer(1)
    lost = receive(rig, credits, 2)
    rig.ask(GiveBack(queue="q", receipts=lost))
    # All four reach it now, and it begins three of them.
    assert len(receive(rig, credits)) == 4
    credits.report(3)
    expire(rig)
    assert receives(rig) == [1, 1, 1, 0]


def test_a_response_that_is_lost_is_no_answer(rig: FrontRig) -> None:
    rig.send(*[b"x"] * 4)
    credits = consumer(1)
    receive(rig, credits, 2)
    lost = receive(rig, credits, 2)
    rig.ask(GiveBack(queue="q", receipts=lost))
    expire(rig)
    assert receives(rig) == [1, 0, 0, 0]


def test_a_frozen_consumer_kills_no_more_messages_than_it_handles_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.ask(CreateQueue(name="dead", settings=QueueSettings()))
        settings = QueueSettings(max_receives=1, dead_letter_queue="dead")
        rig.ask(CreateQueue(name="jobs", settings=settings))
        rig.send(*[b"x"] * 10, queue="jobs")
        credits = consumer(1)
        wanted = Receive(queue="jobs", max_messages=10, visibility_timeout=LEASE, credits=credits)
        rig.ask(wanted)
        for _ in range(5):
            expire(rig)
            assert rig.ask(wanted) == []
        assert receives(rig, "jobs") == [0] * 9
        assert len(receives(rig, "dead")) == 1


def test_a_consumer_that_was_silent_dies_of_what_it_begins_again(rig: FrontRig) -> None:
    rig.send(b"1", b"2", b"3")
    credits = consumer(1)
    receive(rig, credits)
    expire(rig)
    credits.report(3)
    first, *_ = receive(rig, credits)
    rig.ask(Delete(queue="q", receipts=[first]))
    expire(rig)
    assert receives(rig) == [1, 0]


@pytest.mark.parametrize("prefetched", [0, 3])
def test_a_message_whose_handler_outlasts_its_lease_is_counted_each_time(
    rig: FrontRig, prefetched: int
) -> None:
    rig.send(b"long", *[b"x"] * prefetched)
    credits = consumer(1, limit=1 + prefetched)
    for count in (1, 2, 3):
        receive(rig, credits)
        expire(rig)
        assert receives(rig) == [count] + [0] * prefetched
        # It handled the first one throughout, and drops what waited meanwhile.
        receive(rig, credits)
        expire(rig)
        credits.report(credits.delivered)


def test_a_prefetched_message_is_ready_at_once_whatever_the_back_off(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        settings = QueueSettings(backoff_at="lease_end", backoff_initial=Millis(60_000))
        rig.ask(CreateQueue(name="jobs", settings=settings))
        rig.send(b"1", b"2", queue="jobs")
        rig.ask(Receive(queue="jobs", max_messages=2, visibility_timeout=LEASE, credits=consumer(1)))
        expire(rig)
        counts = rig.store.queue("jobs").counts
        assert (counts.ready_count, counts.delayed_count) == (1, 1)
