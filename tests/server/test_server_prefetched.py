"""A stream that says how many messages its client handles at a time: only begun ones count."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock

from tests.support.server_rig import Client, next_messages

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
