"""Clients that are slow, half-closed or gone: they harm no other client, and no message stays leased to
them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack_server.http.request_bodies import HttpLimits
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support import MIB, STUCK
from tests.support.http_rig import MANY, Http, Raw, fragile, http_to, raw_to
from tests.support.server_rig import LONG, Client, connected

IMPATIENT = HttpLimits(idle=0.3, stall=0.3, bytes_per_second=1_000_000, memory=MIB)


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root", clock=clock, http_limits=IMPATIENT) as server:
        yield server


async def parked(http: Http) -> None:
    """Return when a request that was sent before these has long been read."""
    for _ in range(20):
        await http.counts()


async def unseen(client: Client, body: bytes) -> None:
    """Check that the message is there, and that its receive isn't counted."""
    (message,) = await client.receive(wait=LONG)
    assert message.body == body
    assert message.receive_count == 1


RESERVE = b'{"stream": "s", "wait": 3600}'
WAITS: list[tuple[tuple[str, ...], bytes]] = [
    (("GET /q/messages?wait=3600 HTTP/1.1",), b""),
    (
        (
            "POST /-/queues/q/reservations HTTP/1.1",
            "Content-Type: application/json",
            f"Content-Length: {len(RESERVE)}",
        ),
        RESERVE,
    ),
]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("lines", "body"), WAITS, ids=["a receive", "a reserve"])
async def test_a_long_poll_whose_client_has_gone_leases_nothing(
    http: Http, client: Client, server: Server, half: bool, lines: tuple[str, ...], body: bytes
) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await raw.say(*lines, body=body)
        await parked(http)
        if half:
            raw.writer.write_eof()
        else:
            raw.close()
        await parked(http)
        await http.send(b"for others")
        await parked(http)
        assert (await http.counts())["ready_count"] == 1
        await unseen(client, b"for others")
        if half:
            assert await raw.until_closed() == b""


async def test_a_client_that_goes_in_the_midst_of_a_receive_keeps_nothing(
    http: Http, client: Client, server: Server
) -> None:
    await http.create()
    await http.send(b"back")
    async with raw_to(server) as raw:
        await raw.say("GET /q/messages HTTP/1.1")
        raw.close()
    await unseen(client, b"back")


async def test_a_reader_that_stops_reading_loses_the_lease_on_a_large_message(
    client: Client, server: Server
) -> None:
    await client.create(max_message_size=64 * MIB, visibility_timeout=Duration(seconds=3600))
    body = bytes(32 * MIB)
    await client.send(body)
    async with raw_to(server, receive_buffer=4096) as raw:
        await raw.say("GET /q/messages HTTP/1.1")
        assert (await raw.head())[0] == 200
        # Nothing is read any more, until the server has had enough.
        await unseen(client, body)
        assert len(await raw.until_closed()) < len(body)


async def test_a_reader_that_stops_reading_loses_the_lease_on_a_small_message(
    client: Client, server: Server
) -> None:
    count = 100
    await client.create(visibility_timeout=Duration(seconds=3600))
    await client.send(*(b"%d" % n + bytes(200_000) for n in range(count)))
    async with raw_to(server, receive_buffer=4096) as raw:
        for _ in range(count):
            await raw.say("GET /q/messages HTTP/1.1")
        # As much as the kernel takes is leased. The one that it doesn't take goes back, uncounted.
        await cut_off(server)
        taken = await settled(client)
        assert 0 < taken < count
        await raw.until_closed()
    left = await client.receive(1_000)
    while more := await client.receive(1_000):
        left += more
    assert len(left) == count - taken
    assert all(message.receive_count == 1 for message in left)


async def cut_off(server: Server) -> None:
    """Return once the server has closed all connections of HTTP."""
    (gateway,) = server._fronts
    listening = gateway._listener._runner.server
    assert listening is not None
    for _ in range(MANY):
        if not listening.connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a connection stays open")


async def settled(client: Client) -> int:
    """Return how many are leased when no more are."""
    before, same = -1, 0
    for _ in range(MANY):
        leased = (await client.counts()).leased_count
        same = same + 1 if leased == before else 0
        before = leased
        if same == 500:
            return before
    raise AssertionError("never settled")


async def test_a_body_that_stops_coming_is_given_up(http: Http, server: Server) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", "Content-Length: 100", body=b"the beginning")
        status, headers, body = await raw.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert b"UPLOAD_TOO_SLOW" in body
        assert b"13 bytes of it" in body  # What had arrived: `the beginning`.
    assert (await http.counts())["ready_count"] == 0


async def test_a_body_that_drips_is_given_up(http: Http, server: Server) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", "Content-Length: 1000000")
        answer = asyncio.ensure_future(raw.answer())
        for _ in range(MANY):
            await raw.say(body=b"x")
            await http.counts()
            if answer.done():
                break
        assert (await answer)[0] == 408
    assert (await http.counts())["ready_count"] == 0


@pytest.mark.parametrize("said", [b"", b"GET /q HTTP/1.1\r\n", b"GET /q HTTP/1.1\r\nHost: "])
async def test_a_head_that_does_not_come_is_not_waited_for(
    http: Http, server: Server, said: bytes
) -> None:
    async with raw_to(server) as raw:
        await raw.say(body=said)
        await raw.until_closed()
    async with raw_to(server) as raw:
        await raw.say("GET /-/health HTTP/1.1")
        assert (await raw.answer())[0] == 200
        await raw.say(body=said)
        await raw.until_closed()


async def test_all_bodies_that_come_at_one_time_share_one_bound(
    tmp_path: Path, clock: ManualClock
) -> None:
    patient = HttpLimits(memory=MIB)
    async with (
        Server(tmp_path / "root", clock=clock, http_limits=patient) as server,
        http_to(server) as http,
    ):
        await http.create(max_message_size=64 * MIB)
        for _ in range(MANY):
            async with raw_to(server) as raw:
                await raw.say(
                    "POST /q/messages HTTP/1.1", f"Content-Length: {MIB}", body=bytes(MIB - 1)
                )
                answer = await http.ask("POST", "/q/messages", bytes(MIB))
            if answer.status != 201:  # Else it was read first, and the other body was refused.
                break
        assert (answer.status, answer.reason) == (503, "TOO_MANY_UPLOADS")
        assert answer.headers["Retry-After"] == "1"
        while (await http.ask("POST", "/q/messages", bytes(MIB))).status != 201:
            pass  # The server has yet to hear that the connection is closed.
        # A larger one than the bound goes to the disk as it comes.
        answer = await http.ask("POST", "/q/messages", bytes(4 * MIB))
        assert answer.status == 201, answer.body
        for _ in range(3):
            assert (await http.ask("POST", "/q/messages", bytes(MIB))).status == 201
        # A slow client has only the bytes that it sent.
        async with raw_to(server) as raw:
            await raw.say("POST /q/messages HTTP/1.1", f"Content-Length: {MIB}", body=bytes(1000))
            assert (await http.ask("POST", "/q/messages", bytes(MIB // 2))).status == 201


async def test_a_client_that_leaves_in_mid_body_leaves_nothing_behind(
    http: Http, client: Client, server: Server
) -> None:
    await client.create(max_message_size=64 * MIB)
    for half in (True, False) * 5:
        async with raw_to(server) as raw:
            await raw.say("POST /q/messages HTTP/1.1", f"Content-Length: {MIB}", body=bytes(MIB // 2))
            if half:
                raw.writer.write_eof()
                assert b"HTTP/1.1 2" not in await raw.until_closed()
    # All the room that they took is free again.
    for _ in range(MANY):
        answer = await http.ask("POST", "/q/messages", bytes(MIB))
        if answer.status == 201:
            break
        assert answer.reason == "TOO_MANY_UPLOADS"
    assert (await client.counts()).ready_count == 1


async def test_a_delete_is_done_though_its_client_has_disconnected(tmp_path: Path) -> None:
    async with fragile(tmp_path / "fragile") as it:
        await it.http.create()
        id = await it.http.send(b"old")
        # The store is busy, so that the delete waits its turn when its client goes.
        reached, advance = it.disk.hold("create")
        send = asyncio.ensure_future(it.http.send(b"new"))
        assert await asyncio.to_thread(reached.wait, STUCK)
        async with raw_to(it) as raw:
            await raw.say(f"DELETE /q/messages/{id} HTTP/1.1")
            await awake(it.http)
            raw.close()
        await awake(it.http)
        advance.set()
        await send
        await it.http.until(ready_count=1)


async def awake(http: Http) -> None:
    """Return when the server has had time for all that was sent to it before."""
    for _ in range(20):
        await http.ask("GET", "/-/health")


async def test_a_half_closed_request_affects_no_other(
    http: Http, client: Client, server: Server
) -> None:
    await http.create()
    for line in ("PUT /q", "GET /q", "POST /q/messages", "DELETE /q/messages/x"):
        async with raw_to(server) as raw:
            await raw.say(f"{line} HTTP/1.1", "Content-Length: 0")
            raw.writer.write_eof()
            await raw.until_closed()
    id = await http.send(b"after")
    assert (await http.ask("GET", f"/q/messages/{id}")).body == b"after"


async def test_pipelined_requests_are_answered_in_order(http: Http, server: Server) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await say_all(raw, ["PUT /a", "GET /a", "GET /b", "GET /a/messages"])
        assert [(await raw.answer())[0] for _ in range(4)] == [201, 200, 404, 204]


async def say_all(raw: Raw, lines: list[str]) -> None:
    heads = "".join(f"{line} HTTP/1.1\r\nHost: localhost\r\n\r\n" for line in lines)
    await raw.say(body=heads.encode())


async def test_a_slow_reader_holds_up_no_other_client(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Server(tmp_path / "other", clock=clock) as server,
        connected(server) as client,
        http_to(server) as http,
    ):
        await client.create(max_message_size=64 * MIB)
        await client.send(bytes(32 * MIB), b"next")
        async with raw_to(server, receive_buffer=4096) as raw:
            await raw.say("GET /q/messages HTTP/1.1")
            assert (await raw.head())[0] == 200
            assert (await http.receive()).body == b"next"
            # It has all the time it needs, as long as it reads.
            total = 0
            while total < 32 * MIB:
                total += len(await raw.reader.read(MIB))
            assert total == 32 * MIB
        assert (await client.counts()).leased_count == 2


async def test_a_page_counts_until_its_client_has_it_and_a_client_that_does_not_read_is_cut_off(
    http: Http, server: Server
) -> None:
    await http.create()
    # More than the kernel takes for a client that doesn't read: controls are six bytes of JSON each.
    for _ in range(50):
        await http.send(b"\1" * 60_000)
    page = "/-/queues/q/messages?page_size=1000&max_body_bytes=65536"
    budget = server._memory.responses
    async with raw_to(server) as raw:
        await raw.say(f"GET {page} HTTP/1.1")
        status, headers = await raw.head()
        assert status == 200
        assert budget.used == int(headers["content-length"]) > 5 * MIB
        for _ in range(MANY):
            if not budget.used:
                break
            await asyncio.sleep(0.01)
        assert budget.used == 0
    held = budget.count("another", budget.total)
    refusal = await http.ask("GET", page)
    assert (refusal.status, refusal.reason) == (503, "MEMORY_LIMIT")
    budget.free("another", held)
    assert len((await http.ask("GET", page)).json["messages"]) > 1
    assert budget.used == 0
