"""Promises of every transport about queues: settings, limits in time, looks without leases."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import spoolrack
from spoolrack import Client, MessageState, Queue, QueueSettings
from spoolrack.errors import (
    InvalidRequest,
    MessageNotFound,
    QueueExists,
    QueueNotFound,
    VersionMismatch,
)

from tests.client.contract.conftest import World
from tests.support.waiting import until


@pytest.mark.needs("settings", "several queues")
def test_a_queue_has_the_settings_that_were_asked_for(client: Client) -> None:
    client.create_queue("jobs--letters")
    jobs = client.create_queue(
        "jobs",
        visibility_timeout=timedelta(minutes=2),
        delivery_delay=0.5,
        max_receives=3,
        dead_letter_queue="jobs--letters",
        retention=3600,
        max_messages=10,
        max_bytes=1000,
        max_message_size=100,
        lease_durability="relaxed",
    )
    assert jobs.info().settings == QueueSettings(
        visibility_timeout=120.0,
        delivery_delay=0.5,
        max_receives=3,
        dead_letter_queue="jobs--letters",
        retention=3600.0,
        max_messages=10,
        max_bytes=1000,
        max_message_size=100,
        lease_durability="relaxed",
    )
    assert client.queue("jobs--letters").info().settings == QueueSettings()


@pytest.mark.needs("settings")
def test_a_handle_that_a_creation_returned_still_has_what_it_returned_before(client: Client) -> None:
    jobs = client.create_queue("jobs", max_messages=5)
    with pytest.warns(DeprecationWarning, match=r"info\(\)\.settings"):
        assert jobs.settings == jobs.info().settings  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'max_messages'"):
        _ = jobs.max_messages  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'settings'"):
        _ = client.queue("other").settings  # type: ignore[attr-defined]


@pytest.mark.needs("settings")
def test_a_creation_can_be_repeated_with_equal_settings_only(client: Client) -> None:
    first = client.create_queue("jobs", max_messages=5).info()
    assert client.create_queue("jobs", max_messages=5).info() == first
    with pytest.raises(QueueExists):
        client.create_queue("jobs", max_messages=6)
    with pytest.raises(QueueExists):
        client.create_queue("jobs")


@pytest.mark.needs("settings")
def test_an_update_changes_what_it_names(client: Client) -> None:
    jobs = client.create_queue("jobs", max_messages=5, retention=60)
    before = jobs.info()
    after = jobs.update(visibility_timeout=10, retention=None)
    assert after.settings == QueueSettings(max_messages=5, visibility_timeout=10.0)
    assert after.version > before.version
    assert client.queue("jobs").info().settings == after.settings


@pytest.mark.needs("settings")
def test_a_queue_keeps_the_labels_of_its_owner(client: Client) -> None:
    created = client.create_queue("jobs", labels={"team": "checkout", "a.b/c": "größer"}).info()
    assert created.labels == {"team": "checkout", "a.b/c": "größer"}
    changed = client.update_queue("jobs", labels={"team": "billing", "a.b/c": None, "tier": ""})
    assert changed.labels == {"team": "billing", "tier": ""}
    assert changed.settings == created.settings
    assert client.update_queue("jobs", max_messages=5).labels == changed.labels
    assert client.queue("jobs").info().labels == changed.labels
    assert [info.labels for info in client.list_queues()] == [changed.labels]


@pytest.mark.needs("settings")
def test_a_change_is_bound_to_the_version_that_was_read(client: Client) -> None:
    seen = client.create_queue("jobs").info().version
    changed = client.update_queue("jobs", max_messages=5, if_version=seen)
    for late in (
        lambda: client.update_queue("jobs", max_messages=6, if_version=seen),
        lambda: client.update_queue("jobs", if_version=seen),
        lambda: client.delete_queue("jobs", if_version=seen),
    ):
        with pytest.raises(VersionMismatch, match="jobs"):
            late()
    # A change tells no shard.
    assert replace(client.queue("jobs").info(), shard=changed.shard) == changed
    client.queue("jobs").delete_queue(if_version=changed.version)
    with pytest.raises(QueueNotFound):
        client.queue("jobs").info()


@pytest.mark.needs("several queues")
def test_queues_are_listed_by_name_and_prefix_over_any_number_of_pages(client: Client) -> None:
    names = [f"queue-{number:03}" for number in range(120)]
    for name in reversed(names):
        client.create_queue(name)
    client.create_queue("other")
    assert [info.name for info in client.list_queues()] == [*sorted([*names, "other"])]
    assert [info.name for info in client.list_queues("queue-")] == names
    assert list(client.list_queues("none")) == []


def test_a_missing_queue_is_named_in_every_call(client: Client) -> None:
    missing = client.queue("missing")
    calls = [
        lambda: client.queue("missing").info(),
        lambda: client.queue("missing").purge(),
        lambda: client.update_queue("missing", max_messages=1),
        lambda: missing.send("a"),
        lambda: missing.send_many(["a"]),
        lambda: missing.receive(),
        lambda: next(missing.peek()),
    ]
    for call in calls:
        with pytest.raises(QueueNotFound, match="missing"):
            call()


@pytest.mark.needs("missing deletions", "streams")
def test_a_missing_queue_is_named_by_a_deletion_and_by_a_stream(client: Client) -> None:
    for call in (
        lambda: client.delete_queue("missing"),
        lambda: next(client.queue("missing").messages()),
    ):
        with pytest.raises(QueueNotFound, match="missing"):
            call()


@pytest.mark.needs("delays", "several queues")
def test_counts_say_what_is_in_a_queue(client: Client, jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c"])
    jobs.send("later", delay=60)
    jobs.receive()
    world.advance(7)
    counts = client.queue("jobs").info().counts
    assert (counts.ready_count, counts.leased_count, counts.delayed_count, counts.byte_count) == (
        2,
        1,
        1,
        8,
    )
    assert counts.oldest_age == 7
    client.create_queue("empty")
    assert client.queue("empty").info().counts == spoolrack.QueueCounts()


@pytest.mark.needs("delays")
def test_a_purge_takes_messages_in_every_state(client: Client, jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b"])
    jobs.send("c", delay=60)
    jobs.receive()
    assert client.queue("jobs").purge() == 3
    world.advance(3600)
    assert jobs.receive() == []
    jobs.send("d")
    assert [message.text for message in jobs.receive(10)] == ["d"]


def test_a_purge_by_state_takes_no_message_in_another(jobs: Queue) -> None:
    jobs.send_many(["a", "b", "c"])
    (leased,) = jobs.receive()
    assert jobs.purge(states=["delayed"]) == 0
    assert jobs.purge(states="leased") == 1
    with pytest.raises(MessageNotFound):
        jobs.get(leased.id)
    assert jobs.purge(states=["leased", "ready"]) == 2
    assert jobs.receive() == []


def test_a_purge_by_age_takes_only_what_was_sent_before(jobs: Queue, world: World) -> None:
    jobs.send("old")
    world.advance(60)
    id = jobs.send("new")
    moment = jobs.get(id).sent_at
    assert jobs.purge(sent_before=moment, states=["leased"]) == 0
    assert jobs.purge(sent_before=moment) == 1
    assert jobs.purge(sent_before=moment) == 0
    assert [message.text for message in jobs.receive(10)] == ["new"]


def test_a_purge_that_cannot_be_understood_deletes_nothing(jobs: Queue) -> None:
    jobs.send("a")
    with pytest.raises(InvalidRequest, match="sent_before"):
        jobs.purge(sent_before=datetime(2026, 1, 1))
    with pytest.raises(InvalidRequest, match="one of ready, leased, delayed"):
        jobs.purge(states=["gone"])
    assert len(list(jobs.peek())) == 1


@pytest.mark.needs("delays", "several queues")
def test_a_queue_that_is_made_again_starts_empty(client: Client, jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b"])
    jobs.send("c", delay=60)
    jobs.receive()
    client.delete_queue("jobs")
    with pytest.raises(QueueNotFound):
        client.queue("jobs").info()
    client.create_queue("jobs", max_messages=7)
    world.advance(3600)
    assert jobs.receive() == []
    assert client.queue("jobs").info().settings.max_messages == 7


@pytest.mark.needs("settings", "several queues")
def test_a_message_that_was_received_too_often_goes_to_the_dead_letter_queue(
    client: Client, world: World
) -> None:
    client.create_queue("jobs--letters")
    client.create_queue("jobs", max_receives=2, dead_letter_queue="jobs--letters")
    jobs, letters = client.queue("jobs"), client.queue("jobs--letters")
    id = jobs.send("bad", attributes={"why": b"\x00"})
    jobs.send("good")
    for _ in range(2):
        (message,) = jobs.receive()
        assert message.id == id
        message.release()
    assert [message.text for message in jobs.receive(10)] == ["good"]
    (letter,) = letters.receive()
    assert (letter.id, letter.text, letter.attributes) == (id, "bad", {"why": b"\x00"})


@pytest.mark.needs("settings", "several queues")
def test_a_lease_that_expires_counts_as_well(client: Client, world: World) -> None:
    client.create_queue("jobs--letters")
    client.create_queue("jobs", max_receives=1, dead_letter_queue="jobs--letters")
    jobs = client.queue("jobs")
    jobs.send("bad")
    jobs.receive(visibility_timeout=1)
    world.advance(1)
    assert jobs.receive() == []
    (letter,) = client.queue("jobs--letters").receive(wait=3600)
    assert letter.text == "bad"


@pytest.mark.needs("settings")
def test_a_message_that_is_too_old_is_never_delivered(client: Client, world: World) -> None:
    client.create_queue("jobs", retention=60)
    jobs = client.queue("jobs")
    jobs.send("old")
    world.advance(30)
    jobs.send("young")
    world.advance(30)
    assert [message.text for message in jobs.receive(10)] == ["young"]
    until(lambda: client.queue("jobs").info().counts.ready_count == 0)


@pytest.mark.needs("attributes")
def test_a_peek_leases_nothing(jobs: Queue) -> None:
    jobs.send("a", attributes={"n": "v"})
    for _ in range(2):
        (message,) = jobs.peek()
        assert (message.text, message.attributes, message.receipt) == ("a", {"n": "v"}, "")
        assert (message.receive_count, message.state) == (0, MessageState.READY)
    assert len(jobs.receive(10)) == 1


@pytest.mark.needs("delays")
def test_a_peek_pages_in_order_through_all_states(jobs: Queue) -> None:
    jobs.send_many(str(number) for number in range(250))
    jobs.send("250", delay=60)
    jobs.receive(100)
    assert [message.text for message in jobs.peek()] == [str(number) for number in range(251)]
    assert [message.text for message in jobs.peek(["leased"])] == [str(number) for number in range(100)]
    assert [message.text for message in jobs.peek(MessageState.DELAYED)] == ["250"]
    wanted = [message.text for message in jobs.peek({"ready", "delayed"}, limit=120)]
    assert wanted == [str(number) for number in range(100, 220)]


def test_a_peek_shows_as_much_of_a_body_as_it_was_asked_for(jobs: Queue) -> None:
    jobs.send("0123456789")
    for wanted, seen in ((0, b""), (3, b"012"), (100, b"0123456789"), (None, b"0123456789")):
        (message,) = jobs.peek(max_body_bytes=wanted)
        assert (message.body, message.body_size) == (seen, 10)
