"""softlayer/mq's --workers: so many fetches and saves at a time; a receive that waits keeps none of
them busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1.staging_service_pb2 import StageRequest
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import Receive, Request, Send
from spoolrack_store.model.stage_requests import Stage
from spoolrack_store.store import Store

from tests.server.reservation_rig import asked
from tests.support.server_rig import LONG, Client, connected


class Counted(Store):
    """A store that knows how many fetches and saves it was given at once."""

    at_once: dict[type, int]
    most: dict[type, int]

    def submit(self, request: Request[Any]) -> Future[Any]:
        kind = type(request)
        if kind in (Send, Stage) or (isinstance(request, Receive) and request.wait == 0):
            self.at_once[kind] = self.at_once.get(kind, 0) + 1
            self.most[kind] = max(self.most.get(kind, 0), self.at_once[kind])
            future = super().submit(request)
            future.add_done_callback(lambda _: self._done(kind))
            return future
        return super().submit(request)

    def _done(self, kind: type) -> None:
        self.at_once[kind] -= 1


@pytest.fixture
async def bounded(tmp_path: Path) -> AsyncIterator[tuple[Server, Client, Counted]]:
    async with Server(ServeSettings(root=str(tmp_path), workers=2), clock=ManualClock()) as server:
        store = server.store
        store.__class__ = Counted
        assert isinstance(store, Counted)
        store.at_once, store.most = {}, {}
        async with connected(server) as client:
            yield server, client, store


async def test_no_more_saves_and_fetches_are_with_the_store_than_there_are_workers(
    bounded: tuple[Server, Client, Counted],
) -> None:
    server, client, store = bounded
    await client.create()
    url = f"{server.http_url}/q/messages"
    async with aiohttp.ClientSession() as http:

        async def post(n: int) -> int:
            async with http.post(url, data=b"http %d" % n) as response:
                return response.status

        statuses = asyncio.gather(*(post(n) for n in range(20)))
        sends = asyncio.gather(*(client.send(b"grpc %d" % n) for n in range(20)))
        assert set(await statuses) == {201}
        assert len({id for ids in await sends for id in ids}) == 20

        async def get(n: int) -> bytes:
            async with http.get(url) as response:
                return await response.read()

        gets = asyncio.gather(*(get(n) for n in range(20)))
        receives = asyncio.gather(*(client.receive() for _ in range(20)))
        bodies = [*(await gets), *(message.body for found in await receives for message in found)]
    assert len(set(bodies)) == 40
    assert store.most == {Send: 2, Receive: 2}


async def test_a_receive_that_waits_keeps_no_worker_busy(
    bounded: tuple[Server, Client, Counted],
) -> None:
    _, client, _ = bounded
    await client.create()
    waiting = [asyncio.ensure_future(client.receive(wait=LONG)) for _ in range(10)]
    assert await client.receive() == []
    await client.send(*(b"%d" % n for n in range(10)))
    found = await asyncio.gather(*waiting)
    assert sorted(message.body for each in found for message in each) == [b"%d" % n for n in range(10)]


async def test_a_stream_of_sends_gets_its_turns_and_its_order(
    bounded: tuple[Server, Client, Counted],
) -> None:
    _, client, store = bounded
    await client.create()
    stream = client.stub.StreamSend()

    async def put() -> None:
        for n in range(100):
            queue = "q" if n % 10 else "missing"
            message = pb.OutgoingMessage(body=b"%d" % n)
            await stream.write(
                rpc.StreamSendRequest(
                    correlation_id=n, request=rpc.SendRequest(queue=queue, messages=[message])
                )
            )
        await stream.done_writing()

    putting = asyncio.create_task(put())
    answers = [answer async for answer in stream]
    await putting
    assert [answer.correlation_id for answer in answers] == list(range(100))
    assert [n for n, answer in enumerate(answers) if answer.HasField("error")] == list(
        range(0, 100, 10)
    )
    assert store.most == {Send: 2}
    found = await client.receive(100, wait=Duration())
    assert [int(message.body) for message in found] == [n for n in range(100) if n % 10]


async def test_a_reserve_that_waits_keeps_no_worker_busy(
    bounded: tuple[Server, Client, Counted],
) -> None:
    _, client, _ = bounded
    await client.create()
    waiting = [
        client.stub.Reserve(asked(sequence_number, max_messages=1, wait=LONG))
        for sequence_number in range(10)
    ]
    assert await client.receive() == []
    assert not (await client.stub.Reserve(asked(10))).HasField("reservation")
    await client.send(*(b"%d" % n for n in range(10)))
    assert [(await call).reservation.message_count for call in waiting] == [1] * 10


async def test_chunks_wait_for_a_worker_as_sends_do(bounded: tuple[Server, Client, Counted]) -> None:
    _, client, store = bounded
    await client.create()
    messages = [pb.OutgoingMessage(body=b"x")]
    calls = [
        client.stub.Stage(StageRequest(stage="s", chunk_number=chunk, queue="q", messages=messages))
        for chunk in range(20)
    ]
    assert [(await call).message_count for call in calls] == [1] * 20
    assert store.most == {Stage: 2}
