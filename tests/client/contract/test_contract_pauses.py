"""Pauses of a queue, by every transport that has settings."""

from __future__ import annotations

import pytest
from spoolrack import Client, Queue
from spoolrack.errors import SendingPaused

pytestmark = pytest.mark.needs("settings")


def test_a_send_to_a_paused_queue_is_refused_and_not_repeated(client: Client, jobs: Queue) -> None:
    client.update_queue("jobs", sending="paused")
    with pytest.raises(SendingPaused) as refused:
        jobs.send("no")
    assert not refused.value.retryable
    client.update_queue("jobs", sending="open")
    jobs.send("yes")
    assert [message.text for message in jobs.receive(10)] == ["yes"]


def test_a_queue_whose_receiving_is_paused_takes_messages_and_hands_out_none(
    client: Client, jobs: Queue
) -> None:
    client.update_queue("jobs", receiving="paused")
    jobs.send("kept")
    assert jobs.receive(10) == []
    assert jobs.info().settings.receiving == "paused"
    assert jobs.info().counts.ready_count == 1
    client.update_queue("jobs", receiving="open")
    assert [message.text for message in jobs.receive(10)] == ["kept"]


def test_a_lease_is_kept_and_ended_while_receiving_is_paused(client: Client, jobs: Queue) -> None:
    jobs.send("a")
    jobs.send("b")
    deleted, released = jobs.receive(2)
    client.update_queue("jobs", receiving="paused", sending="paused")
    deleted.delete()
    released.extend(60)
    released.release()
    assert (jobs.info().counts.ready_count, jobs.info().counts.leased_count) == (1, 0)
