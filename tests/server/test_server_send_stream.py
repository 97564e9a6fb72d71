"""The stream of sends: answers in order, several requests on their way, errors that end nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.rpc import streams

from tests.support.server_rig import Client
from tests.support.statuses import info_of, reason_of


def request(number: int, *bodies: bytes, queue: str = "q") -> rpc.StreamSendRequest:
    return rpc.StreamSendRequest(
        correlation_id=number,
        request=rpc.SendRequest(
            queue=queue, messages=[pb.OutgoingMessage(body=body) for body in bodies]
        ),
    )


async def responses(call: Any) -> list[rpc.StreamSendResponse]:
    return [response async for response in call]


async def test_answers_come_in_the_order_of_the_requests_and_so_do_the_messages(client: Client) -> None:
    await client.create()
    count = 3 * streams.WINDOW_REQUESTS

    async def requests() -> AsyncIterator[rpc.StreamSendRequest]:
        for n in range(count):
            yield request(-n, b"%d" % n, b"and %d" % n)

    found = await responses(client.stub.StreamSend(requests()))
    assert [response.correlation_id for response in found] == [-n for n in range(count)]
    ids = [result.sent.id for response in found for result in response.response.results]
    messages = await client.receive(1_000)
    assert [message.id for message in messages] == ids
    assert [message.body for message in messages[:4]] == [b"0", b"and 0", b"1", b"and 1"]


async def test_an_invalid_request_is_answered_and_its_stream_goes_on(client: Client) -> None:
    await client.create(max_message_size=3)
    requests = [
        request(1, b"1"),
        request(2, b"1", queue="a/b"),
        request(3, b"1", queue="nowhere"),
        request(4),
        request(5, *[b"x"] * 1_001),
        request(6, b"long", b"2"),
        request(7, b"3"),
    ]
    found = await responses(client.stub.StreamSend(iter(requests)))
    assert [response.correlation_id for response in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [reason_of(response.error) for response in found] == [
        "",
        "INVALID_QUEUE_NAME",
        "QUEUE_NOT_FOUND",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "",
        "",
    ]
    assert found[1].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert info_of(found[2].error).metadata == {"queue": "nowhere"}
    assert not found[2].HasField("response")
    assert [reason_of(result.error) for result in found[5].response.results] == [
        "MESSAGE_TOO_LARGE",
        "",
    ]
    assert [message.body for message in await client.receive(10)] == [b"1", b"2", b"3"]


async def test_messages_of_a_disconnected_client_are_whole_or_absent(client: Client) -> None:
    await client.create()
    for n in range(50):
        call = client.stub.StreamSend()
        await call.write(request(1, *[b"%d" % n] * 5))
        for _ in range(n % 5):
            await client.counts()
        call.cancel()
    await client.send(b"last")
    bodies = [message.body for message in await client.receive(1_000)]
    assert {bodies.count(b"%d" % n) for n in range(50)} <= {0, 5}


async def test_large_requests_go_one_after_the_other_through_the_window(client: Client) -> None:
    await client.create(max_message_size=streams.WINDOW_BYTES)
    body = bytes(streams.WINDOW_BYTES)

    async def requests() -> AsyncIterator[rpc.StreamSendRequest]:
        for n in range(4):
            yield request(n, body)

    found = await responses(client.stub.StreamSend(requests()))
    assert [len(response.response.results) for response in found] == [1, 1, 1, 1]


async def test_the_window_lets_in_no_more_than_its_bounds() -> None:
    window = streams.FlowWindow(requests=2, bytes=10)
    await window.wait()
    window.enter(10)
    waiting = asyncio.ensure_future(window.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(10)
    await waiting
    window.enter(1)
    window.enter(1)
    waiting = asyncio.ensure_future(window.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(1)
    await waiting
