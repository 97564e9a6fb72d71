"""Pauses of a queue, and what else holds its messages back, by every transport that has settings."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

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


def test_a_queue_tells_what_holds_its_messages_back(client: Client, jobs: Queue) -> None:
    assert (list(jobs.info().obstacles), list(jobs.info().oldest_leases)) == ([], [])
    client.update_queue("jobs", group_order="strict", max_messages=4)
    ids = [jobs.send(f"{number}", group="g") for number in range(3)]
    jobs.send("later", group="g", delay=3_600)
    (message,) = jobs.receive(1, visibility_timeout=600)
    client.update_queue("jobs", sending="paused", receiving="paused")
    info = jobs.info()
    told = {each.reason: each.explanation for each in info.obstacles}
    assert list(told) == ["SENDING_PAUSED", "QUEUE_FULL", "RECEIVING_PAUSED", "GROUPS_BLOCKED"]
    assert told["QUEUE_FULL"] == "it is full, with 4 of 4 messages"
    assert told["GROUPS_BLOCKED"].startswith("2 of 2 ready messages wait for one of their group")
    (lease,) = info.oldest_leases
    assert (lease.message_id, lease.message_count, lease.receive_count) == (ids[0], 1, 1)
    assert lease.stream == ""
    assert lease.first_received_at is not None
    assert lease.lease_expires_at - lease.first_received_at == timedelta(seconds=600)
    assert lease.first_received_at == message.first_received_at
    assert lease.received_at == message.first_received_at


@pytest.mark.needs("streams")
def test_the_oldest_leases_tell_the_process_that_received_them(client: Client, jobs: Queue) -> None:
    ids = [jobs.send(f"{number}") for number in range(2)]
    jobs.receive(1)
    with jobs.messages(max_in_flight=1) as messages:
        next(messages)
        leases = jobs.info().oldest_leases
    assert [each.message_id for each in leases] == ids
    host, pid = socket.gethostname(), os.getpid()
    for each in leases:
        assert host in each.consumer
        assert f"pid {pid}" in each.consumer
        assert each.received_at == each.first_received_at


def test_a_list_of_queues_tells_no_leases(client: Client, jobs: Queue) -> None:
    jobs.send("a")
    jobs.receive(1)
    assert jobs.info().oldest_leases
    assert [list(each.oldest_leases) for each in client.list_queues()] == [[]]


def test_a_reservation_that_holds_messages_is_told_by_its_stream(client: Client, jobs: Queue) -> None:
    jobs.send("a")
    jobs.reserve("nightly", 0, visibility_timeout=600)
    info = jobs.info()
    assert [each.reason for each in info.obstacles] == ["NOTHING_READY", "RESERVED"]
    (lease,) = info.oldest_leases
    assert (lease.stream, lease.consumer, lease.received_at) == ("nightly", "", None)
