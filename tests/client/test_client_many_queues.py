"""A client that uses thousands of queues keeps as much of them as it uses at a time."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
import spoolrack
from spoolrack import aio
from spoolrack._transports import routed_transport
from spoolrack.testing import RunningServer

QUEUES = 60
OPEN = 5


@pytest.fixture
def names(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(routed_transport, "OPEN_TAGS", OPEN)
    names = [f"jobs-{number}" for number in range(QUEUES)]
    with server.client() as client:
        for name in names:
            client.create_queue(name)
    return names


def transport_of(client: Any) -> Any:
    return client._context.transport


def test_a_client_with_routing_by_header_keeps_the_streams_of_the_tags_that_it_used_last(
    server: RunningServer, names: list[str]
) -> None:
    before = threading.active_count()
    with spoolrack.connect(server.url, routing="header") as client:
        for _ in range(2):
            for name in names:
                client.queue(name).send(b"1")
                (message,) = client.queue(name).receive()
                message.delete()
        assert list(transport_of(client)._by_tag) == names[-OPEN:]
        gc.collect()
        # Two streams with two threads each of a tag, and those of the channel.
        assert threading.active_count() - before < 4 * OPEN + QUEUES / 2
        # The same channel serves all.
        channels = {id(each._calls._calls) for each in transport_of(client)._by_tag.values()}
        assert len(channels) == 1
    with server.client() as client:
        for name in names:
            counts = client.queue(name).info().counts
            assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_requests_in_flight_outlive_that_their_tag_was_used_long_ago(
    server: RunningServer, names: list[str]
) -> None:
    async with aio.connect(server.url, routing="header") as client:
        handles = [client.queue(name) for name in names]
        async with asyncio.TaskGroup() as group:
            for handle in handles:
                for number in range(3):
                    group.create_task(handle.send(b"%d" % number))
        assert len(transport_of(client)._by_tag) == OPEN
        for handle in handles:
            assert (await handle.info()).counts.ready_count == 3


def test_handles_that_no_program_uses_are_not_kept(server: RunningServer) -> None:
    with server.client() as client:
        kept = client.queue("kept")
        for number in range(1_000):
            client.queue(f"jobs-{number}")
        gc.collect()
        assert list(client._queues) == ["kept"]
        # So that all senders to a queue share its calls.
        assert client.queue("kept") is kept


def test_a_message_outlives_the_handle_that_received_it(server: RunningServer) -> None:
    with server.client() as client:
        client.create_queue("jobs")
        client.queue("jobs").send(b"1")
        client.queue("jobs").send(b"2")
        first, second = client.queue("jobs").receive(2)
        gc.collect()
        first.delete()
        second.ack()
        del first, second
        gc.collect()
    with server.client() as client:
        counts = client.queue("jobs").info().counts
        assert (counts.ready_count, counts.leased_count) == (0, 0)
