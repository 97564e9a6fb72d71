"""The stream of receives: its credits, and what stays leased when it or a poll ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app.store_access import READERS
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support import MIB
from tests.support.server_rig import LONG, Client, connected, next_messages

from .served import served

pytestmark = pytest.mark.timeout(300)  # Hundreds of syncs in a test, which other tests make slow.
RECEIVE = "/spoolrack.v1.QueueService/Receive"
ONE = rpc.ReceiveRequest(queue="q").SerializeToString()


class Nobody:
    """The context of a call whose client takes nothing."""

    def peer(self) -> str:
        return "nobody"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def write(self, response: bytes) -> None:
        return None


NOBODY: Any = Nobody()


async def test_receives_wait_for_no_look_at_files(server: Server, client: Client) -> None:
    await client.create()
    assert server._app is not None
    app, looked = server._app, threading.Event()
    looks = [asyncio.ensure_future(app.in_thread(looked.wait)) for _ in range(READERS)]
    try:
        stream = client.stream(1)
        waiting = asyncio.ensure_future(client.receive(wait=LONG))
        await client.send(b"a", b"b")
        found = [*await next_messages(stream, 1), *await waiting]
        assert {message.body for message in found} == {b"a", b"b"}
    finally:
        looked.set()
        await asyncio.gather(*looks)


async def test_a_client_that_leaves_as_soon_as_it_has_its_message_can_still_delete_it(
    client: Client,
) -> None:
    await client.create()
    for n in range(200):
        await client.send(b"%d" % n)
        stream = client.stream(1)
        (message,) = await next_messages(stream, 1)
        stream.cancel()
        assert await client.delete(message.receipt) == []
        assert message.receive_count == 1


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_leased(client: Client) -> None:
    await client.create()
    for n in range(200):
        poll = client.stub.Receive(rpc.ReceiveRequest(queue="q", wait=LONG))
        stream = client.stream()
        # At different moments of their way to the store and back.
        for _ in range(n % 20):
            await client.counts()
        sending = client.stub.Send(rpc.SendRequest(queue="q", messages=[{"body": b"%d" % n}]))
        poll.cancel()
        stream.cancel()
        await sending
        # No other stream can keep it, or this would wait until the test's own limit.
        (message,) = await client.receive(wait=LONG)
        assert await client.delete(message.receipt) == []


async def test_a_frame_that_no_transport_took_is_given_back(server: Server, client: Client) -> None:
    await client.create(max_message_size=64 * MIB)
    await client.send(bytes(60 * MIB))
    # The client doesn't read: most of the frame stays with the server. A window that grew with the time
    # that answers take would, on a busy machine, take all of it.
    async with connected(server, ("grpc.http2.bdp_probe", 0)) as reader:
        poll = reader.channel.unary_stream(RECEIVE)
        for begin in (reader.stream, lambda: poll(ONE)):
            call = begin()
            # The headers of a stream go ahead of its first lease.
            await call.initial_metadata()
            while not (await client.counts()).leased_count:
                pass
            call.cancel()
            (message,) = await client.receive(wait=LONG)
            assert message.receive_count == 1
            await client.stub.Send(rpc.SendRequest(queue="q", messages=[{"body": bytes(60 * MIB)}]))
            assert await client.delete(message.receipt) == []


async def test_a_frame_behind_one_that_no_transport_took_is_given_back(
    server: Server, client: Client
) -> None:
    await client.create(max_message_size=64 * MIB)
    await client.send(bytes(60 * MIB))
    async with connected(server, ("grpc.http2.bdp_probe", 0)) as reader:
        call = reader.stream()
        await call.initial_metadata()
        while (await client.counts()).leased_count < 1:
            pass
        await client.send(b"behind it")
        while (await client.counts()).leased_count < 2:
            pass
        call.cancel()
        found = [await client.receive(wait=LONG) for _ in range(2)]
        assert [message.receive_count for (message,) in found] == [1, 1]


async def test_a_message_leased_as_its_client_disconnects_is_released(tmp_path: Path) -> None:
    clock = ManualClock()
    with Store.open(tmp_path, clock=clock) as store:
        app, methods = served(store, clock)
        for name in ("q", "empty"):
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
        # The service knows the queue from then on.
        await methods["Receive"](rpc.ReceiveRequest(queue="q"), NOBODY)
        store.submit(Send(queue="q", bodies=[b"1"])).result()
        call = asyncio.ensure_future(methods["Receive"](rpc.ReceiveRequest(queue="q"), NOBODY))
        await asyncio.sleep(0)
        # The loop stands still until the answer has come, and hears of the cancellation first.
        store.submit(Receive(queue="empty")).result()
        assert store.queue("q").counts.leased_count == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await app.close()
        (message,) = messages_of(store.submit(Receive(queue="q")).result())
        assert message.receive_count == 1


class Stuck(Nobody):
    """The context of a call whose writes wait until its connection breaks."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()

    async def send_initial_metadata(self, metadata: object) -> None:
        return None

    async def write(self, response: bytes) -> None:
        await self.broken.wait()
        raise ConnectionError


class Single:
    """The requests of a stream whose client sends one."""

    is_reading = False

    async def first(self) -> rpc.StreamReceiveRequest:
        return rpc.StreamReceiveRequest(start=rpc.ReceiveStart(queue="q"))

    async def next(self) -> None:
        return None

    def announce(self, request: object) -> None:
        return None


async def test_frames_under_way_are_given_back_when_their_stream_is_cancelled_as_it_ends(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    with Store.open(tmp_path, clock=clock) as store:
        app, methods = served(store, clock)
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        context: Any = Stuck()
        requests: Any = Single()
        call = asyncio.ensure_future(methods["StreamReceive"](requests, context))
        for leased in (1, 2):
            store.submit(Send(queue="q", bodies=[b"a"])).result()
            while store.queue("q").counts.leased_count < leased:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0)
        context.broken.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        await app.close()
        assert store.queue("q").counts.leased_count == 0


async def test_a_consumer_that_does_not_read_gets_no_more_than_a_few_frames(client: Client) -> None:
    await client.create(max_message_size=8 * MIB)
    for _ in range(12):
        await client.send(bytes(8 * MIB))
    stream = client.stream()
    for _ in range(300):
        counts = await client.counts()
        assert counts.leased_count <= 3, "the server reads ahead"
    await next_messages(stream, 12)
