"""Promises of every transport about messages: sends, order, receives, deletions."""

from __future__ import annotations

import threading
from datetime import timedelta, timezone
from typing import Any

import pytest
import spoolrack
from spoolrack import ById, MessageState, Outgoing, Queue
from spoolrack.errors import (
    AttributesTooLarge,
    InvalidReceipt,
    InvalidRequest,
    MessageNotFound,
    MessageTooLarge,
    QueueFull,
    StaleReceipt,
)

from tests.client.contract.conftest import World
from tests.support import MIB

KIB = 1024
TOO_LARGE = {f"n{number}": "v" * 7_000 for number in range(10)}
ABSENT = "01890000-0000-7000-8000-000000000000"


def bodies(messages: list[spoolrack.Message]) -> list[str]:
    return [message.text for message in messages]


def test_messages_come_in_the_order_of_their_sends(jobs: Queue) -> None:
    ids = [jobs.send("a"), jobs.send("b")]
    ids += [result.id or "" for result in jobs.send_many(["c", "d", "e"])]
    received = jobs.receive(10)
    assert bodies(received) == ["a", "b", "c", "d", "e"]
    assert [message.id for message in received] == ids
    assert ids == sorted(ids)


@pytest.mark.needs("attributes", "receive counts")
def test_a_message_comes_with_the_facts_about_it(jobs: Queue, world: World) -> None:
    id = jobs.send("hello", attributes={"colour": "red"})
    world.advance(5)
    (message,) = jobs.receive()
    assert (message.id, message.body, message.text, message.body_size) == (id, b"hello", "hello", 5)
    assert message.attributes == {"colour": "red"}
    assert message.receive_count == 1
    assert message.state is MessageState.LEASED
    assert message.first_received_at is not None
    assert message.lease_expires_at is not None
    assert (message.first_received_at - message.sent_at).total_seconds() == 5
    assert (message.lease_expires_at - message.first_received_at).total_seconds() == 30
    assert message.receipt
    assert message.queue == jobs


@pytest.mark.needs("receive counts")
def test_a_received_message_is_hidden_until_its_lease_ends(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (first,) = jobs.receive(visibility_timeout=10)
    assert jobs.receive() == []
    world.advance(9.9)
    assert jobs.receive() == []
    world.advance(0.1)
    (second,) = jobs.receive()
    assert (second.id, second.receive_count) == (first.id, 2)
    assert second.first_received_at == first.first_received_at
    assert second.receipt != first.receipt


def test_a_deleted_message_is_never_delivered_again(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    message.delete()
    world.advance(3600)
    assert jobs.receive() == []


def test_a_deletion_by_receipt_can_be_repeated(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    jobs.delete(message.receipt)
    jobs.delete(message.receipt)
    message.delete()


def test_a_stale_receipt_touches_nothing(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (first,) = jobs.receive()
    world.advance(30)
    (second,) = jobs.receive()
    with pytest.raises(StaleReceipt):
        first.delete()
    with pytest.raises(StaleReceipt):
        first.extend(60)
    with pytest.raises(StaleReceipt):
        first.release()
    second.delete()


@pytest.mark.needs("last receives")
def test_an_expired_lease_is_no_hindrance_if_the_caller_says_so(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c", "d"])
    a, b, c, d = jobs.receive(4)
    world.advance(30)
    for call in (a.delete, b.delete, lambda: b.extend(60)):
        with pytest.raises(StaleReceipt):
            call()
    a.delete(allow_expired=True)
    jobs.delete(b, allow_expired=True)
    (result,) = jobs.delete_many([c], allow_expired=True)
    assert result.ok
    assert [message.text for message in jobs.receive(4)] == ["d"]
    (result,) = jobs.delete_many([d], allow_expired=True)
    assert isinstance(result.error, StaleReceipt)


@pytest.mark.needs("last receives")
def test_an_expired_lease_is_extended_without_a_receive_if_the_caller_says_so(
    jobs: Queue, world: World
) -> None:
    jobs.send_many(["a", "b"])
    a, b = jobs.receive(2)
    world.advance(30)
    a.extend(60, allow_expired=True)
    (result,) = jobs.extend_many([b], 60, allow_expired=True)
    assert result.ok
    world.advance(59)
    assert jobs.receive(2) == []
    assert jobs.get(a.id).receive_count == 1
    jobs.extend(a, 60, allow_expired=True)
    a.delete(allow_expired=True)
    world.advance(1)
    (again,) = jobs.receive(2)
    assert (again.id, again.receive_count) == (b.id, 2)
    with pytest.raises(StaleReceipt):
        b.extend(60, allow_expired=True)


def test_a_receipt_alone_does_not_tell_its_receive(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    with pytest.raises(InvalidRequest, match="not its receipt alone"):
        jobs.delete(message.receipt, allow_expired=True)
    with pytest.raises(InvalidRequest, match="not its receipt alone"):
        jobs.extend(message.receipt, 60, allow_expired=True)


def test_an_invalid_receipt_is_refused(jobs: Queue) -> None:
    for nonsense in ("", "x", "a/b/c", "\0", "ä" * 200):
        with pytest.raises(InvalidReceipt):
            jobs.delete(nonsense)


@pytest.mark.needs("delays")
@pytest.mark.parametrize("state", list(MessageState))
def test_a_message_can_be_deleted_by_its_id_in_any_state(
    jobs: Queue, world: World, state: MessageState
) -> None:
    id = jobs.send("a", delay=60 if state is MessageState.DELAYED else 0)
    if state is MessageState.LEASED:
        jobs.receive()
    assert jobs.get(id).state is state
    jobs.delete_by_id(id)
    with pytest.raises(MessageNotFound):
        jobs.get(id)
    world.advance(3600)
    assert jobs.receive() == []


@pytest.mark.needs("missing deletions")
def test_a_second_deletion_by_id_says_that_the_message_is_not_there(jobs: Queue) -> None:
    id = jobs.send("a")
    jobs.delete_by_id(id)
    for gone in (id, ABSENT):
        with pytest.raises(MessageNotFound):
            jobs.delete_by_id(gone)


def test_many_deletions_have_a_result_each(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c", "d"])
    (stale,) = jobs.receive(visibility_timeout=1)
    world.advance(1)
    a, b, c, d = jobs.receive(4)
    results = jobs.delete_many([stale, b, c.receipt, ById(d.id)])
    assert [type(result.error) for result in results] == [StaleReceipt, *[type(None)] * 3]
    world.advance(30)
    assert [message.id for message in jobs.receive(10)] == [a.id]


@pytest.mark.needs("missing deletions", "last receives")
def test_one_of_many_deletions_whose_message_never_was_says_so(jobs: Queue) -> None:
    for allowed in (False, True):
        id = jobs.send("a")
        missing, found = jobs.delete_many([ById(ABSENT), ById(id)], allow_expired=allowed)
        assert isinstance(missing.error, MessageNotFound)
        assert found.ok


@pytest.mark.needs("receive counts")
def test_a_released_message_is_back_at_its_old_place(jobs: Queue) -> None:
    jobs.send_many(["a", "b", "c"])
    a, b = jobs.receive(2)
    a.release()
    assert bodies(jobs.receive(10)) == ["a", "c"]
    b.release()
    (again,) = jobs.receive(10)
    assert (again.text, again.receive_count) == ("b", 2)


def test_an_expired_message_is_back_before_younger_ones(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c"])
    jobs.receive(1, visibility_timeout=5)
    world.advance(5)
    assert bodies(jobs.receive(10)) == ["a", "b", "c"]


def test_an_extension_keeps_the_lease_and_its_receipt(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (message,) = jobs.receive(visibility_timeout=10)
    before = message.lease_expires_at
    world.advance(5)
    end = message.extend(60)
    assert before is not None
    assert message.lease_expires_at == end
    assert (end - before).total_seconds() == 55
    world.advance(59)
    assert jobs.receive() == []
    message.delete()


def test_many_changes_of_leases_have_a_result_each(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c"])
    (stale,) = jobs.receive(visibility_timeout=1)
    world.advance(1)
    a, b, c = jobs.receive(3, visibility_timeout=5)
    extended = jobs.extend_many([stale, b], 100)
    assert isinstance(extended[0].error, StaleReceipt)
    assert extended[1].ok
    assert extended[1].lease_expires_at is not None
    assert all(result.ok for result in jobs.release_many([a, c.receipt]))
    world.advance(50)
    assert bodies(jobs.receive(10)) == ["a", "c"]


@pytest.mark.needs("delays")
def test_a_delayed_message_appears_when_its_delay_is_over_and_at_its_old_place(
    jobs: Queue, world: World
) -> None:
    jobs.send("late", delay=10)
    jobs.send("now")
    (now,) = jobs.receive(10)
    assert now.text == "now"
    now.release()
    world.advance(10)
    assert bodies(jobs.receive(10)) == ["late", "now"]


@pytest.mark.needs("delays")
def test_a_message_is_hidden_until_its_delivery_time(jobs: Queue, world: World) -> None:
    id = jobs.send("first")
    sent_at = jobs.get(id).sent_at
    moment = (sent_at + timedelta(days=364)).astimezone(timezone(timedelta(hours=5)))
    jobs.send("late", deliver_at=moment)
    jobs.send_many([Outgoing(body="past", deliver_at=sent_at - timedelta(days=1))])
    (late,) = jobs.peek(["delayed"])
    assert (late.deliver_at, late.lease_expires_at) == (moment, None)
    leased, _ = received = jobs.receive(10, visibility_timeout=1)
    assert bodies(received) == ["first", "past"]
    assert (leased.deliver_at, leased.lease_expires_at is None) == (None, False)
    world.advance(364 * 86_400)
    assert bodies(jobs.receive(10)) == ["first", "late", "past"]


@pytest.mark.needs("settings", "several queues")
def test_one_invalid_message_fails_alone(client: spoolrack.Client) -> None:
    client.create_queue("small", max_message_size=10)
    small = client.queue("small")
    results = small.send_many(["a", "x" * 11, "b", Outgoing(body="c", attributes=TOO_LARGE)])
    assert [type(result.error) for result in results] == [
        type(None),
        MessageTooLarge,
        type(None),
        AttributesTooLarge,
    ]
    assert bodies(small.receive(10)) == ["a", "b"]
    with pytest.raises(MessageTooLarge):
        small.send("x" * 11)


@pytest.mark.needs("settings", "several queues")
def test_a_full_queue_refuses_until_there_is_room(client: spoolrack.Client) -> None:
    client.create_queue("small", max_messages=2)
    small = client.queue("small")
    small.send_many(["a", "b"])
    (result,) = small.send_many(["c"])
    assert isinstance(result.error, QueueFull)
    assert result.error.retryable
    (message,) = small.receive()
    (result,) = small.send_many(["c"])
    assert isinstance(result.error, QueueFull), "a leased message counts"
    message.delete()
    small.send("c")
    assert bodies(small.receive(10)) == ["b", "c"]


@pytest.mark.needs("attributes", "settings", "several queues")
def test_bytes_are_limited_too(client: spoolrack.Client) -> None:
    client.create_queue("small", max_bytes=100)
    small = client.queue("small")
    small.send("x" * 80)
    (result,) = small.send_many([Outgoing(body="y" * 10, attributes={"name": "z" * 10})])
    assert isinstance(result.error, QueueFull)
    small.send("y" * 20)
    client.create_queue("held", max_bytes=100)
    held = client.queue("held")
    held.send("x" * 10, attributes={"name": "z" * 76})
    assert client.queue("held").info().counts.byte_count == 90
    (result,) = held.send_many([Outgoing(body="y" * 11)])
    assert isinstance(result.error, QueueFull)
    held.send("y" * 10)


ATTRIBUTES: list[dict[str, str | bytes]] = [
    {},
    {"text": "ä☃\U0001f40c\n\0", "empty": "", "bytes": b"\x00\xff\n", "no bytes": b""},
    {"n" * 256: "v"},
    {f"big {number}": b"\xfe" * (5 * KIB) for number in range(12)},
    {"line": "a\r\nb", "ünïcode": "key"},
]


@pytest.mark.needs("attributes")
def test_bodies_and_attributes_come_as_they_were_sent(jobs: Queue) -> None:
    for attributes in ATTRIBUTES:
        for body in (b"", b"\x00\xff\n", b"x" * MIB):
            id = jobs.send(body, attributes=attributes)
            (message,) = jobs.receive()
            for came in (message, jobs.get(id)):
                assert (came.id, came.attributes, came.body_size) == (id, attributes, len(body))
                assert came.body == body
            message.delete()


@pytest.mark.needs("settings", "several queues")
def test_the_largest_body_there_can_be_travels_whole(client: spoolrack.Client) -> None:
    client.create_queue("large", max_message_size=64 * MIB)
    large = client.queue("large")
    body = bytes(range(256)) * (64 * MIB // 256)
    large.send(body)
    (message,) = large.receive()
    assert message.body == body


@pytest.mark.needs("settings", "several queues")
def test_large_messages_are_spread_over_calls(client: spoolrack.Client) -> None:
    client.create_queue("large", max_message_size=8 * MIB)
    large = client.queue("large")
    sent = [bytes([number]) * (3 * MIB) for number in range(5)]
    assert all(result.ok for result in large.send_many(sent))
    received: list[bytes] = []
    while batch := large.receive(10):
        received += [message.body for message in batch]
    assert received == sent


@pytest.mark.needs("calls of many")
def test_more_messages_than_a_call_takes_are_sent_in_order(jobs: Queue) -> None:
    results = jobs.send_many(str(number) for number in range(1_100))
    assert all(result.ok for result in results)
    received: list[str] = []
    while batch := jobs.receive(1_000):
        received += bodies(batch)
        assert all(result.ok for result in jobs.delete_many(batch))
    assert received == [str(number) for number in range(1_100)]


@pytest.mark.needs("news in still time")
def test_a_waiting_receive_gets_what_is_sent_meanwhile(jobs: Queue, other: spoolrack.Client) -> None:
    received: list[spoolrack.Message] = []
    waiting = threading.Thread(target=lambda: received.extend(jobs.receive(10, wait=3600)))
    waiting.start()
    other.queue("jobs").send("a")
    waiting.join(60)
    assert bodies(received) == ["a"]


def test_a_waiting_receive_gets_what_expires_meanwhile(jobs: Queue, world: World) -> None:
    jobs.send("a")
    jobs.receive(visibility_timeout=5)
    received: list[spoolrack.Message] = []
    waiting = threading.Thread(target=lambda: received.extend(jobs.receive(wait=3600)))
    waiting.start()
    world.advance(5)
    waiting.join(60)
    assert bodies(received) == ["a"]


@pytest.mark.needs("attributes", "groups")
def test_a_peek_shows_the_messages_that_all_its_filters_take(jobs: Queue, world: World) -> None:
    jobs.send("a", group="eu", attributes={"kind": "x", "n": b"1"})
    world.advance(60)
    jobs.send("b", group="us", attributes={"kind": "x"})
    jobs.send("c")
    moment = next(iter(jobs.peek(group="us"))).sent_at

    def texts(**wanted: Any) -> list[str]:
        return [message.text for message in jobs.peek(**wanted)]

    assert texts(sent_before=moment) == ["a"]
    assert texts(sent_since=moment) == ["b", "c"]
    assert texts(group="eu") == ["a"]
    assert texts(attributes={"kind": "x"}) == ["a", "b"]
    assert texts(attributes={"n": "1"}) == []
    assert texts(attributes={"kind": "x"}, sent_since=moment, group="us", states=["ready"]) == ["b"]
    assert texts(group="eu", states=["leased", "delayed"]) == []
    with pytest.raises(InvalidRequest, match="sent_since"):
        texts(sent_since="yesterday")


@pytest.mark.needs("attributes", "filters by several attributes")
def test_a_peek_shows_the_messages_that_have_all_of_its_attributes(jobs: Queue) -> None:
    jobs.send("a", attributes={"kind": "x", "n": b"1"})
    jobs.send("b", attributes={"kind": "x"})
    assert [message.text for message in jobs.peek(attributes={"kind": "x", "n": b"1"})] == ["a"]


@pytest.mark.needs("attributes", "groups")
def test_a_limited_peek_by_group_goes_on_until_it_has_found_enough(jobs: Queue) -> None:
    for number in range(30):
        jobs.send(str(number), group="odd" if number % 2 else "even")
    found = [message.text for message in jobs.peek(group="odd", limit=10)]
    assert found == [str(number) for number in range(1, 20, 2)]
