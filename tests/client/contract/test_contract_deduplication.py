"""Promises of every transport about deduplication ids: a message is stored once in their window."""

from __future__ import annotations

import pytest
import spoolrack
from spoolrack import Outgoing, Queue
from spoolrack.errors import InvalidMessage, InvalidRequest, MessageTooLarge

from tests.client.contract.conftest import World

pytestmark = pytest.mark.needs("deduplication")


def test_a_message_that_was_sent_before_is_not_stored_again(jobs: Queue) -> None:
    first = jobs.send("a", deduplication_id="order-1")
    assert jobs.send("something else", deduplication_id="order-1") == first
    assert jobs.send("b", deduplication_id="order-2") != first
    assert [message.text for message in jobs.receive(10)] == ["a", "b"]


def test_each_of_many_says_whether_it_was_sent_before(jobs: Queue) -> None:
    first = jobs.send("a", deduplication_id="1")
    results = jobs.send_many(
        [
            Outgoing(body="a", deduplication_id="1"),
            Outgoing(body="b", deduplication_id="2"),
            Outgoing(body="b again", deduplication_id="2"),
            Outgoing(body="c"),
            Outgoing(body="c"),
        ]
    )
    assert [result.duplicate for result in results] == [True, False, True, False, False]
    assert results[0].id == first
    assert results[1].id == results[2].id
    assert results[1].sent_ms == results[2].sent_ms
    assert [message.text for message in jobs.receive(10)] == ["a", "b", "c", "c"]


def test_refused_repeated_and_new_messages_of_one_batch_have_each_its_own_result(
    client: spoolrack.Client,
) -> None:
    client.create_queue("small", max_message_size=10)
    small = client.queue("small")
    first = small.send("a", deduplication_id="1")
    results = small.send_many(
        [
            Outgoing(body="x" * 11, deduplication_id="2"),
            Outgoing(body="a", deduplication_id="1"),
            Outgoing(body="b", deduplication_id="2"),
            Outgoing(body="x" * 11),
            Outgoing(body="b", deduplication_id="2"),
        ]
    )
    assert [type(each.error) for each in results[::3]] == [MessageTooLarge, MessageTooLarge]
    assert [each.duplicate for each in results] == [False, True, False, False, True]
    assert (results[1].id, results[4].id) == (first, results[2].id)
    results = small.send_many(
        [
            Outgoing(body="c", deduplication_id="x" * 129),
            Outgoing(body="a", deduplication_id="1"),
            Outgoing(body="c", deduplication_id="x" * 129),
            Outgoing(body="c", deduplication_id="3"),
        ]
    )
    assert [type(each.error) for each in results[::2]] == [InvalidMessage, InvalidMessage]
    assert [each.duplicate for each in results] == [False, True, False, False]
    assert results[1].id == first
    assert [message.text for message in small.receive(10)] == ["a", "b", "c"]


def test_an_id_is_remembered_after_its_message_was_deleted(jobs: Queue) -> None:
    first = jobs.send("a", deduplication_id="1")
    (message,) = jobs.receive()
    message.delete()
    assert jobs.send("a", deduplication_id="1") == first
    assert jobs.receive() == []


def test_an_id_is_forgotten_after_the_window(client: spoolrack.Client, world: World) -> None:
    client.create_queue("jobs", deduplication_window=60)
    jobs = client.queue("jobs")
    first = jobs.send("a", deduplication_id="1")
    world.advance(59)
    assert jobs.send("a", deduplication_id="1") == first
    world.advance(2)  # A duplicate doesn't lengthen it.
    assert jobs.send("a", deduplication_id="1") != first
    assert len(jobs.receive(10)) == 2


def test_the_window_is_a_setting_of_the_queue(client: spoolrack.Client) -> None:
    assert client.create_queue("jobs").info().settings.deduplication_window == 300.0
    changed = client.update_queue("jobs", deduplication_window=3_600)
    assert changed.settings.deduplication_window == 3_600.0
    reset = client.update_queue("jobs", deduplication_window=None)
    assert reset.settings.deduplication_window == 300.0


def test_queues_do_not_share_their_ids(client: spoolrack.Client, jobs: Queue) -> None:
    client.create_queue("mail")
    assert jobs.send("a", deduplication_id="1") != client.queue("mail").send("a", deduplication_id="1")


def test_a_refused_message_leaves_its_id_free(client: spoolrack.Client) -> None:
    client.create_queue("jobs", max_message_size=5)
    jobs = client.queue("jobs")
    with pytest.raises(InvalidMessage):
        jobs.send("too long", deduplication_id="1")
    jobs.send("short", deduplication_id="1")
    assert [message.text for message in jobs.receive(10)] == ["short"]


@pytest.mark.needs("validation")
def test_an_id_has_128_characters_at_most(jobs: Queue) -> None:
    jobs.send("a", deduplication_id="ä" * 128)
    with pytest.raises(InvalidMessage):
        jobs.send("a", deduplication_id="x" * 129)


@pytest.mark.needs("validation")
def test_an_id_that_is_too_long_is_refused_alone(jobs: Queue) -> None:
    ids = ("a", "x" * 129, "b")
    results = jobs.send_many([Outgoing(body="a", deduplication_id=id) for id in ids])
    assert [result.ok for result in results] == [True, False, True]
    assert isinstance(results[1].error, InvalidMessage)
    assert len(jobs.receive(10)) == 2


def test_an_id_is_text(jobs: Queue) -> None:
    with pytest.raises(InvalidRequest, match="deduplication_id"):
        jobs.send("a", deduplication_id=b"x")  # type: ignore[arg-type]
