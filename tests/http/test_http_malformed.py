"""Requests that say something unknown, twice or in no known way are refused, and change nothing."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from pathlib import Path

import pytest
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log

from tests.support.http_rig import Http, http_to, raw_to

CHUNK = b"1\r\nx\r\n0\r\n\r\n"


async def refused(server: Server, *lines: str, body: bytes = b"") -> str:
    """Return the reason of a refusal, after which the connection is closed."""
    async with raw_to(server) as raw:
        await raw.say(*lines, body=body)
        status, _, answer = await raw.answer()
        assert await raw.until_closed() == b""
    assert status == 400, answer
    return answer.decode()


# Heads.


@pytest.mark.parametrize(
    "target",
    ["/%2d/queues", "/%2D/queues", "/-%2fqueues", "/%2d%2fqueues", "http://localhost/%2d/queues"],
)
async def test_an_encoded_beginning_of_our_own_paths_is_refused(
    http: Http, server: Server, target: str
) -> None:
    """A proxy's rule for /-/ doesn't match it."""
    await http.create()
    assert "INVALID_REQUEST" in await refused(server, f"GET {target} HTTP/1.1")
    async with raw_to(server) as raw:
        await raw.say("GET http://localhost/-/queues HTTP/1.1")
        assert (await raw.answer())[0] == 200


async def test_an_expectation_that_is_unknown_is_refused(http: Http, server: Server) -> None:
    await http.create()
    for path in ("/q/messages", "/no/such/path", "/-/health"):
        for expected in ("é", "\xff100-continue", "200-ok", "100-continue, x"):
            # With its body, for which the server would linger.
            head = f"POST {path} HTTP/1.1", f"Expect: {expected}", "Content-Length: 1"
            told = await refused(server, *head, body=b"x")
            assert "INVALID_REQUEST" in told, head
            assert "the header Expect" in told, head
    assert (await http.counts())["ready_count"] == 0


async def test_a_client_that_hangs_up_before_it_may_go_on_is_no_mistake_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = io.StringIO()
    rest = "HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    async with (
        Server(tmp_path / "root", log=make_log(stream=lines)) as server,
        http_to(server) as http,
    ):
        await http.create()
        for target in 3 * ("POST /no/such/path", "PATCH /q", "GET /q", "POST /q/messages"):
            with socket.create_connection((server.http_host, server.http_port or 0)) as client:
                client.sendall(f"{target} {rest}".encode())
        assert (await http.counts())["ready_count"] == 0  # By then the server has met them all.
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert "level=error" not in lines.getvalue()


async def test_a_body_in_an_unknown_transfer_coding_is_not_stored(http: Http, server: Server) -> None:
    await http.create()
    for codings in ("gzip, chunked", "GZIP,chunked", "identity, chunked", "deflate, chunked"):
        head = "POST /q/messages HTTP/1.1", f"Transfer-Encoding: {codings}"
        assert "UNREADABLE_BODY" in await refused(server, *head, body=CHUNK), codings
    assert (await http.counts())["ready_count"] == 0


async def test_chunks_are_for_http_1_1_alone(http: Http, server: Server) -> None:
    await http.create()
    told = await refused(server, "POST /q/messages HTTP/1.0", "Transfer-Encoding: chunked", body=CHUNK)
    assert "UNREADABLE_BODY" in told
    assert (await http.counts())["ready_count"] == 0


async def test_http_0_9_leases_nothing(http: Http, server: Server) -> None:
    await http.create()
    await http.send()
    async with raw_to(server) as raw:
        await raw.say(body=b"GET /q/messages\r\n\r\n")
        assert b" 400 " in await raw.until_closed()
    assert (await http.counts())["leased_count"] == 0


async def test_a_target_with_a_foreign_name_in_it_is_refused(http: Http, server: Server) -> None:
    """The target's host comes before the header Host."""
    async with raw_to(server) as raw:
        await raw.say("PUT http://evil.example/q HTTP/1.1")
        assert (await raw.head())[0] == 421
    assert (await http.ask("GET", "/q")).status == 404


async def test_a_refused_head_is_answered_with_the_id_of_its_request(server: Server) -> None:
    async with raw_to(server) as raw:
        await raw.say("GET /q HTTP/1.1", "Expect: x", "X-Request-Id: mine")
        assert (await raw.head())[1]["x-request-id"] == "mine"


@pytest.mark.parametrize("front", ["http", "sqs"])
@pytest.mark.parametrize(
    "head", ["Authorization: Bearer srk_secret\rx", "Authorization: Bearer \0srk_secret"]
)
async def test_a_credential_that_can_not_be_read_is_not_repeated(
    tmp_path: Path, front: str, head: str
) -> None:
    # The answer goes into the logs of clients and proxies.
    settings = ServeSettings(root=str(tmp_path), sqs=(LOOPBACK, 0))
    async with Server(settings) as server:
        port = server.http_port if front == "http" else server.sqs_port
        reader, writer = await asyncio.open_connection(server.http_host, port)
        writer.write(f"GET /q/messages HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
        told = await reader.read()
        writer.close()
    assert b" 400 " in told.splitlines()[0]
    assert b"control characters" in told
    assert b"secret" not in told


# Unknown names.


async def test_public_pages_take_any_parameter(http: Http) -> None:
    for path in ("/-/health?x=1", "/-/health/live?x=1", "/-/dashboard?v=2"):
        assert (await http.ask("GET", path, described=False)).status == 200, path


async def test_the_headers_of_a_message_can_be_sent_again_with_it(http: Http) -> None:
    await http.create()
    await http.send()
    received = await http.receive()
    copied = {name: value for name, value in received.headers.items() if name.startswith("X-Message-")}
    assert len(copied) >= 6
    assert (await http.ask("POST", "/q/messages", b"x", copied)).status == 201
