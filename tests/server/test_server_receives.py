"""The memory for responses bounds the receives of every front alike."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import spoolrack_server
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app import receives
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support import MIB
from tests.support.server_rig import Client, connected, refused

FRONTS = ("grpc", "http", "sqs")
BODY = bytes([0x41]) * (200 * 1024)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(receives, "MEMORY_TIMEOUT", 0.1)
    settings = ServeSettings(root=str(tmp_path), sqs=(LOOPBACK, 0))
    async with Server(settings, clock=ManualClock()) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server) as client:
        await client.create(max_message_size=64 * MIB)
        yield client


async def outcome(server: Server, client: Client, front: str) -> str:
    """Return the body of a received message, or the error and when to try again."""
    if front == "grpc":
        call = client.receive()
        try:
            (message,) = await call
        except Exception as error:  # noqa: BLE001
            return str(error)
        return str(message.body, "ascii")
    async with aiohttp.ClientSession() as session:
        if front == "http":
            async with session.get(f"{server.http_url}/q/messages") as response:
                text = await response.text()
                if response.status == 200:
                    return text
                return f"{response.status} {response.headers['Retry-After']} {text}"
        headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage"}
        parameters = json.dumps({"QueueUrl": "/q"})
        async with session.post(f"{server.sqs_url}/", data=parameters, headers=headers) as response:
            told = await response.json(content_type=None)
            if response.status == 200:
                return str(told["Messages"][0]["Body"])
            return f"{response.status} {response.headers['x-amzn-query-error']}"


@pytest.mark.parametrize("front", FRONTS)
async def test_a_receive_without_memory_is_refused_and_its_message_stays_ready(
    server: Server, client: Client, front: str
) -> None:
    # What the other fronts hand out fills the memory of all: nothing may be leased and not sent.
    await client.send(BODY)
    budget = server._memory.responses
    held = budget.count("another", budget.total)
    refusal = await outcome(server, client, front)
    expected = {"grpc": "MEMORY_LIMIT", "http": "503 ", "sqs": "503 ServiceUnavailable;Receiver"}
    assert expected[front] in refusal or "too little memory" in refusal, refusal
    await client.until_ready(1)
    budget.free("another", held)
    assert await outcome(server, client, front) == BODY.decode()
    assert budget.used == 0


async def test_a_response_counts_until_its_client_has_it_and_comes_back_without_one(
    server: Server, client: Client
) -> None:
    size = 16 * MIB  # More than the kernel takes for a client that doesn't read.
    await client.send(b"B" * size)
    budget, url = server._memory.responses, urlsplit(str(server.sqs_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1024)
    writer.write(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b'Content-Length: 18\r\n\r\n{"QueueUrl": "/q"}'
    )
    await reader.readuntil(b"\r\n\r\n")
    assert size <= budget.used <= size + MIB
    writer.close()
    await client.until_ready(1)
    (message,) = await client.receive()
    assert message.receive_count == 1
    assert budget.used == 0


async def test_a_large_body_is_sent_from_its_file_and_takes_no_memory(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aiohttp.ClientSession() as session:
        sent = b"C" * (40 * MIB)
        await session.post(f"{server.http_url}/q/messages", data=BytesIO(sent))
        budget, counted = server._memory.responses, []
        monkeypatch.setattr(budget, "count", lambda peer, size: counted.append(size) or 0)
        async with session.get(f"{server.http_url}/q/messages") as response:
            assert await response.read() == sent
    assert sum(counted) < MIB


async def test_a_message_that_is_deleted_before_its_file_is_opened_makes_room_for_the_next(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await client.send(b"D" * MIB, b"E" * MIB)
    gateway = server._fronts[0]
    found = gateway._context.app.messages  # type: ignore[attr-defined]
    opening = found.open

    async def open_late(caller: object, queue: str, id: str) -> object:
        if id == first:
            await found.delete(caller, queue, [id])
        return await opening(caller, queue, id)

    monkeypatch.setattr(found, "open", open_late)
    assert await outcome(server, client, "http") == "E" * MIB


async def test_what_was_done_is_answered_whatever_memory_there_is(
    server: Server, client: Client
) -> None:
    # A client that gets MEMORY_LIMIT sends again: the one good message would be there twice.
    budget = server._memory.responses
    held = budget.count("another", budget.total)
    wrong = [pb.OutgoingMessage(body=b"x", priority=100) for _ in range(999)]
    request = rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=BODY), *wrong])
    response = await client.stub.Send(request)
    assert response.ByteSize() > 64 * 1024
    good, *refusals = response.results
    assert all(each.HasField("error") for each in refusals)
    await client.until_ready(1)
    asked = rpc.GetMessageRequest(queue="q", id=good.sent.id)
    assert (await refused(client.stub.GetMessage(asked))).reason == "MEMORY_LIMIT"
    budget.free("another", held)
    assert (await client.stub.GetMessage(asked)).message.body == BODY


def test_no_front_leases_but_by_the_use_cases_that_are_bounded() -> None:
    package = Path(spoolrack_server.__file__).parent
    sources = {
        path.relative_to(package): path.read_text()
        for floor in ("rpc", "http", "sqs", "wire", "dashboard")
        for path in (package / floor).rglob("*.py")
    }
    assert len(sources) > 30
    found = [str(path) for path, text in sources.items() if re.search(r"leases\.lease\(", text)]
    assert found == []
