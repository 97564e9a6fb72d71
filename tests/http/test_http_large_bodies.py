"""Large bodies over HTTP are written as they come, and leave nothing unless they become messages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.http.request_bodies import HttpLimits
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.support import MIB, STUCK
from tests.support.http_rig import Http, http_to, raw_to

ROOM = 4 * MIB
"""Bytes of the memory that all bodies share."""
LARGE = 8 * MIB


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root", clock=clock, http_limits=HttpLimits(memory=ROOM)) as server:
        yield server


@pytest.fixture
async def http(server: Server) -> AsyncIterator[Http]:
    async with http_to(server) as http:
        await http.create(max_message_size=2 * LARGE)
        yield http


async def in_chunks(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), 100_000):
        yield content[at : at + 100_000]


def unsent(root: Path) -> list[str]:
    return [name for name in os.listdir(root / "new") if name.endswith(".body")]


async def until_unsent(root: Path, count: int) -> None:
    async with asyncio.timeout(STUCK):
        while len(unsent(root)) != count:
            await asyncio.sleep(0)


@pytest.mark.parametrize("is_announced", [True, False], ids=["with its length", "in chunks"])
async def test_a_body_larger_than_the_memory_of_all_is_sent_and_comes_back(
    http: Http, tmp_path: Path, is_announced: bool
) -> None:
    content = os.urandom(LARGE)
    sent: Any = content if is_announced else in_chunks(content)
    headers = {"X-Attribute-colour": "red", "X-Message-Group": "g", "X-Message-Priority": "3"}
    answer = await http.ask("POST", "/q/messages", sent, headers)
    assert answer.status == 201, answer.body
    assert unsent(tmp_path / "root") == []
    received = await http.receive()
    assert received.id == answer.id
    assert received.body == content
    assert {name: received.headers[name] for name in headers} == headers


async def test_bodies_that_come_at_one_time_give_back_the_memory_of_what_is_written(http: Http) -> None:
    bodies = [os.urandom(LARGE) for _ in range(2)]
    for _ in range(3):
        answers = await asyncio.gather(*(http.ask("POST", "/q/messages", body) for body in bodies))
        assert [answer.status for answer in answers] == [201, 201]


async def test_a_client_that_goes_leaves_no_part_of_its_body(
    http: Http, server: Server, tmp_path: Path
) -> None:
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", f"Content-Length: {LARGE}", body=b"x" * MIB)
        await until_unsent(tmp_path / "root", 1)
    await until_unsent(tmp_path / "root", 0)
    assert (await http.receive()).status == 204


async def test_a_body_that_grows_beyond_the_limit_is_refused_and_leaves_nothing(
    http: Http, tmp_path: Path
) -> None:
    await http.create("small", max_message_size=2 * MIB)
    answer = await http.ask("POST", "/small/messages", in_chunks(bytes(LARGE)))
    assert answer.status == 413
    await until_unsent(tmp_path / "root", 0)
    assert (await http.receive(queue="small")).status == 204


async def test_a_repetition_of_a_large_body_leaves_nothing(http: Http, tmp_path: Path) -> None:
    headers = {"X-Message-Deduplication-Id": "once"}
    first = await http.ask("POST", "/q/messages", b"1" * LARGE, headers)
    again = await http.ask("POST", "/q/messages", b"2" * LARGE, headers)
    assert (again.status, again.id) == (201, first.id)
    assert again.headers["X-Message-Duplicate"] == "true"
    await until_unsent(tmp_path / "root", 0)
    assert (await http.receive()).body == b"1" * LARGE


async def test_a_start_removes_what_a_killed_process_was_writing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    async with Server(root):
        pass
    (root / "new" / "0123456789abc-7.body").write_bytes(b"half a bo")
    async with Server(root) as server, http_to(server) as http:
        await http.create()
        await http.send(b"a commit")
        assert unsent(root) == []
        assert os.listdir(root / "quarantine") == []


async def test_a_large_body_may_be_delayed(http: Http, clock: ManualClock) -> None:
    await http.ask("POST", "/q/messages", b"1" * LARGE, {"X-Message-Delay": "10"})
    assert (await http.receive()).status == 204
    clock.advance(Millis(11_000))
    assert (await http.receive("?wait=10")).body == b"1" * LARGE
