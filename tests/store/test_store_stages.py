"""Stages: messages that are stored and that nobody sees, until all of them appear, or none does."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.errors import (
    DiskError,
    EpochDiffers,
    InvalidMessage,
    InvalidRequest,
    QueueBeingDeleted,
    QueueFull,
    QueueNotFound,
    StageNotFound,
)
from spoolrack_store.model.operations import ById, Delete, DeleteQueue, Outgoing, Purge
from spoolrack_store.model.staging import Abort, Published, Stage, Staged, StageInfo
from stage_rig import chunk, names_in, publication, publish, stage

START = 1_700_000_000_000


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(MemoryDisk())


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create("q")
    rig.create("other")
    return rig


def bodies(rig: EngineRig, queue: str = "q") -> list[bytes]:
    return [message.body for message in rig.receive(100, queue=queue)]


# Staging.


def test_what_is_staged_is_seen_by_nobody(rig: EngineRig) -> None:
    assert stage(rig, "s", 0, b"a", b"b") == Staged(
        messages=2, is_repeated=False, expires_at=Millis(START + DAY)
    )
    assert rig.receive(10) == []
    assert rig.sights() == []
    rig.check()


def test_a_chunk_that_is_there_is_answered_and_not_stored_again(rig: EngineRig) -> None:
    first = stage(rig, "s", 7, b"a", b"b")
    rig.clock.advance(5)

    again = stage(rig, "s", 7, b"something else")

    assert again == Staged(messages=2, is_repeated=True, expires_at=first.expires_at)
    assert publish(rig, "w", 0, "s").messages == 2
    assert bodies(rig) == [b"a", b"b"]


def test_a_chunk_that_comes_twice_in_one_commit_is_stored_once(rig: EngineRig) -> None:
    first, second = rig.commit(chunk("s", 0, b"a"), chunk("s", 0, b"b"))
    assert (first.is_repeated, second.is_repeated) == (False, True)
    publish(rig, "w", 0, "s")
    assert bodies(rig) == [b"a"]


def test_a_chunk_is_found_again_after_a_restart(rig: EngineRig) -> None:
    first = stage(rig, "s", 0, b"a")
    rig.restart()
    assert stage(rig, "s", 0, b"b") == Staged(messages=1, is_repeated=True, expires_at=first.expires_at)


def test_the_first_chunk_decides_when_a_stage_expires(rig: EngineRig) -> None:
    first = rig.ask(chunk("s", 0, b"a", time_to_live=5_000))
    rig.clock.advance(1_000)
    assert rig.ask(chunk("s", 1, b"b", time_to_live=500_000)).expires_at == first.expires_at


def test_one_message_that_is_not_valid_fails_its_chunk_and_is_named(rig: EngineRig) -> None:
    messages = [Outgoing(body=b"a"), Outgoing(body=b"b", attributes={"": "no name"})]
    with pytest.raises(InvalidMessage, match="number 1"):
        rig.ask(Stage(stage="s", chunk=0, queue="q", messages=messages))
    assert names_in(rig.disk, "staged") == []


@pytest.mark.parametrize(
    "messages",
    [
        [Outgoing(body=b"a"), Outgoing(body=b"b", delay=Millis(5))],
        [Outgoing(body=b"a", deduplication_id="once")],
        [Outgoing(body=b"a", delay=Millis(-1))],
    ],
    ids=["two delays", "a deduplication id", "a negative delay"],
)
def test_what_no_stage_takes_is_refused(rig: EngineRig, messages: list[Outgoing]) -> None:
    with pytest.raises(InvalidMessage):
        rig.ask(Stage(stage="s", chunk=0, queue="q", messages=messages))
    assert names_in(rig.disk, "staged") == []


@pytest.mark.parametrize(
    "request_",
    [
        chunk("", 0, b"a"),
        chunk("../x", 0, b"a"),
        chunk("a" * 65, 0, b"a"),
        chunk("a.b", 0, b"a"),
        chunk("s", -1, b"a"),
        chunk("s", 1_000_000_000, b"a"),
        chunk("s", 0, b"a", time_to_live=999),
        chunk("s", 0, b"a", time_to_live=15 * DAY),
        chunk("s", 0),
        publication("", 0),
        publication("w/w", 0),
        publication("w", -1),
        publication("w", 2**63),
        publication("w", 0, "a b"),
        publication("w", 0, memory=1),
        Abort(stage="~"),
    ],
    ids=repr,
)
def test_a_request_that_cannot_be_meant_is_refused_before_a_byte_is_written(
    rig: EngineRig, request_: Stage
) -> None:
    with pytest.raises(InvalidRequest):
        rig.ask(request_)
    assert (names_in(rig.disk, "staged"), names_in(rig.disk, "published")) == ([], [])


def test_a_chunk_for_no_queue_is_refused(rig: EngineRig) -> None:
    with pytest.raises(QueueNotFound):
        stage(rig, "s", 0, b"a", queue="nobodys")
    assert names_in(rig.disk, "staged") == []


def test_a_chunk_that_cannot_be_written_leaves_nothing(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.EIO, "create", skip=1, times=1)
    with pytest.raises(DiskError):
        stage(rig, "s", 0, b"a", b"b")
    assert names_in(disk, "staged") == []
    assert not stage(rig, "s", 0, b"c").is_repeated
    publish(rig, "w", 0, "s")
    assert bodies(rig) == [b"c"]


def test_the_stages_are_listed_with_what_they_hold(rig: EngineRig) -> None:
    stage(rig, "b", 0, b"1", b"2")
    stage(rig, "b", 1, b"3", queue="other")
    stage(rig, "a", 0, b"4")
    due = Millis(START + DAY)
    a = StageInfo(name="a", chunks=1, messages={"q": 1}, expires_at=due)
    b = StageInfo(name="b", chunks=2, messages={"q": 2, "other": 1}, expires_at=due)
    assert rig.engine.staging.listed("", 10) == [a, b]
    assert rig.engine.staging.listed("", 1) == [a]
    assert rig.engine.staging.listed("a", 10) == [b]
    rig.restart()
    assert rig.engine.staging.listed("", 10) == [a, b]


# Publishing.


def test_all_stages_of_a_publication_appear_in_all_their_queues(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a", b"b")
    stage(rig, "s", 1, b"c", queue="other")
    stage(rig, "t", 0, b"d")
    assert publish(rig, "w", 3, "s", "t") == Published(messages=4, is_already=False, last_epoch=3)
    assert (bodies(rig), bodies(rig, "other")) == ([b"a", b"b", b"d"], [b"c"])
    assert (names_in(rig.disk, "staged"), names_in(rig.disk, "published")) == ([], ["w.3"])
    rig.check()


@pytest.mark.parametrize("epoch", [0, 4, 5])
def test_the_same_epoch_or_an_older_one_publishes_nothing(rig: EngineRig, epoch: int) -> None:
    stage(rig, "s", 0, b"a")
    publish(rig, "w", 5, "s")
    stage(rig, "t", 0, b"b")
    again = Published(messages=0, is_already=True, last_epoch=5)
    assert publish(rig, "w", epoch, "t") == again
    rig.restart()
    assert publish(rig, "w", epoch, "nowhere") == again
    assert bodies(rig) == [b"a"]
    assert not publish(rig, "another", epoch, "t").is_already


def test_an_epoch_without_stages_is_remembered(rig: EngineRig) -> None:
    assert publish(rig, "w", 1) == Published(messages=0, is_already=False, last_epoch=1)
    rig.restart()
    assert publish(rig, "w", 1).is_already


def test_only_the_newest_epoch_of_a_writer_is_kept(rig: EngineRig) -> None:
    for epoch in range(3):
        stage(rig, "s", 0, b"a")
        publish(rig, "w", epoch, "s")
    assert names_in(rig.disk, "published") == ["w.2"]


def test_one_stage_that_is_missing_leaves_the_others_staged(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a")
    with pytest.raises(StageNotFound):
        publish(rig, "w", 0, "s", "missing")
    assert [info.name for info in rig.engine.staging.listed("", 10)] == ["s"]
    assert publish(rig, "w", 0, "s").messages == 1


@pytest.mark.parametrize("stages", [("s", "t"), ("t", "s")])
def test_a_queue_that_is_gone_leaves_all_staged(rig: EngineRig, stages: tuple[str, ...]) -> None:
    stage(rig, "s", 0, b"a")
    stage(rig, "t", 0, b"b", queue="other")
    outcomes = rig.commit(DeleteQueue(name="other"), publication("w", 0, *stages))
    assert isinstance(outcomes[1], QueueBeingDeleted)
    with pytest.raises(QueueNotFound):
        publish(rig, "w", 0, *stages)
    assert bodies(rig) == []
    assert publish(rig, "w", 0, "s").messages == 1


def test_a_queue_without_room_takes_nothing_of_it(rig: EngineRig) -> None:
    rig.create("small", max_messages=3)
    rig.create("light", max_bytes=10)
    stage(rig, "s", 0, b"1", b"2", queue="small")
    stage(rig, "s", 1, b"12345", queue="light")
    publish(rig, "w", 0, "s")
    stage(rig, "s", 0, b"1", b"2", queue="small")
    stage(rig, "t", 0, b"123456", queue="light")
    with pytest.raises(QueueFull):
        publish(rig, "w", 1, "s")
    with pytest.raises(QueueFull):
        publish(rig, "w", 1, "t")
    rig.check()
    rig.ask(Purge(queue="small"))
    assert publish(rig, "w", 1, "s").messages == 2


def test_a_delay_counts_from_the_publication(rig: EngineRig) -> None:
    rig.ask(chunk("s", 0, b"late", b"too", delay=10_000))
    rig.clock.advance(60_000)
    publish(rig, "w", 0, "s")
    rig.check()
    assert bodies(rig) == []
    rig.clock.advance(10_000)
    assert bodies(rig) == [b"late", b"too"]


def test_without_a_delay_the_queues_own_counts_and_zero_is_a_delay(rig: EngineRig) -> None:
    rig.create("slow", delivery_delay=Millis(5_000))
    rig.ask(chunk("s", 0, b"slow", queue="slow"))
    rig.ask(chunk("s", 1, b"fast", queue="slow", delay=0))
    publish(rig, "w", 0, "s")
    assert bodies(rig, "slow") == [b"fast"]
    rig.clock.advance(5_000)
    assert bodies(rig, "slow") == [b"slow"]


def test_a_published_message_has_the_place_and_the_time_of_its_staging(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"first")
    rig.clock.advance(1_000)
    rig.send(b"second")
    publish(rig, "w", 0, "s")
    messages = rig.receive(5)
    assert [message.body for message in messages] == [b"first", b"second"]
    assert messages[0].sent_at == START


def test_published_messages_are_found_counted_and_deleted_by_id(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a", b"b", b"c")
    (name,) = names_in(rig.disk, "staged")
    (inside,) = names_in(rig.disk, f"staged/{name}")
    ids = [entry[:36] for entry in names_in(rig.disk, f"staged/{name}/{inside}")]
    publish(rig, "w", 0, "s")
    assert rig.ask(Delete(queue="q", targets=[ById(ids[1])])) == [None]
    assert bodies(rig) == [b"a", b"c"]
    rig.check()


def test_published_messages_are_purged(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a", b"b")
    publish(rig, "w", 0, "s")
    assert rig.ask(Purge(queue="q")) == 2
    assert bodies(rig) == []


def test_purge_and_deletion_of_a_queue_leave_what_is_staged_alone(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a")
    rig.ask(Purge(queue="q"))
    rig.ask(DeleteQueue(name="q"))
    rig.create("q")
    assert publish(rig, "w", 0, "s").messages == 1
    assert bodies(rig) == [b"a"]


def test_ten_thousand_messages_are_published_by_as_many_calls_as_their_batches(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    for number in range(4):
        stage(rig, "s", number, *[b"x"] * 250)
    disk.calls.clear()
    publish(rig, "w", 0, "s")
    assert len(disk.calls) < 40


# Digests.


def test_an_epoch_with_other_messages_is_refused_and_they_stay_staged(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a")
    rig.ask(replace(publication("w", 3, "s"), digest="1-a"))
    stage(rig, "t", 0, b"b")

    for _ in range(2):
        with pytest.raises(EpochDiffers) as refused:
            rig.ask(replace(publication("w", 3, "t"), digest="1-b"))
        assert refused.value.facts == {"writer": "w", "epoch": 3}
        rig.restart()

    assert rig.ask(replace(publication("w", 3), digest="1-a")).is_already
    assert bodies(rig) == [b"a"]
    rig.ask(replace(publication("w", 4, "t"), digest="1-b"))
    assert bodies(rig) == [b"b"]


@pytest.mark.parametrize(("first", "then"), [("", "1-b"), ("1-a", ""), ("1-a", "1-a")])
def test_an_epoch_without_a_digest_is_not_compared(rig: EngineRig, first: str, then: str) -> None:
    rig.ask(replace(publication("w", 3), digest=first))

    assert rig.ask(replace(publication("w", 3), digest=then)).is_already


def test_a_digest_is_a_word(rig: EngineRig) -> None:
    with pytest.raises(InvalidRequest, match="digest"):
        rig.ask(replace(publication("w", 3), digest="a b"))
