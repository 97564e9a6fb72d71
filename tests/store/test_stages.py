"""Stages in the new store: messages that are stored and not seen, until all of them appear, or none
does."""

from __future__ import annotations

import pytest
from spoolrack_store.model.clock import DAY, HOUR
from spoolrack_store.model.errors import (
    EpochDiffers,
    EpochPassed,
    InvalidRequest,
    QueueFull,
    QueueNotFound,
)
from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.names import MAX_BYTES
from spoolrack_store.model.operations import (
    CreateQueue,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Stage
from spoolrack_store.model.transitions import State

from tests.store.stage_rig import START, Rig, chunk, publication


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Staging.


def test_a_chunk_that_comes_twice_in_one_commit_is_stored_once(rig: Rig) -> None:
    first, second = rig.commit(chunk("s", 0, b"a"), chunk("s", 0, b"a"))
    assert (first.duplicate, second.duplicate) == (False, True)
    rig.publish("w", 0, "s")
    assert rig.receive() == [b"a"]


@pytest.mark.parametrize(
    "request_",
    [
        chunk("s", 0, b"a", time_to_live=999),
        chunk("s", 0, b"a", time_to_live=15 * DAY),
        chunk("s", 0),
        chunk("s", 0, *[b"a"] * 1_001),
        publication("w", 0, "a b"),
        publication("w", 0, *["s"] * 10_001),
        publication("w", 0, epoch_retention=1),
        publication("w", 0, digest="a b"),
    ],
    ids=lambda request: repr(request)[:60],
)
def test_a_request_that_cannot_be_meant_is_refused_before_a_byte_is_written(
    rig: Rig, request_: Stage | Publish
) -> None:
    with pytest.raises(InvalidRequest):
        rig.ask(request_)
    assert (rig.names("staged"), rig.names("published")) == ([], [])


def test_the_longest_names_make_a_file_or_are_refused_with_a_reason(rig: Rig) -> None:
    queue = "q" * 80
    rig.ask(CreateQueue(name=queue, settings=QueueSettings()))
    late = chunk("s" * 64, 999_999_999, *[b"x" * 100] * 1_000, queue=queue, delay=MAX_DELAY)
    rig.ask(late)
    (name,) = rig.names("staged")
    assert len(name) <= MAX_BYTES
    rig.restart()
    assert rig.staged() == ["s" * 64]


# Publishing.


def test_a_publication_asks_for_the_commit_that_shows_it(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.settle()
    assert not rig.engine.wants_commit
    rig.publish("w", 0, "s")
    for _ in range(5):
        if rig.engine.wants_commit:
            rig.commit()
    assert not rig.engine.wants_commit
    assert rig.engine.index.queue("q").counts[State.READY] == 1


@pytest.mark.parametrize("epoch", [4, 5])
@pytest.mark.parametrize("digest", ["", "1-a"])
def test_a_publication_is_no_success_for_a_queue_that_was_created_again_since(
    rig: Rig, epoch: int, digest: str
) -> None:
    rig.stage("s", 0, b"a")
    rig.publish("w", 5, "s", digest=digest)
    rig.settle()
    rig.ask(DeleteQueue(name="q"))
    rig.settle()
    rig.clock.advance(1_000)
    rig.ask(CreateQueue(name="q", settings=QueueSettings()))
    assert rig.publish("w", 5, "s", digest=digest).duplicate  # a repeated call for the former queue
    rig.stage("t", 0, b"a")
    with pytest.raises((EpochDiffers, EpochPassed)):
        rig.publish("w", epoch, "t", digest=digest)
    assert rig.staged() == ["t"]
    assert not rig.publish("w", 6, "t", digest=digest).duplicate
    assert rig.receive() == [b"a"]


def test_only_the_newest_epoch_of_a_writer_is_kept(rig: Rig) -> None:
    for epoch in range(3):
        rig.stage("s", 0, b"a")
        rig.publish("w", epoch, "s")
    rig.settle()
    assert rig.names("published") == ["w.2"]


@pytest.mark.parametrize("stages", [("s", "t"), ("t", "s")])
def test_a_queue_that_is_gone_leaves_all_staged(rig: Rig, stages: tuple[str, ...]) -> None:
    rig.stage("s", 0, b"a")
    rig.stage("t", 0, b"b", queue="other")
    rig.ask(DeleteQueue(name="other"))
    with pytest.raises(QueueNotFound):
        rig.publish("w", 0, *stages)
    assert rig.receive() == []
    assert rig.publish("w", 0, "s").message_count == 1


def test_a_queue_without_room_takes_no_chunk(rig: Rig) -> None:
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 3}))
    rig.ask(UpdateQueue(name="other", changes={"max_bytes": 10}))
    first, second, *refused = rig.commit(
        chunk("s", 0, b"1", b"2"),
        chunk("s", 1, b"12345", queue="other"),
        chunk("t", 0, b"1", b"2"),
        chunk("u", 0, b"123456", queue="other"),
    )
    assert (first.message_count, second.message_count) == (2, 1)
    assert all(isinstance(each, QueueFull) for each in refused)
    with pytest.raises(QueueFull, match="with 2 of 3 messages"):
        rig.stage("t", 0, b"1", b"2")
    assert rig.stage("s", 0, b"1", b"2").duplicate
    assert rig.publish("v", 0, "s").message_count == 3
    rig.settle()
    rig.ask(Purge(queue="q"))
    assert rig.stage("t", 0, b"1", b"2").message_count == 2


@pytest.mark.parametrize("end", ["aborted", "expired", "published and received", "restarted"])
def test_what_is_staged_takes_room_of_sends_until_it_is_gone(rig: Rig, end: str) -> None:
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 5}))
    rig.stage("s", 0, b"1", b"2", b"3", b"4", time_to_live=HOUR)
    sent = rig.ask(Send(queue="q", bodies=[b"5", b"6"])).results
    assert [type(each) for each in sent] == [str, QueueFull]
    queue = rig.engine.described("q", is_disk_full=False)
    assert ("QUEUE_FULL", "it is full, with 5 of 5 messages, 4 of them in stages") in [
        (each.reason, each.explanation) for each in queue.obstacles
    ]
    room = 4
    match end:
        case "aborted":
            rig.ask(Abort(stage="s"))
        case "expired":
            rig.clock.advance(HOUR)
        case "published and received":
            rig.publish("w", 0, "s")
            rig.settle()
            rig.ask(Purge(queue="q"))
            room = 5
        case "restarted":
            rig.restart()
            room = 0
    rig.settle()
    sent = rig.ask(Send(queue="q", bodies=[b"x"] * 5)).results
    assert [type(each) for each in sent] == [str] * room + [QueueFull] * (5 - room)


def test_a_limit_that_was_lowered_keeps_no_stage_from_its_publication(rig: Rig) -> None:
    """What was staged has its room."""
    rig.stage("s", 0, b"1", b"2")
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 1}))
    assert rig.publish("w", 0, "s").message_count == 2
    assert rig.receive() == [b"1", b"2"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_attributes_of_staged_messages_count_against_the_bytes_of_their_queue(
    rig: Rig, is_restarted: bool
) -> None:
    rig.ask(UpdateQueue(name="q", changes={"max_bytes": 20}))
    rig.stage("s", 0, b"1234", attributes={0: {"name": "value"}})
    if is_restarted:
        rig.restart()
    with pytest.raises(QueueFull, match="13 of 20 bytes"):
        rig.stage("t", 0, b"1234", attributes={0: {"name": "value"}})
    assert rig.publish("w", 0, "s").message_count == 1
    rig.settle()
    assert rig.engine.index.queue("q").bytes == 13


def test_a_published_message_has_the_place_and_the_time_of_its_staging(rig: Rig) -> None:
    rig.stage("s", 0, b"first")
    rig.clock.advance(1_000)
    rig.ask(Send(queue="q", bodies=[b"second"]))
    rig.publish("w", 0, "s")
    first, second = rig.ask(Receive(queue="q", max_messages=9))
    assert (first.bodies, second.bodies) == ([b"first"], [b"second"])
    assert first.sent_at == START


def test_ids_rise_above_those_of_what_is_staged_after_a_restart(rig: Rig) -> None:
    rig.stage("s", 0, b"first")
    rig.restart()
    rig.ask(Send(queue="q", bodies=[b"second"]))
    rig.publish("w", 0, "s")
    assert rig.receive() == [b"first", b"second"]


# Digests.


@pytest.mark.parametrize(("first", "then"), [("", "1-b"), ("1-a", ""), ("1-a", "1-a")])
def test_an_epoch_without_a_digest_is_not_compared(rig: Rig, first: str, then: str) -> None:
    rig.publish("w", 3, digest=first)
    assert rig.publish("w", 3, digest=then).duplicate
