"""Promises of every transport with groups."""

from __future__ import annotations

import pytest
import spoolrack
from spoolrack import Outgoing, Queue
from spoolrack.errors import InvalidMessage, InvalidRequest, InvalidSetting

pytestmark = pytest.mark.needs("groups")


def test_a_message_has_the_group_that_it_was_sent_with(jobs: Queue) -> None:
    id = jobs.send("a", group="first")
    jobs.send_many([Outgoing(body="b", group="zweite Gruppe ä"), Outgoing(body="c")])
    assert jobs.get(id).group == "first"
    assert [message.group for message in jobs.peek()] == ["first", "zweite Gruppe ä", ""]
    found = {message.text: message.group for message in jobs.receive(10)}
    assert found == {"a": "first", "b": "zweite Gruppe ä", "c": ""}


@pytest.mark.needs("stages")
def test_the_messages_of_a_batch_keep_their_groups(jobs: Queue) -> None:
    with jobs.batch() as batch:
        batch.send("a", group="first")
        batch.send("b")
        batch.send_to("jobs", "c", group="second")
    found = {message.text: message.group for message in jobs.receive(10)}
    assert found == {"a": "first", "b": "", "c": "second"}


def test_groups_take_turns(jobs: Queue) -> None:
    jobs.send_many([Outgoing(body=f"large {n}", group="large") for n in range(20)])
    jobs.send("small", group="small")
    assert "small" in [message.text for message in jobs.receive(2)]


def test_in_a_strict_queue_a_group_has_one_receives_leases(client: spoolrack.Client) -> None:
    client.create_queue("strict", group_order="strict")
    queue = client.queue("strict")
    queue.send_many([Outgoing(body=body, group=body[0]) for body in ("a1", "a2", "b1")])
    (first,) = queue.receive(1)
    assert first.text == "a1"
    (other,) = queue.receive(10)
    assert other.text == "b1"
    assert queue.receive(10) == []
    first.delete()
    assert [message.text for message in queue.receive(10)] == ["a2"]


def test_a_released_message_comes_before_the_later_ones_of_its_group(client: spoolrack.Client) -> None:
    client.create_queue("strict", group_order="strict")
    queue = client.queue("strict")
    queue.send_many([Outgoing(body=body, group="a") for body in ("a1", "a2")])
    (first,) = queue.receive(1)
    first.release()
    assert [message.text for message in queue.receive(1)] == ["a1"]


def test_the_order_of_groups_is_a_setting_of_the_queue(client: spoolrack.Client) -> None:
    assert client.create_queue("jobs").info().settings.group_order == "fair"
    assert client.update_queue("jobs", group_order="strict").settings.group_order == "strict"
    assert client.update_queue("jobs", group_order=None).settings.group_order == "fair"
    with pytest.raises(InvalidSetting, match="group_order can't be 'loose'"):
        client.update_queue("jobs", group_order="loose")  # type: ignore[arg-type]


def test_the_archives_retention_is_a_setting_of_the_queue(client: spoolrack.Client) -> None:
    assert client.create_queue("jobs").info().settings.archive_retention == 0.0
    changed = client.update_queue("jobs", archive_retention=86_400)
    assert changed.settings.archive_retention == 86_400.0
    assert client.update_queue("jobs", archive_retention=None).settings.archive_retention == 0.0


def test_a_group_that_can_not_be_is_refused(jobs: Queue) -> None:
    with pytest.raises(InvalidMessage, match="group"):
        jobs.send("a", group="g" * 129)
    with pytest.raises(InvalidRequest, match="group"):
        jobs.send("a", group="\udc80")
    assert jobs.receive(10) == []
