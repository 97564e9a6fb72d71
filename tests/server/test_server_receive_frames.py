"""A stream of receives, each of which is answered as the unary call is."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server

from tests.support import STUCK
from tests.support.server_rig import Client, refused
from tests.support.statuses import reason_of

Request = rpc.StreamReceiveRequest


def receive(number: int, queue: str = "q", **more: Any) -> Request:
    return Request(correlation_id=number, receive=rpc.ReceiveRequest(queue=queue, **more))


async def asked(call: Any, request: Request) -> rpc.StreamReceiveResponse:
    await call.write(request)
    response: rpc.StreamReceiveResponse = await call.read()
    assert response.correlation_id == request.correlation_id
    return response


def reason(response: rpc.StreamReceiveResponse) -> str:
    assert response.WhichOneof("frame") == "error"
    return reason_of(response.error)


async def test_each_receive_of_a_stream_is_answered_as_the_unary_call_is(client: Client) -> None:
    await client.create()
    await client.create("other")
    await client.send(b"a", b"b", b"c")
    call = client.stub.StreamReceive()
    first = await asked(call, receive(7))
    two = await asked(call, receive(-8, max_messages=2, visibility_timeout=Duration(seconds=9)))
    none = await asked(call, receive(9, max_messages=2))
    other = await asked(call, receive(10, queue="other"))

    assert [message.body for message in first.received.messages] == [b"a"]
    assert [message.body for message in two.received.messages] == [b"b", b"c"]
    assert 8 <= two.received.visibility_timeout.seconds <= 9
    for empty in (none, other):
        assert empty.WhichOneof("frame") == "received"
        assert not empty.received.messages
    assert (await client.counts()).leased_count == 3


async def test_a_receive_that_is_invalid_is_refused_and_the_stream_goes_on(client: Client) -> None:
    await client.create()
    await client.send(b"a")
    call = client.stub.StreamReceive()
    assert reason(await asked(call, receive(1, queue="nowhere"))) == "QUEUE_NOT_FOUND"
    assert reason(await asked(call, receive(2, max_bytes=-1))) == "INVALID_REQUEST"
    assert reason(await asked(call, receive(3, max_messages=1_001))) == "INVALID_REQUEST"
    assert len((await asked(call, receive(4))).received.messages) == 1


async def test_a_receive_of_a_stream_waits_and_gets_what_is_sent(client: Client) -> None:
    await client.create()
    call = client.stub.StreamReceive()
    await call.write(receive(1, wait=Duration(seconds=60)))
    answer = asyncio.ensure_future(call.read())
    await client.send(b"late")
    assert [message.body for message in (await answer).received.messages] == [b"late"]


async def test_a_stream_of_receives_takes_no_other_frame(client: Client) -> None:
    await client.create()
    call = client.stub.StreamReceive()
    await asked(call, receive(1))
    await call.write(Request(correlation_id=2, delete=rpc.DeleteRequest(queue="q")))
    assert (await refused(call.read())).reason == "INVALID_REQUEST"


async def test_a_receive_that_waits_when_its_client_goes_leases_nothing(client: Client) -> None:
    await client.create()
    call = client.stub.StreamReceive()
    await asked(call, receive(1))
    await call.write(receive(2, wait=Duration(seconds=3_600)))
    call.cancel()
    await client.send(b"a")
    (message,) = (
        await client.stub.Receive(rpc.ReceiveRequest(queue="q", wait=Duration(seconds=60)))
    ).messages
    assert message.receive_count == 1


async def test_a_stream_of_receives_ends_as_the_server_drains(server: Server, client: Client) -> None:
    await client.create()
    call = client.stub.StreamReceive()
    await asked(call, receive(1))
    await call.write(receive(2, wait=Duration(seconds=3_600)))
    await asyncio.wait_for(server.stop(), STUCK)
    with contextlib.suppress(grpc.aio.AioRpcError):
        # An answer that says so may come before the end.
        while (refusal := await call.read()) is not grpc.aio.EOF:
            assert reason(refusal) == "DRAINING"
    assert await call.code() is grpc.StatusCode.UNAVAILABLE
