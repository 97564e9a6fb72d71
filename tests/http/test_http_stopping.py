"""A server that stops or whose disk fails: HTTP clients are told to try again, and when."""

from __future__ import annotations

import asyncio
import errno
import io
from pathlib import Path

from spoolrack_server.app.health import Health
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log

from tests.support import STUCK
from tests.support.http_rig import Http, fragile, raw_to
from tests.support.server_rig import connected


async def test_a_drain_ends_long_polls_with_a_status_that_says_try_again(
    http: Http, server: Server
) -> None:
    await http.create()
    polls = [asyncio.ensure_future(http.receive("?wait=3600")) for _ in range(3)]
    for _ in range(20):
        await http.counts()
    await server.stop()
    for poll in polls:
        answer = await poll
        assert (answer.status, answer.reason) == (503, "DRAINING")
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Connection"] == "close"


async def test_a_send_under_way_when_a_drain_begins_is_stored_and_nothing_new_is(
    server: Server, tmp_path: Path
) -> None:
    async with raw_to(server) as upload, raw_to(server) as other, raw_to(server) as watcher:
        await other.say("PUT /q HTTP/1.1")
        assert (await other.answer())[0] == 201
        await watcher.say("GET /-/health HTTP/1.1")
        assert (await watcher.answer())[0] == 200
        await upload.say("POST /q/messages HTTP/1.1", "Content-Length: 10", body=b"01234")
        await other.say("GET /q HTTP/1.1")
        assert (await other.answer())[0] == 200
        stopping = asyncio.ensure_future(server.stop(grace=STUCK))
        while True:
            await watcher.say("GET /-/health HTTP/1.1")
            status, headers, _ = await watcher.answer()
            if status == 503 or headers.get("connection") == "close":
                break
        await other.say("GET /q/messages HTTP/1.1")
        status, headers, body = await other.answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert b"DRAINING" in body
        await upload.say(body=b"56789")
        assert (await upload.answer())[0] == 201
        await stopping
    async with Server(tmp_path / "root") as server, connected(server) as client:
        (message,) = await client.receive()
        assert message.body == b"0123456789"


async def test_a_request_that_does_not_end_in_time_is_cut_off(server: Server, http: Http) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", "Content-Length: 10", body=b"01234")
        await http.counts()
        await asyncio.wait_for(server.stop(grace=0.1), STUCK)
        assert await raw.until_closed() == b""


async def test_a_server_stops_though_connections_are_idle(server: Server, http: Http) -> None:
    async with raw_to(server), raw_to(server) as half:
        await half.say(body=b"GET /-/hea")
        await http.ask("GET", "/-/health")
        await asyncio.wait_for(server.stop(grace=STUCK), STUCK / 2)


async def test_a_send_the_disk_refuses_is_unavailable_and_retryable(tmp_path: Path) -> None:
    async with fragile(tmp_path / "root") as it:
        await it.http.create()
        it.disk.fail(errno.ENOSPC, "create", "make_folder")
        answer = await it.http.ask("POST", "/q/messages", b"x")
        assert (answer.status, answer.reason) == (503, "DISK_FULL")
        assert answer.headers["Retry-After"] == "5"
        it.disk.heal()
        assert (await it.http.ask("POST", "/q/messages", b"x")).status == 201


async def test_a_message_that_may_not_be_durable_is_never_reported_as_stored(tmp_path: Path) -> None:
    async with fragile(tmp_path / "root") as it:
        await it.http.create()
        it.disk.fail(errno.EIO, "sync_folder", "sync_all")
        answer = await it.http.ask("POST", "/q/messages", b"x")
        assert (answer.status, answer.reason) == (503, "OUTCOME_UNKNOWN")
        assert answer.headers["Retry-After"] == "10"
        for method, path in [("POST", "/q/messages"), ("GET", "/q/messages"), ("PUT", "/r")]:
            answer = await it.http.ask(method, path)
            assert (answer.status, answer.reason) == (503, "STORE_FAILED")
            assert answer.headers["Retry-After"] == "5"
        it.health.fail("the disk")
        answer = await it.http.ask("GET", "/-/health")
        assert (answer.status, answer.json) == (503, {"status": "NOT_SERVING", "why": "the disk"})


async def test_a_message_whose_file_can_not_be_read_is_damaged(tmp_path: Path) -> None:
    async with fragile(tmp_path / "root") as it:
        await it.http.create()
        id = await it.http.send()
        it.disk.fail(errno.EIO, "open")
        answer = await it.http.ask("GET", f"/q/messages/{id}")
        assert (answer.status, answer.reason) == (500, "MESSAGE_DAMAGED")


async def test_a_large_body_that_can_not_be_opened_is_refused_and_goes_back(tmp_path: Path) -> None:
    # It is sent from its file, never from memory: a receive without a descriptor leases nothing.
    async with fragile(tmp_path / "root") as it:
        await it.http.create()
        body = bytes(1024 * 1024)
        await it.http.send(body)
        it.disk.fail(errno.EMFILE, "open")
        answer = await it.http.receive()
        assert (answer.status, answer.reason) == (503, "DISK_ERROR")
        it.disk.heal()
        answer = await it.http.ask("GET", "/q/messages?wait=20")
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["X-Message-Receive-Count"] == "1"


class SickHealth(Health):
    @property
    def why(self) -> str | None:  # type: ignore[override]
        raise RuntimeError("a secret")

    @why.setter
    def why(self, why: str | None) -> None:
        return


async def test_a_mistake_of_ours_is_logged_and_nothing_of_it_leaks(tmp_path: Path) -> None:
    stream = io.StringIO()
    async with fragile(tmp_path / "root", SickHealth(), make_log(stream=stream)) as it:
        answer = await it.http.ask("GET", "/-/health", described=False)
    assert (answer.status, answer.reason) == (500, "INTERNAL_ERROR")
    assert b"secret" not in answer.body
    (line,) = stream.getvalue().splitlines()
    assert "a secret" in line
    assert "Traceback" in line
