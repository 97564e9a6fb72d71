"""A deduplication id is stored once within its window, whatever becomes of the first message."""

from __future__ import annotations

import errno

import pytest
from deduplication_rig import WINDOW, a_root, create, reap, send, waiting
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskFull,
    InvalidMessage,
    MessageTooLarge,
    QueueFull,
    TooManyDeduplicationIds,
)
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Receive,
    Send,
    Sent,
    UpdateQueue,
)


def test_a_second_message_with_an_id_is_answered_with_the_first_one_and_not_stored() -> None:
    rig = a_root()
    (first,) = send(rig, "a")

    (again,) = send(rig, "a", body=b"another body")

    assert not first.is_duplicate
    assert again == Sent(id=first.id, sent_at=first.sent_at, is_duplicate=True)
    assert waiting(rig) == 1


def test_an_id_counts_in_its_own_queue_only_and_others_are_none() -> None:
    rig = a_root()
    create(rig, "r")

    assert [each.is_duplicate for each in send(rig, "a", "b", "", "")] == [False] * 4
    assert not send(rig, "a", queue="r")[0].is_duplicate
    assert (waiting(rig), waiting(rig, "r")) == (4, 1)


def test_ids_are_told_apart_within_one_request_and_within_one_commit() -> None:
    rig = a_root()

    first, again, other = send(rig, "a", "a", "b")
    assert (again.id, again.is_duplicate) == (first.id, True)
    assert not other.is_duplicate

    one, two = rig.commit(
        Send(queue="q", messages=[Outgoing(body=b"1", deduplication_id="c")]),
        Send(queue="q", messages=[Outgoing(body=b"2", deduplication_id="c")] * 2),
    )
    assert [each.id for each in [*one, *two]] == [one[0].id] * 3
    assert [each.is_duplicate for each in [*one, *two]] == [False, True, True]
    assert waiting(rig) == 3


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("reaped", [False, True])
@pytest.mark.parametrize("how", ["ready", "leased", "delayed", "by id", "by receipt", "purged", "part"])
def test_an_id_is_refused_wherever_its_message_is_and_also_after_it_is_gone(
    how: str, reaped: bool, restarted: bool
) -> None:
    rig = a_root()
    if how == "delayed":
        rig.commit(Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id="a", delay=5_000)]))
        ids = [send(rig, "a")[0].id]
    else:
        ids = [each.id for each in send(rig, "a", "b", "c")]
    match how:
        case "leased":
            rig.commit(Receive(queue="q", max_messages=9))
        case "by id":
            rig.commit(Delete(queue="q", targets=[ById(id) for id in ids]))
        case "by receipt" | "part":
            (messages,) = rig.commit(Receive(queue="q", max_messages=9))
            some = messages[: 2 if how == "part" else 9]
            rig.commit(Delete(queue="q", targets=[ByReceipt(each.receipt) for each in some]))
        case "purged":
            rig.commit(Purge(queue="q"))
    if reaped:
        reap(rig)
    if restarted:
        rig.restart()

    again = send(rig, *"abc"[: len(ids)])

    assert [(each.id, each.is_duplicate) for each in again] == [(id, True) for id in ids]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_an_id_may_be_sent_again_when_its_window_is_over_and_not_before(
    deleted: bool, restarted: bool
) -> None:
    rig = a_root()
    (first,) = send(rig, "a")
    if deleted:
        rig.commit(Delete(queue="q", targets=[ById(first.id)]))
        reap(rig)
    rig.clock.advance(WINDOW - 1)
    if restarted:
        rig.restart()
    assert send(rig, "a")[0].id == first.id

    rig.clock.advance(1)
    if restarted:
        rig.restart()

    (later,) = send(rig, "a")
    assert not later.is_duplicate
    assert later.id > first.id
    rig.restart()
    assert send(rig, "a")[0].id == later.id


def test_an_invalid_id_fails_its_own_message_alone() -> None:
    rig = a_root()

    results = send(rig, "a", "x" * 128, "x" * 129, "\ud800", "ü" * 128)

    assert [isinstance(each, Sent) for each in results] == [True, True, False, False, True]
    assert all(isinstance(each, InvalidMessage) for each in results[2:4])


def test_a_send_that_fails_takes_no_id() -> None:
    rig = a_root(max_messages=1, max_message_size=10)
    assert isinstance(send(rig, "a", body=b"x" * 11)[0], MessageTooLarge)
    full = send(rig, "b", "a")
    assert isinstance(full[1], QueueFull)
    rig.commit(Delete(queue="q", targets=[ById(full[0].id)]))

    disk = FaultyDisk(rig.disk)
    rig.die()
    rig = EngineRig(disk, seed=2)
    disk.fail(errno.ENOSPC, "create", path="new/")
    assert [type(each) for each in send(rig, "a", "a")] == [DiskFull, DiskFull]
    disk.heal()

    assert not send(rig, "a")[0].is_duplicate


def test_a_repetition_is_answered_also_when_the_queue_is_full() -> None:
    rig = a_root(max_messages=1)
    (first,) = send(rig, "a")

    assert send(rig, "a")[0].id == first.id


def test_a_queue_that_is_made_again_remembers_no_id_of_the_former_one() -> None:
    rig = a_root()
    ids = [each.id for each in send(rig, "a", "b")]
    rig.commit(Delete(queue="q", targets=[ById(ids[0])]))
    reap(rig)
    rig.commit(DeleteQueue(name="q"))
    rig.engine.tick()
    rig.commit()
    create(rig, "q", deduplication_window=Millis(WINDOW))
    rig.restart()

    assert [each.is_duplicate for each in send(rig, "a", "b")] == [False, False]


def test_a_dead_letter_holds_its_id_in_its_own_queue_and_not_in_the_dead_letter_queue() -> None:
    rig = EngineRig(MemoryDisk())
    create(rig, "d")
    create(rig, "q", max_receives=1, dead_letter_queue="d")
    (first,) = send(rig, "a")
    rig.commit(Receive(queue="q", visibility=Millis(1_000)))
    rig.clock.advance(1_000)
    rig.engine.tick()
    rig.commit(Receive(queue="q"))
    assert waiting(rig, "d") == 1
    rig.restart()

    assert send(rig, "a")[0].id == first.id
    assert not send(rig, "a", queue="d")[0].is_duplicate
    rig.commit(Purge(queue="d"))
    reap(rig)
    rig.restart()
    assert send(rig, "a")[0].id == first.id


def test_a_window_that_is_set_counts_from_the_send() -> None:
    rig = a_root()
    (first,) = send(rig, "a")
    rig.clock.advance(20_000)
    rig.commit(UpdateQueue(name="q", changes={"deduplication_window": Millis(100_000)}))
    rig.clock.advance(60_000)
    assert send(rig, "a")[0].id == first.id
    rig.commit(UpdateQueue(name="q", changes={"deduplication_window": Millis(30_000)}))

    assert not send(rig, "a")[0].is_duplicate


def test_a_queue_with_too_many_ids_takes_no_new_one_until_the_oldest_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spoolrack_store.engine.deduplicating.deduplication.MAX_KEYS", 3)
    rig = a_root()
    first = send(rig, "a")[0]
    rig.clock.advance(10_000)

    results = send(rig, "b", "c", "d", "a")

    assert isinstance(results[2], TooManyDeduplicationIds)
    assert results[3].id == first.id
    assert not send(rig, "")[0].is_duplicate
    rig.clock.advance(WINDOW - 10_000)
    assert not send(rig, "d")[0].is_duplicate
