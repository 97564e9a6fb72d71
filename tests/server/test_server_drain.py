"""How a server stops: nothing new begins, what is under way ends well, and what was said holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server

from tests.support.server_rig import (
    LONG,
    Client,
    connected,
    next_messages,
    refusal,
    refused,
    until_waiting,
)


async def test_a_drain_ends_streams_and_polls_with_a_status_that_says_try_again(
    server: Server, client: Client
) -> None:
    await client.create("empty")
    await client.create("q")
    await client.send(b"1", b"2")
    waiting = client.stream(queue="empty")
    without_credit = client.stream(1)
    sending = client.stub.StreamSend()
    await sending.write(
        rpc.StreamSendRequest(
            request=rpc.SendRequest(queue="empty", messages=[pb.OutgoingMessage(body=b"x")])
        )
    )
    assert (await sending.read()).response.results[0].sent.id
    await next_messages(waiting, 1)
    await next_messages(without_credit, 1)
    poll = client.stub.Receive(rpc.ReceiveRequest(queue="empty", wait=LONG))
    # Two streams and the poll. gRPC itself cancels a call that comes at the very last moment.
    await until_waiting(server, 2)
    stopping = asyncio.ensure_future(server.stop())
    for call in (waiting.read(), without_credit.read(), sending.read()):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert no.retry_millis
    # The poll may have reached the store before the drain, or the server after it.
    (outcome,) = await asyncio.gather(poll, return_exceptions=True)
    assert isinstance(outcome, grpc.aio.AioRpcError)
    assert outcome.code() == grpc.StatusCode.UNAVAILABLE
    await stopping


async def test_sends_under_way_when_a_drain_begins_are_answered_and_what_was_answered_is_kept(
    tmp_path: Path,
) -> None:
    async with Server(tmp_path) as server, connected(server) as client:
        await client.create()
        sends = [asyncio.ensure_future(client.send(b"%d" % n)) for n in range(200)]
        await sends[0]
        await server.stop()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    kept = [outcome[0] for outcome in outcomes if isinstance(outcome, list)]
    for outcome in outcomes:
        # CANCELLED is gRPC's own word to a call that came at the very last moment.
        assert isinstance(outcome, list) or (
            isinstance(outcome, grpc.aio.AioRpcError)
            and outcome.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        )
    async with Server(tmp_path) as server, connected(server) as client:
        messages = await client.receive(1_000)
        assert {message.id for message in messages} >= set(kept)


async def test_a_call_that_comes_during_a_drain_is_told_to_try_again(
    server: Server, client: Client
) -> None:
    await client.create(max_message_size=64 * 1024 * 1024)
    await client.send(bytes(60 * 1024 * 1024))
    # A frame in flight that its client doesn't read delays the drain.
    stream = client.stream()
    await stream.initial_metadata()
    watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
    await watch.read()
    stopping = asyncio.ensure_future(server.stop(grace=100))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    for call in (client.send(b"1"), client.receive(), client.counts()):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    stream.cancel()
    await stopping


async def test_only_answered_requests_of_a_send_stream_are_stored(tmp_path: Path) -> None:
    loop, first = asyncio.get_running_loop(), asyncio.Event()
    answered: list[str] = []

    def requests() -> Iterator[rpc.StreamSendRequest]:
        for n in range(100_000):
            message = pb.OutgoingMessage(body=b"%d" % n)
            yield rpc.StreamSendRequest(
                correlation_id=n, request=rpc.SendRequest(queue="q", messages=[message])
            )

    def talk(address: str) -> grpc.RpcError:
        # By the synchronous client: that of asyncio loses the status if it comes during a write.
        with grpc.insecure_channel(address) as channel:
            try:
                for response in Stubs(channel).StreamSend(requests()):
                    answered.append(response.response.results[0].sent.id)
                    loop.call_soon_threadsafe(first.set)
            except grpc.RpcError as error:
                return error
        raise AssertionError("the stream ended as if all was sent")

    async with Server(tmp_path) as server, connected(server) as client:
        await client.create()
        talking = asyncio.ensure_future(asyncio.to_thread(talk, server.grpc_address))
        await first.wait()
        await server.stop()
        assert refusal(await talking).reason == "DRAINING"
    async with Server(tmp_path) as server, connected(server) as client:
        found: list[str] = []
        while messages := await client.receive(1_000):
            found += [message.id for message in messages]
        assert found == answered


async def test_shutdown_waits_for_no_health_watch_and_no_idle_stream(
    server: Server, client: Client
) -> None:
    await client.create()
    watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    call = client.channel.stream_stream(
        "/spoolrack.v1.QueueService/StreamSend", response_deserializer=rpc.StreamSendResponse.FromString
    )()
    await call.write(b"")
    await call.read()
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await server.stop(grace=100)
    assert loop.time() - begin < 100
