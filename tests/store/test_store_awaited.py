"""Messages that are leased as they are sent, because a receive waits for them."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.errors import StaleReceipt
from spoolrack_store.model.operations import Delete, DeleteQueue, Purge, Receive, Send

from tests.store.trouble_rig import Rig

LEASE = 30_000


@pytest.fixture
def rig() -> Rig:
    return Rig()


def sending(*bodies: bytes, delay: int = 0, queue: str = "q") -> Send:
    delays = dict.fromkeys(range(len(bodies)), Millis(delay)) if delay else {}
    return Send(queue=queue, bodies=bodies, delays=delays)


def receiving(most: int = 9, **options: Any) -> Receive:
    return Receive(queue="q", max_messages=most, visibility=Millis(LEASE), **options)


def bodies(deliveries: Any) -> list[bytes]:
    return [body for each in deliveries for body in each.bodies]


def receipts(deliveries: Any) -> list[str]:
    return [receipt for each in deliveries for receipt in each.receipts]


def publish(rig: Rig) -> None:
    for _ in range(2):
        rig.commit()


def called(rig: Rig, *names: str) -> list[tuple[Any, ...]]:
    return [arguments for name, arguments in rig.disk.called if name in names]


@pytest.mark.parametrize("count", [1, 5])
def test_a_message_leased_as_it_is_sent_is_not_read_and_touches_no_queue(count: int) -> None:
    rig = Rig(cache_bytes=1 << 20)
    rig.commit()
    rig.disk.called.clear()
    _, found = rig.commit(sending(*[b"x"] * count), receiving())
    assert bodies(found) == [b"x"] * count
    assert not called(rig, "read", "scan")
    moved = called(rig, "rename_new", "link")
    assert [(source[:4], target[:6]) for source, target in moved] == [
        ("new/", "new/q:"),
        ("new/", "delay/"),
    ]
    rig.check()


def test_ready_messages_come_first_and_new_ones_fill_the_rest(rig: Rig) -> None:
    rig.send(b"old")
    publish(rig)
    _, found = rig.commit(sending(b"new"), receiving(2))
    assert bodies(found) == [b"old", b"new"]
    rig.send(b"1", b"2")
    publish(rig)
    _, first, second = rig.commit(sending(b"3"), receiving(1), receiving(1))
    assert bodies(first) + bodies(second) == [b"1", b"2"]
    publish(rig)
    assert bodies(rig.ask(receiving())) == [b"3"]
    rig.check()


def test_a_new_message_does_not_overtake_one_that_is_too_large_for_now(rig: Rig) -> None:
    rig.send(b"123")
    rig.send(b"4567")
    publish(rig)
    _, found = rig.commit(sending(b"8"), receiving(max_bytes=5))
    assert bodies(found) == [b"123"]
    publish(rig)
    assert bodies(rig.ask(receiving())) == [b"4567", b"8"]


def test_several_receives_are_served_in_turn_in_the_order_of_the_sends(rig: Rig) -> None:
    eight = [b"%d" % number for number in range(8)]
    outcomes = rig.commit(
        sending(*eight), sending(b"a"), receiving(8), sending(b"b"), receiving(), receiving()
    )
    assert [bodies(outcomes[at]) for at in (2, 4, 5)] == [eight, [b"a", b"b"], []]
    publish(rig)
    rig.check()


def test_bytes_bound_what_is_taken_but_for_a_single_first_one(rig: Rig) -> None:
    _, one = rig.commit(sending(b"x" * 10), receiving(max_bytes=5))
    assert bodies(one) == [b"x" * 10]
    _, part = rig.commit(sending(b"abc", b"def"), receiving(max_bytes=5))
    assert bodies(part) == [b"abc"]
    publish(rig)
    assert bodies(rig.ask(receiving())) == [b"def"]
    rig.check()


def test_a_credit_is_not_spent_twice_by_one_commit(rig: Rig) -> None:
    credits = Credits(8, lambda: None)
    receive = receiving(100, credits=credits)
    *_, first, second = rig.commit(sending(*[b"x"] * 8), sending(*[b"y"] * 8), receive, receive)
    assert (len(bodies(first)), len(bodies(second))) == (8, 0)
    assert credits.in_flight == 8
    rig.delete(*receipts(first))
    assert credits.in_flight == 0


def test_a_delayed_message_is_not_received_before_its_delay_ends(rig: Rig) -> None:
    _, found = rig.commit(sending(b"late", delay=5_000), receiving())
    assert found == []
    publish(rig)
    rig.advance(4_999)
    assert rig.receive() == {}
    rig.advance(1)
    assert len(rig.receive()) == 1


def test_the_receive_counts_so_that_a_message_becomes_a_dead_letter_in_time(rig: Rig) -> None:
    rig.add("dead")
    rig.add("once", max_receives=1, dead_letter_queue="dead")
    receive = Receive(queue="once", visibility=Millis(LEASE))
    _, found = rig.commit(sending(b"x", queue="once"), receive)
    assert bodies(found) == [b"x"]
    rig.advance(LEASE)
    publish(rig)
    assert [body for _, body in rig.receive(queue="dead").values()] == [b"x"]


@pytest.mark.parametrize("is_purge", [True, False])
def test_a_purge_or_a_delete_by_id_right_afterwards_finds_it(rig: Rig, is_purge: bool) -> None:
    stored, _ = rig.commit(sending(b"x"), receiving())
    if is_purge:
        assert rig.ask(Purge(queue="q")) == 1
    else:
        assert rig.ask(Delete(queue="q", ids=stored.results)) == [None]
    publish(rig)
    rig.advance(LEASE)
    assert rig.receive() == {}
    rig.check()


def test_a_deduplication_id_is_taken_by_what_is_leased_at_once_also_after_a_restart(rig: Rig) -> None:
    send = Send(queue="q", bodies=[b"x"], deduplication_ids={0: "a"})
    stored, found = rig.commit(send, receiving())
    assert bodies(found) == [b"x"]
    for _ in range(2):
        again = rig.ask(send)
        assert (again.results, again.duplicates) == (stored.results, {0})
        rig.start()


# Ends.


def test_a_restart_finds_the_lease_as_it_was_and_its_receipt_is_good(rig: Rig) -> None:
    _, found = rig.commit(sending(b"a", b"b"), receiving())
    rig.start()
    assert rig.receive() == {}
    first, _ = receipts(found)
    assert rig.delete(first) == [None]
    rig.advance(LEASE)
    (delivery,) = rig.ask(receiving())
    assert (delivery.bodies, delivery.receives) == ([b"b"], 2)


@pytest.mark.parametrize("after", [0, LEASE])
def test_a_lease_of_which_no_consumer_was_told_ends_when_it_is_due(rig: Rig, after: int) -> None:
    work = rig.engine.apply([sending(b"a", b"b"), receiving()])
    assert work is not None
    assert work.commit is not None
    work.commit.sync()
    rig.advance(after)
    rig.start()
    publish(rig)
    if not after:
        assert rig.receive() == {}
        rig.advance(LEASE)
    assert [body for _, body in rig.receive().values()] == [b"a", b"b"]


def test_a_message_that_cannot_be_leased_at_once_is_sent_all_the_same(rig: Rig) -> None:
    rig.disk.fail(errno.EIO, "rename_new", "link", path="new/", times=1)
    stored, found = rig.commit(sending(b"a"), receiving())
    assert found == []
    assert list(rig.receive()) == stored.results


def test_a_lease_that_cannot_be_handed_out_is_told_to_no_consumer_and_comes_back(rig: Rig) -> None:
    rig.disk.fail(errno.EIO, "rename_new", path="delay/", times=1)
    stored, found = rig.commit(sending(b"a"), receiving())
    assert found == []
    rig.commit()
    rig.advance(LEASE)
    publish(rig)
    assert list(rig.receive()) == stored.results


def test_flow_control_counts_no_lease_that_is_not_handed_out_as_the_lock_fails(rig: Rig) -> None:
    credits = Credits(8, lambda: None)
    work = rig.engine.apply([sending(b"a"), receiving(credits=credits)])
    assert work is not None
    assert work.commit is not None
    work.commit.sync()
    rig.disk.fail(errno.EIO, "lock", times=1)
    (stored, found) = rig.engine.finish(work) or []
    assert found == []
    assert (credits.in_flight, credits.bytes_in_flight, credits.delivered) == (0, 0, 0)
    rig.commit()
    rig.advance(LEASE)
    publish(rig)
    assert list(rig.receive()) == stored.results


def test_a_queue_that_is_deleted_right_afterwards_takes_the_lease_with_it(rig: Rig) -> None:
    _, found = rig.commit(sending(b"a"), receiving())
    rig.ask(DeleteQueue(name="q"))
    for _ in range(6):
        rig.commit()
    rig.add("q")
    assert not isinstance(rig.delete(*receipts(found))[0], StaleReceipt)
    rig.advance(LEASE)
    assert rig.receive() == {}
    assert rig.paths("new", "delay", "remove", "queues/q") == []
