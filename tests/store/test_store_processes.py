"""Promises of several processes on one root: each goes on with what another one has begun."""

from __future__ import annotations

from typing import Any

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Work
from spoolrack_store.files import changes
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    MessageNotFound,
    QueueNotFound,
    RootInUse,
    StaleReceipt,
)
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Release,
    Reserve,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import Rig
from tests.support.engines import applied, begun
from tests.support.linked_disk import reap

LEASE = 1_000


@pytest.fixture
def one() -> Rig:
    return Rig({"q": QueueSettings(visibility_timeout=Millis(LEASE))})


@pytest.fixture
def other(one: Rig) -> Rig:
    return one.join("p2")


def test_a_second_process_is_refused_where_it_could_not_make_durable_what_the_first_did(
    one: Rig,
) -> None:
    one.disk.can_sync_all = False

    with pytest.raises(RootInUse, match="syncfs"):
        one.join("p2")


def lease(rig: Rig, most: int = 10) -> list[Delivery]:
    return list(rig.ask(Receive(queue="q", max_messages=most)))


def prefetch(rig: Rig) -> list[Delivery]:
    """Lease two messages for a consumer that handles one at a time."""
    credits = Credits(2, lambda: None, concurrency=1)
    return list(rig.ask(Receive(queue="q", max_messages=2, credits=credits)))


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [body for each in deliveries for body in each.bodies]


def receipts(deliveries: list[Delivery]) -> list[str]:
    return [receipt for each in deliveries for receipt in each.receipts]


def die(rig: Rig, one: Rig) -> None:
    """Let a process die, and the other one notice."""
    one.living.discard(rig.engine.moves.owner)
    for _ in range(4):
        one.ask(tick=True)


def begin(rig: Rig, *requests: Any) -> Work:
    """Make a commit durable, without its answers: it publishes nothing."""
    return begun(rig.engine, *requests)


# Leases.


def test_prefetched_messages_are_left_to_the_process_that_leased_them(one: Rig, other: Rig) -> None:
    one.send(b"a", b"b")
    prefetch(one)
    one.after(LEASE)
    assert lease(other) == []
    assert [delivery.receive_count for delivery in lease(one)] == [2, 1]


def test_a_lease_that_goes_on_is_left_to_the_process_that_leased_it(one: Rig, other: Rig) -> None:
    one.send(b"a", b"b")
    extended = receipts(prefetch(one))
    one.ask(ChangeVisibility(queue="q", receipts=extended, visibility_timeout=Millis(2 * LEASE)))
    one.after(2 * LEASE)
    assert lease(other) == []
    assert [delivery.receive_count for delivery in lease(one)] == [2, 1]


def test_prefetched_messages_of_a_dead_process_come_back_a_second_later_and_count(
    one: Rig, other: Rig
) -> None:
    one.send(b"a", b"b")
    prefetch(other)
    die(other, one)
    one.after(LEASE)
    assert lease(one) == []
    one.after(1_000)
    assert [delivery.receive_count for delivery in lease(one)] == [2]


# Sends.


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_a_lease_that_a_dead_process_has_made_as_it_sent_goes_on(
    one: Rig, other: Rig, count: int, is_synced: bool
) -> None:
    one.clock.ticks = False
    work = applied(
        other.engine, Send(queue="q", bodies=[b"a"] * count), Receive(queue="q", max_messages=9)
    )
    assert work.barrier is not None
    if is_synced:
        work.barrier.sync()
    leased = receipts(work.outcomes[1])
    die(other, one)
    assert lease(one) == []
    longer = [Millis(2 * LEASE)] * count
    extended = [
        one.ask(ChangeVisibility(queue="q", receipts=[receipt], visibility_timeout=visibility))
        for receipt, visibility in zip(leased, longer, strict=True)
    ]
    assert extended == [[one.clock.wall() + 2 * LEASE]] * count
    one.after(LEASE)
    assert one.ask(Delete(queue="q", receipts=leased)) == [None] * count
    one.after(LEASE)
    assert lease(one) == []


def test_a_start_misses_nothing_of_what_a_living_process_leased_as_it_sent(
    one: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    work = begin(one, Send(queue="q", bodies=[b"a", b"b"]), Receive(queue="q", max_messages=1))
    assert one.engine.finish(work) is not None
    other = one.join("p2")
    assert not [each.message for each in caplog.records if "no name lists" in each.message]
    one.ask()
    assert bodies(lease(other)) == [b"b"]


def test_a_message_leased_as_another_process_deletes_its_queue_is_gone(one: Rig, other: Rig) -> None:
    work = begin(one, Send(queue="q", bodies=[b"a", b"b"]), Receive(queue="q", max_messages=1))
    other.ask(DeleteQueue(name="q"))
    one.engine.finish(work)
    for _ in range(6):
        for rig in (one, other):
            rig.ask(tick=True)
            reap(rig.engine)
    assert other.ask(CreateQueue(name="q", settings=QueueSettings())).counts.ready_count == 0
    one.after(LEASE)
    assert lease(one) == []
    assert [each.name for folder in ("new", "delay", "remove") for each in one.disk.scan(folder)] == []


@pytest.mark.parametrize("sent", [[b"a"], [b"a", b"b"]])
def test_a_message_that_another_process_has_in_new_is_not_reported_missing(
    one: Rig, other: Rig, sent: list[bytes]
) -> None:
    (stored,) = begin(other, Send(queue="q", bodies=sent)).outcomes
    ids = list(stored.results)
    delete = Delete(queue="q", ids=ids)
    refused = one.ask(delete)
    assert [type(each) for each in refused] == [DiskError] * len(ids)
    assert "is not in its queue yet; try again" in str(refused[0])
    one.living.discard("p2")
    assert [type(each) for each in one.ask(delete)] == [DiskError] * len(ids)
    die(other, one)
    assert one.ask(delete) == [None] * len(ids)
    assert [type(each) for each in one.ask(delete)] == [MessageNotFound] * len(ids)


def test_messages_sent_after_orphan_recovery_stand_behind_the_dead_process_s(one: Rig) -> None:
    one.clock.ticks = False
    for number in range(20):  # All in one millisecond, in which only the ids tell who was first.
        dead = one.join(f"dead{number}")
        begin(dead, Send(queue="q", bodies=[b"first", b"second"]))
        die(dead, one)
        one.ask(Send(queue="q", bodies=[b"third"]))
        one.ask()
        assert bodies(lease(one)) == [b"first", b"second", b"third"]


# Messages, wherever another process has moved them.


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("sent", [[b"a"], [b"a", b"b"]])
def test_a_purge_takes_what_another_process_has_answered_and_not_published(
    one: Rig, other: Rig, sent: list[bytes], dies: bool
) -> None:
    work = begin(other, Send(queue="q", bodies=sent))
    other.engine.finish(work)  # It is answered.
    assert one.ask(Purge(queue="q")) == len(sent)
    if dies:
        die(other, one)
    else:
        other.ask()
        assert lease(other) == []
    assert lease(one) == []
    assert list(one.disk.scan("new")) == list(one.disk.scan("queues/q")) == []


def test_a_purge_during_a_send_of_another_process_leaves_nothing_half_done(
    one: Rig, other: Rig
) -> None:
    work = begin(other, Send(queue="q", bodies=[b"a", b"b"]), Receive(queue="q", max_messages=1))
    one.ask(Purge(queue="q"))
    outcomes = other.engine.finish(work)
    assert outcomes is not None
    receipts_of_other = receipts(outcomes[1])
    deleted = other.ask(Delete(queue="q", receipts=receipts_of_other))
    assert deleted == [None] * len(receipts_of_other)
    one.after(LEASE)
    for each in (other, one):
        each.ask(tick=True)
        assert lease(each) == []


def test_a_purge_takes_what_a_process_has_in_new_that_others_have_overtaken(
    one: Rig, other: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(changes, "RING", 1_600)
    work = begin(one, Send(queue="q", bodies=[b"a"]))
    assert other.ask(Purge(queue="q")) == 1
    for _ in range(20):
        other.send(b"b")
        other.ask(Purge(queue="q"))
        reap(other.engine)
    assert one.engine.finish(work) is not None
    one.ask()
    assert lease(one) == []
    assert not [each.message for each in caplog.records if "by hand" in each.message]


# Queues.


def test_a_queue_can_be_made_again_as_soon_as_another_process_has_deleted_it(
    one: Rig, other: Rig
) -> None:
    one.ask(DeleteQueue(name="q"))
    other.ask()
    for _ in range(6):
        one.ask()
        reap(one.engine)
    assert not list(one.disk.scan("config"))
    other.ask(CreateQueue(name="q", settings=QueueSettings()))
    other.send(b"a")
    assert len(lease(one)) == 1


def test_a_queue_that_was_deleted_while_a_process_rested_does_not_come_back(
    one: Rig, other: Rig
) -> None:
    one.ask(UpdateQueue(name="q", changes={"max_messages": 5}))
    other.ask()
    one.ask(DeleteQueue(name="q"))
    for _ in range(6):
        one.ask()
        reap(one.engine)
    assert not list(one.disk.scan("config"))
    for _ in range(3):
        other.ask(tick=True)
    assert not list(one.disk.scan("config"))
    with pytest.raises(QueueNotFound):
        other.send(b"a")


def test_a_message_sent_as_its_queue_is_deleted_comes_into_no_later_queue(one: Rig, other: Rig) -> None:
    work = begin(other, Send(queue="q", bodies=[b"late"]))
    one.ask(DeleteQueue(name="q"))
    other.engine.finish(work)
    for _ in range(6):
        one.ask()
        other.ask()
    one.ask(CreateQueue(name="q", settings=QueueSettings()))
    assert lease(one) == lease(other) == []


# Promises that were broken once.


def test_a_purge_takes_a_message_whose_repetition_was_answered_and_whose_sender_was_not(
    one: Rig, other: Rig
) -> None:
    third = one.join("p3")
    sending = Send(queue="q", bodies=[b"a"], deduplication_ids={0: "id"})
    work = applied(other.engine, sending)
    repeated = third.ask(sending)
    assert repeated.duplicates == {0}
    assert one.ask(Purge(queue="q")) == 1
    assert work.barrier is not None
    work.barrier.sync()
    other.engine.finish(work)
    for each in (other, third, one):
        each.ask(tick=True)
        assert lease(each) == []
    assert one.ask(sending).duplicates == {0}, "the id is taken nevertheless"


def test_a_set_that_one_process_releases_and_another_commits_at_once_ends_in_one_way(
    one: Rig, other: Rig
) -> None:
    one.send(b"a")
    other.ask(Reserve(queue="q", stream="s", sequence_number=1, visibility_timeout=Millis(60_000)))
    work = begin(other, Release(stream="s", sequence_number=1))
    committed = one.ask(CommitReservations(stream="s", last_sequence_number=1))
    assert (committed.deleted_count, committed.lost_sequence_numbers) == (0, [1]), "it was lost before"
    other.engine.finish(work)
    for _ in range(4):
        one.ask(tick=True)
    assert bodies(lease(one)) == [b"a"]


def test_a_set_that_is_confirmed_and_committed_at_once_is_committed(one: Rig, other: Rig) -> None:
    one.send(b"a")
    one.ask(Reserve(queue="q", stream="s", sequence_number=2, visibility_timeout=Millis(60_000)))
    outcomes = begin(
        one,
        CommitReservations(stream="s", last_sequence_number=2),
        ExtendReservation(stream="s", sequence_number=2, visibility_timeout=Millis(90_000)),
    ).outcomes
    assert outcomes[0].deleted_count == 1
    for _ in range(6):
        one.ask(tick=True)
    one.after(100_000)
    for each in (one, other):
        each.ask(tick=True)
        assert lease(each) == []


def test_an_old_receipt_of_what_another_process_has_redriven_works_no_more() -> None:
    one = Rig()
    other = one.join("p2")
    one.send(b"a")
    (delivery,) = one.receive()
    one.after(LEASE)
    one.ask()
    one.settle()
    other.redrive()
    results = one.ask(Delete(queue="q", receipts=delivery.receipts))
    assert [type(each) for each in results] == [StaleReceipt]
    assert one.ids("q") == list(delivery.ids)
