"""Limits on a connection, from outside: with sockets that no library keeps from being rude."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import spoolrack.aio
import trustme
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security
from spoolrack_server.http import listen_sockets
from spoolrack_server.http.request_bodies import HttpLimits
from spoolrack_server.process.server import Server
from spoolrack_server.system.limits import LARGEST_CALL, LINE, METADATA, PROBES, Limits
from spoolrack_server.system.system_limits import DESCRIPTORS

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.access_rig import Files, serving
from tests.support.raw_http2 import PREFACE, SETTINGS, call, frame
from tests.support.server_rig import Client, connected, refused
from tests.support.sqs_rig import serving_sqs

pytestmark = pytest.mark.timeout(300)  # It opens hundreds of connections.

DOCS = CHECKOUT / "docs" / "how-to" / "security.md"
GOAWAY = 7
MAX_CONCURRENT_STREAMS = 3


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, words: bytes) -> None:
        self.writer.write(words)
        await self.writer.drain()

    async def hears(self, count: int = 1) -> bytes:
        """At least a byte; nothing if the server hung up."""
        try:
            return await asyncio.wait_for(self.reader.read(count), STUCK)
        except ConnectionError:
            return b""

    async def until_closed(self) -> bytes:
        heard = b""
        while more := await self.hears(65_536):
            heard += more
        return heard


@contextlib.asynccontextmanager
async def connection(port: int | None) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def frames(raw: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(raw) >= 9:
        (size,) = struct.unpack(">I", b"\0" + raw[:3])
        found.append((raw[3], raw[9 : 9 + size]))
        raw = raw[9 + size :]
    return found


async def test_so_many_connections_and_no_more_at_each_port(tmp_path: Path) -> None:
    limits = Limits(connections=3)
    async with serving_sqs(tmp_path / "root", limits=limits) as server:
        assert server.sqs_port is not None
        for port, words in (
            (server.grpc_port, PREFACE + frame(SETTINGS)),
            (server.http_port, b"GET /-/queues HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            (server.sqs_port, b"GET /?Action=ListQueues HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(3):
                    made = await stack.enter_async_context(connection(port))
                    await made.say(words)
                    assert await made.hears()
                for _ in range(3):
                    async with connection(port) as one_too_many:
                        with contextlib.suppress(ConnectionError):
                            await one_too_many.say(words)
                        assert await one_too_many.until_closed() == b""
            # Whose place is given back as soon as it is noticed.
            for _ in range(1_000):
                async with connection(port) as next_one:
                    with contextlib.suppress(ConnectionError):
                        await next_one.say(words)
                    if await next_one.hears():
                        break
            else:
                raise AssertionError("no place was given back")


PROBE = b"GET /-/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_idle_connections_close_no_port_to_a_new_one(tmp_path: Path, files: Files) -> None:
    """Whatever they have said so far: only a known caller keeps its place."""
    security = Security(tokens=files.write_tokens("alice"))
    token = files.tokens["alice"].encode()
    known = b"GET /-/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % token
    limits = Limits(connections=4)
    async with (
        serving(tmp_path / "root", security, limits=limits) as server,
        connection(server.http_port) as alice,
        contextlib.AsyncExitStack() as stack,
    ):
        await alice.say(known)
        assert b"200" in await alice.hears(1_000)
        strangers = []
        for words in (b"", b"GET", known.replace(token, b"another"), PROBE) * 5:
            stranger = await stack.enter_async_context(connection(server.http_port))
            await stranger.say(words)
            if words.endswith(b"\r\n\r\n"):
                assert await stranger.hears(1_000)
            strangers.append(stranger)
        for stranger in strangers[:-3]:
            await stranger.until_closed()
        await alice.say(known)
        assert b"200" in await alice.hears(1_000), "it has kept its place"


async def test_a_stranger_in_its_tls_handshake_makes_room(
    tmp_path: Path, files: Files, ca: trustme.CA
) -> None:
    security = Security(tls=files.write_certificate(ca))
    context = ssl.create_default_context(cafile=files.write_ca(ca))
    limits = Limits(connections=2)
    async with (
        serving(tmp_path / "root", security, limits=limits) as server,
        connection(server.http_port) as silent,
        connection(server.http_port) as stopped,
    ):
        await stopped.say(b"\x16\x03\x01\x02\x00")
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port, ssl=context)
            writer.write(PROBE)
            assert b"200" in await reader.readline()
            writer.close()
        assert await silent.until_closed() == b""


async def test_a_prober_of_another_address_is_answered_beside_any_number_of_connections(
    tmp_path: Path,
) -> None:
    async with (
        serving(tmp_path / "root", Security(), health=("127.0.0.1", 0)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        port = int((server.health_url or "").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        stack.callback(writer.close)
        for _ in range(3 * PROBES):
            idle = await stack.enter_async_context(connection(port))
            await idle.say(b"GET")
        for _ in range(3):
            writer.write(PROBE)
            assert b"200" in await reader.readline()
            await reader.readuntil(b"}")


async def test_a_connection_in_its_handshake_counts_against_the_limit(
    tmp_path: Path, files: Files, ca: trustme.CA
) -> None:
    """And gives it back, also if nothing comes of it."""
    security = Security(tls=files.write_certificate(ca))
    context = ssl.create_default_context(cafile=files.write_ca(ca))
    async with serving(tmp_path / "root", security, limits=Limits(connections=2)) as server:

        async def shakes_hands() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", server.http_port, ssl=context)
            except (OSError, ssl.SSLError):
                return False
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()
            return True

        async def occupies() -> asyncio.StreamWriter:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port, ssl=context)
            writer.write(b"GET /-/queues HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await reader.readline()
            return writer

        for _ in range(5):
            occupying = [await occupies() for _ in range(2)]
            assert not await shakes_hands()
            for writer in occupying:
                writer.close()
            async with connection(server.http_port) as rude:
                await rude.say(b"no TLS at all\r\n\r\n" * 20)
                await rude.until_closed()
            for _ in range(1_000):
                if await shakes_hands():
                    break
            else:
                raise AssertionError("no place was given back")


async def test_a_connection_that_says_nothing_is_closed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"limits": Limits(handshake=0.5), "http_limits": HttpLimits(idle=0.5)}
    async with serving(tmp_path / "root", Security(), **options) as server:
        for port in (server.grpc_port, server.http_port):
            async with connection(port) as silent:
                heard = await silent.until_closed()
            assert b"HTTP/1.1 200" not in heard


@pytest.mark.parametrize(
    "words", [b"", b"\x16", b"\x16\x03\x01\x02\x00"], ids=["silent", "a byte", "a head"]
)
async def test_a_tls_connection_that_does_not_shake_hands_in_time_is_closed(
    tmp_path: Path, files: Files, ca: trustme.CA, words: bytes
) -> None:
    security = Security(tls=files.write_certificate(ca))
    options: dict[str, Any] = {"limits": Limits(handshake=0.5), "http_limits": HttpLimits(idle=STUCK)}
    async with serving(tmp_path / "root", security, **options) as server:
        for port in (server.grpc_port, server.http_port):
            async with connection(port) as slow:
                await slow.say(words)
                await slow.until_closed()


async def test_a_connection_without_a_call_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path / "root", Security(), limits=Limits(idle=1.0)) as server:
        async with connection(server.grpc_port) as idle:
            await idle.say(PREFACE + frame(SETTINGS))
            heard = frames(await idle.until_closed())
        assert [b"idle" in payload for kind, payload in heard if kind == GOAWAY] == [True]
        # A client of ours makes a new connection, without notice.
        async with connected(server) as client:
            await client.create()


async def test_a_connection_that_gives_no_sign_of_life_is_closed(tmp_path: Path) -> None:
    """Also while it has a call: it reads what it gets, and answers no ping."""
    limits = Limits(keepalive=0.5, keepalive_timeout=0.5)
    async with serving(tmp_path / "root", Security(), limits=limits) as server:
        async with connected(server) as client:
            await client.create()
        async with connection(server.grpc_port) as frozen:
            await frozen.say(call("StreamReceive"))
            assert await frozen.until_closed()


async def test_a_connection_is_told_how_many_streams_it_may_have(tmp_path: Path) -> None:
    async with serving(tmp_path / "root", Security()) as server, connection(server.grpc_port) as made:
        await made.say(PREFACE + frame(SETTINGS))
        kind, payload = frames(await made.hears(65_536))[0]
        assert kind == SETTINGS
        settings = dict(struct.iter_unpack(">HI", payload))
        assert settings[MAX_CONCURRENT_STREAMS] == Limits().streams


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "root", Security()) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server) as client:
        yield client


async def test_more_calls_than_streams_are_all_answered_in_the_end(tmp_path: Path) -> None:
    limits = Limits(streams=10)
    async with (
        serving(tmp_path / "root", Security(), limits=limits) as server,
        spoolrack.aio.connect(server.grpc_address) as client,
    ):
        await client.create_queue("q")
        answers = await asyncio.gather(*(client.queue("q").info() for _ in range(300)))
    assert len(answers) == 300


async def test_a_burst_of_calls_waits_or_is_refused_with_our_reason(tmp_path: Path) -> None:
    """gRPC's own bound on calls that aren't begun would end some, without details."""
    async with serving(tmp_path / "root", Security()) as server, connected(server) as client:
        await client.create()
        wait = Duration(seconds=3600)
        receives = [asyncio.ensure_future(client.receive(wait=wait)) for _ in range(2_000)]
        while server.store.metrics.root().waiting < len(receives):
            assert not any(receive.done() for receive in receives)
            await asyncio.sleep(0)
        await client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q"))
        ended = [await refused(receive) for receive in receives]
    assert {refusal.code for refusal in ended} == {grpc.StatusCode.NOT_FOUND}


MALFORMED = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"
NOTHING = b"GET /nothing/at/all HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
TWO_LENGTHS = (
    b"POST /q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n"
    b"Connection: close\r\n\r\nx"
)


@pytest.mark.parametrize("words", [MALFORMED, NOTHING, TWO_LENGTHS, b"no HTTP at all\r\n\r\n"])
async def test_no_response_tells_a_version(tmp_path: Path, words: bytes) -> None:
    settings = {"health": ("127.0.0.1", 0)}
    async with serving_sqs(tmp_path / "root", settings=settings) as server:
        assert server.health_url is not None
        for port in (server.http_port, server.sqs_port, int(server.health_url.rpartition(":")[2])):
            async with connection(port) as made:
                await made.say(words)
                heard = (await made.until_closed()).lower()
            assert b"\r\nserver: spoolrack\r\n" in heard
            assert b"aiohttp" not in heard
            assert b"python" not in heard


async def test_metadata_is_bounded(client: Client) -> None:
    await client.create()
    get = client.stub.GetQueue
    request = rpc.GetQueueRequest(name="q")
    await get(request, metadata=(("x-some", "x" * (METADATA - 1_000)),))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(request, metadata=(("x-some", "x" * METADATA),))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    await get(request)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET /%s HTTP/1.1\r\n" % (b"q" * LINE), b"400", id="line"),
        pytest.param(b"GET /-/health HTTP/1.1\r\nX-A: %s\r\n" % (b"x" * LINE), b"400", id="field"),
        pytest.param(
            b"GET /-/health HTTP/1.1\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(200)),
            b"400",
            id="fields",
        ),
        pytest.param(b"GET /-/health HTTP/1.1\r\n" + b"X-A: x\r\n" * 20, b"200", id="few"),
    ],
)
async def test_the_head_of_a_request_is_bounded(server: Server, head: bytes, status: bytes) -> None:
    async with connection(server.http_port) as made:
        await made.say(head + b"Host: localhost\r\nConnection: close\r\n\r\n")
        heard = await made.until_closed()
    assert heard.split(b" ")[1] == status
    assert b"Traceback" not in heard


def test_the_docs_say_each_limit() -> None:
    said = DOCS.read_text()
    limits = Limits()
    for words in (
        f"| {limits.connections:,}, ",
        f"| {PROBES} ",
        f" {DESCRIPTORS} descriptors are kept ",
        f"| {limits.streams:,} ",
        f"| {limits.pending:,} ",
        f"| {METADATA // 1024} KiB ",
        f"| {LARGEST_CALL // 1024 // 1024} MiB ",
        f"| {limits.handshake:g} s ",
        f"| {limits.idle / 60:g} min ",
        f"| {limits.keepalive + limits.keepalive_timeout:g} s ",
        f"| {LINE:,} bytes ",
        "| 128 ",
        "| 1,000, in 64 KiB ",
        f"| {HttpLimits().idle:g} s ",
        f"| {HttpLimits().stall:g} s ",
        f"| {HttpLimits().bytes_per_second // 1024} KiB/s ",
        f"| {HttpLimits().memory // 1024 // 1024} MiB ",
    ):
        assert words in said, words


def test_no_connection_of_another_address_makes_room_for_those_that_come_in_a_row() -> None:
    """What was accepted a moment ago can't be closed yet: a prober was closed in its place."""

    def place(address: str, *, is_open: bool) -> Any:
        return SimpleNamespace(address=address, end=print if is_open else None)

    limit = listen_sockets._ConnectionLimit(4)
    prober, first = place("127.0.0.2", is_open=True), place("127.0.0.1", is_open=False)
    second = place("127.0.0.1", is_open=False)
    limit.strangers = {5: prober, 6: first, 7: second}
    assert limit.longest_stranger() is None
    second.end = print
    assert limit.longest_stranger() is second
    first.end = print
    assert limit.longest_stranger() is first
