"""Promises of every transport with priorities."""

from __future__ import annotations

import pytest
import spoolrack
from spoolrack import Outgoing, Queue
from spoolrack.errors import InvalidRequest

from tests.client.contract.conftest import World

pytestmark = pytest.mark.needs("priorities")


def test_a_higher_priority_is_received_first(jobs: Queue) -> None:
    jobs.send("low")
    id = jobs.send("high", priority=9)
    assert jobs.get(id).priority == 9
    jobs.send_many([Outgoing(body="middle", priority=4), Outgoing(body="low too")])
    shown = {message.text: message.priority for message in jobs.peek()}
    assert shown == {"low": 0, "high": 9, "middle": 4, "low too": 0}
    found = [(message.text, message.priority) for message in jobs.receive(10)]
    assert found == [("high", 9), ("middle", 4), ("low", 0), ("low too", 0)]


@pytest.mark.needs("stages")
def test_the_messages_of_a_batch_keep_their_priorities(jobs: Queue) -> None:
    with jobs.batch() as batch:
        batch.send("low")
        batch.send("high", priority=9)
        batch.send_to("jobs", "middle", priority=5)
    assert [message.text for message in jobs.receive(10)] == ["high", "middle", "low"]


def test_an_aging_lets_older_messages_come_first(client: spoolrack.Client, world: World) -> None:
    client.create_queue("aged", priority_aging=3600)
    aged = client.queue("aged")
    assert aged.info().settings.priority_aging == 3600
    aged.send("old")
    world.advance(2 * 3600)
    aged.send("new and first", priority=3)
    aged.send("new", priority=1)
    assert [message.text for message in aged.receive(3)] == ["new and first", "old", "new"]


def test_an_impossible_priority_is_refused_before_it_is_sent(jobs: Queue) -> None:
    for priority in (-1, 10, 1.5, "9", True):
        with pytest.raises(InvalidRequest, match="priority"):
            jobs.send("a", priority=priority)  # type: ignore[arg-type]
