"""A stream that says how many messages its client handles at a time: only begun ones count."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_server.rpc import receive_streams
from spoolrack_store.manual_clock import ManualClock

from tests.client.client_rig import until_async
from tests.support.server_rig import Client, next_messages, refused

LEASE = 5_000


async def opened(client: Client, **more: Any) -> Any:
    """Return a stream whose client goes on with its requests."""
    call = client.stub.StreamReceive()
    lease = Duration(seconds=LEASE // 1_000)
    await call.write(
        rpc.StreamReceiveRequest(start=rpc.ReceiveStart(queue="q", visibility_timeout=lease, **more))
    )
    return call


async def receives(client: Client) -> list[int]:
    """Return how often each ready message was received, in order."""
    response = await client.stub.ListMessages(rpc.ListMessagesRequest(queue="q"))
    return [message.receive_count for message in response.messages]


async def test_a_stream_without_a_concurrency_counts_all_that_it_delivers(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    await client.send(b"1", b"2")
    stream = await opened(client)
    await next_messages(stream, 2)
    clock.advance(LEASE)
    again = await next_messages(stream, 2)
    assert [message.receive_count for message in again] == [2, 2]


async def test_a_report_has_no_response_and_ends_the_silence_of_a_stream(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3")
    stream = await opened(client, concurrency=1)
    await next_messages(stream, 3)
    clock.advance(LEASE)
    await client.until_ready(3)
    await client.send(b"4")
    await client.until_ready(4)
    await stream.write(rpc.StreamReceiveRequest(report=rpc.ReceiveReport(begun=3)))
    again = await next_messages(stream, 4)
    assert [message.receive_count for message in again] == [2, 1, 1, 1]


async def test_a_report_changes_how_many_messages_may_be_in_flight(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3")
    stream = await opened(client, concurrency=1, max_in_flight=1)
    await next_messages(stream, 1)
    await stream.write(rpc.StreamReceiveRequest(report=rpc.ReceiveReport(begun=1, max_in_flight=3)))
    assert [message.body for message in await next_messages(stream, 2)] == [b"2", b"3"]


async def test_a_report_holds_for_the_requests_that_follow(client: Client, clock: ManualClock) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3", b"4")
    stream = await opened(client, concurrency=1)
    first, *_ = await next_messages(stream, 4)
    delete = rpc.DeleteRequest(targets=[rpc.DeleteTarget(receipt=first.receipt)])
    await stream.write(rpc.StreamReceiveRequest(report=rpc.ReceiveReport(begun=3)))
    await stream.write(rpc.StreamReceiveRequest(correlation_id=7, delete=delete))
    answer = await stream.read()
    assert (answer.correlation_id, len(answer.delete.results)) == (7, 1)
    clock.advance(LEASE)
    await client.until_ready(3)
    assert await receives(client) == [1, 1, 0]


async def test_what_has_not_arrived_of_an_interrupted_stream_is_ready_again_and_uncounted(
    client: Client,
) -> None:
    await client.create()
    await client.send(*(b"%d" % number for number in range(8)))
    stream = await opened(client, concurrency=4, stream_id="one")
    await next_messages(stream, 8)
    # To the server they were delivered. The client says that three of them have arrived.
    gone = [rpc.InterruptedStream(stream_id="one", arrived=3)]
    again = await opened(client, stream_id="two", interrupted=gone)
    found = await next_messages(again, 5)
    assert [message.body for message in found] == [b"%d" % number for number in range(3, 8)]
    assert {message.receive_count for message in found} == {1}
    # The first stream gets nothing more: its connection is given up.
    await client.send(b"8")
    assert [message.body for message in await next_messages(again, 1)] == [b"8"]
    assert (await client.counts()).leased_count == 9


async def test_an_ended_stream_is_claimed_once_and_by_its_own_queue(client: Client) -> None:
    await client.create()
    await client.create("other")
    await client.send(b"1", b"2")
    stream = await opened(client, stream_id="one")
    await next_messages(stream, 2)
    stream.cancel()
    gone = [rpc.InterruptedStream(stream_id="one"), rpc.InterruptedStream(stream_id="unknown")]
    other = client.stream(queue="other", interrupted=gone)
    await other.initial_metadata()
    assert (await client.counts()).leased_count == 2
    first = client.stream(max_in_flight=1, interrupted=gone)
    assert [message.receive_count for message in await next_messages(first, 1)] == [1]
    second = client.stream(max_in_flight=1, interrupted=gone)
    assert [message.receive_count for message in await next_messages(second, 1)] == [1]
    assert (await client.counts()).leased_count == 2


async def test_the_ids_of_a_first_request_are_bounded(client: Client) -> None:
    await client.create()
    many = [rpc.InterruptedStream(stream_id=str(number)) for number in range(101)]
    for wrong in (
        {"stream_id": "x" * 65},
        {"interrupted": many},
        {"interrupted": [rpc.InterruptedStream(stream_id="x" * 65)]},
        {"interrupted": [rpc.InterruptedStream(stream_id="x", arrived=-1)]},
    ):
        stream = client.stream(**wrong)
        assert (await refused(stream.read())).code.name == "INVALID_ARGUMENT"


async def test_ended_streams_are_dropped_after_a_while_and_from_a_number_on(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.create()
    assert server._services is not None
    streams = server._services._receive_streams
    monkeypatch.setattr(receive_streams, "ENDED_STREAMS", 3)
    for number in range(9):
        stream = client.stream(stream_id=str(number))
        await stream.initial_metadata()
        stream.cancel()
    await until_async(lambda: len(streams._ended) == 3)
    await until_async(lambda: len(streams._claimable) == 3)
    monkeypatch.setattr(receive_streams, "CLAIM_TIMEOUT", 0.0)
    stream = client.stream(stream_id="last")
    await stream.initial_metadata()
    stream.cancel()
    await until_async(lambda: "last" not in streams._claimable)
