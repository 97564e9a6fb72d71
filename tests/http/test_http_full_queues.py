"""Sends to a full queue: they are told when to come again, or wait for room as long as they say."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from spoolrack_server.process.server import Server

from tests.support import STUCK
from tests.support.http_rig import MANY, Http, fragile, raw_to

SEVERAL = 20


def sends() -> int:
    """Return how many POSTs the server, which is in this event loop, has under way."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("HttpFront._answered")


async def under_way(http: Http, count: int) -> None:
    """Return once so many sends wait, which have all been tried."""
    for _ in range(MANY):
        await http.counts()
        if sends() == count:
            break
    else:
        raise AssertionError(f"{sends()} sends are under way, not {count}")
    for _ in range(SEVERAL):
        await http.counts()


async def test_a_full_queue_says_when_to_come_again(http: Http) -> None:
    await http.create("q", max_messages=1)
    await http.send()
    for query in ("", "?wait=0", "?wait=0.05"):
        answer = await http.ask("POST", f"/q/messages{query}", b"x")
        assert (answer.status, answer.reason) == (503, "QUEUE_FULL")
        assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("body", [b"small", bytes(2 << 20)], ids=["in memory", "in a file"])
async def test_a_send_waits_for_room(http: Http, body: bytes) -> None:
    await http.create("q", max_messages=1, max_message_size=4 << 20)
    first = await http.send()
    waiting = asyncio.ensure_future(http.ask("POST", "/q/messages?wait=3600", body))
    await under_way(http, 1)
    assert (await http.counts())["ready_count"] == 1
    assert (await http.ask("DELETE", f"/q/messages/{first}")).status == 202
    sent = await asyncio.wait_for(waiting, STUCK)
    assert sent.status == 201
    received = await http.receive()
    assert (received.id, received.body) == (sent.id, body)


async def test_sends_that_wait_fill_the_room_and_no_more(http: Http) -> None:
    await http.create("q", max_messages=2)
    first = [await http.send(), await http.send()]
    waiting = [asyncio.ensure_future(http.ask("POST", "/q/messages?wait=3600")) for _ in range(5)]
    await under_way(http, 5)
    for id in first:
        await http.ask("DELETE", f"/q/messages/{id}")
    await http.until(ready_count=2)
    await under_way(http, 3)
    assert (await http.counts())["ready_count"] == 2
    for task in waiting:
        task.cancel()


async def test_a_send_waits_for_room_on_the_disk(tmp_path: Path) -> None:
    async with fragile(tmp_path / "root") as it:
        await it.http.create()
        it.disk.fail(errno.ENOSPC, "create", "make_folder")
        waiting = asyncio.ensure_future(it.http.ask("POST", "/q/messages?wait=3600"))
        await under_way(it.http, 1)
        it.disk.heal()
        assert (await asyncio.wait_for(waiting, STUCK)).status == 201


async def test_a_send_whose_client_has_gone_waits_no_longer(http: Http, server: Server) -> None:
    await http.create("q", max_messages=1)
    first = await http.send()
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages?wait=3600 HTTP/1.1", "Content-Length: 1", body=b"x")
        await under_way(http, 1)
    await under_way(http, 0)
    await http.ask("DELETE", f"/q/messages/{first}")
    assert (await http.counts())["ready_count"] == 0


async def test_a_drain_ends_sends_that_wait(http: Http, server: Server) -> None:
    await http.create("q", max_messages=1)
    await http.send()
    waiting = asyncio.ensure_future(http.ask("POST", "/q/messages?wait=3600"))
    await under_way(http, 1)
    await asyncio.wait_for(server.stop(), STUCK)
    answer = await waiting
    assert (answer.status, answer.reason) == (503, "DRAINING")
    assert answer.headers["Retry-After"] == "1"
