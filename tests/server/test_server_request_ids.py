"""Each call has an id, which its caller hears and its log lines bear: so an error is found again."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security
from spoolrack_server.process.server import Server
from spoolrack_server.system.error_log import ALL, BURST, MOST_CALLERS, ErrorLog
from spoolrack_server.system.logs import make_log
from spoolrack_server.system.request_ids import HEADER, IDENTITY, PEER, REQUEST_ID, RequestIds
from spoolrack_store.manual_clock import ManualClock

from tests.support.access_rig import Files, as_caller, bearer, serving
from tests.support.server_rig import Client, connected

INSANE = ["", " ", "a b", 'a"b', "a\nb", "é", "-flag", "x" * 129]


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock, stream: io.StringIO) -> AsyncIterator[Server]:
    log = make_log(format="json", stream=stream)
    async with Server(tmp_path / "root", clock=clock, log=log) as server:
        yield server


def refused(stream: io.StringIO) -> list[dict[str, Any]]:
    lines = map(json.loads, stream.getvalue().splitlines())
    return [line for line in lines if line["event"] == "refused"]


def id_in(metadata: Any) -> str:
    (found,) = (value for key, value in metadata if key == HEADER)
    return str(found)


@pytest.mark.parametrize("given", INSANE)
def test_an_id_that_could_not_stand_in_a_log_or_header_is_replaced(given: str) -> None:
    ids = RequestIds("seed")
    assert (ids.choose(given), ids.choose(given)) == ("seed-1", "seed-2")


@pytest.mark.parametrize(
    "given", ["1", "Root=1-67891233-abcdef012345678912345678", "a/b+c==", "x" * 128]
)
def test_an_id_that_can_is_taken_over(given: str) -> None:
    assert RequestIds().choose(given) == given


def test_no_two_servers_make_the_same_id() -> None:
    assert RequestIds().choose(None) != RequestIds().choose(None)


async def test_a_call_that_succeeds_tells_its_id_at_its_end(client: Client) -> None:
    own = client.stub.ListQueues(rpc.ListQueuesRequest())
    given = client.stub.ListQueues(rpc.ListQueuesRequest(), metadata=[(HEADER, "mine")])
    await asyncio.gather(own, given)

    assert id_in(await given.trailing_metadata()) == "mine"
    assert id_in(await own.trailing_metadata()) not in ("", "mine")


async def test_a_call_that_fails_is_found_in_the_log_by_the_id_that_its_caller_got(
    client: Client, stream: io.StringIO
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await client.stub.GetQueue(rpc.GetQueueRequest(name="missing"))

    (line,) = refused(stream)
    assert line["request"] == id_in(failed.value.trailing_metadata() or ())
    assert (line["operation"], line["reason"], line["level"]) == ("GetQueue", "QUEUE_NOT_FOUND", "info")
    assert "missing" in line["detail"]


async def test_a_request_of_a_stream_that_fails_is_found_by_the_streams_id(
    client: Client, stream: io.StringIO
) -> None:
    call = client.stub.StreamSend(metadata=[(HEADER, "stream")])
    await call.write(
        rpc.StreamSendRequest(
            request=rpc.SendRequest(queue="missing", messages=[pb.OutgoingMessage(body=b"x")])
        )
    )
    await call.read()

    (line,) = refused(stream)
    assert (line["request"], line["operation"]) == ("stream", "StreamSend")
    call.cancel()


async def test_a_request_that_fails_is_found_in_the_log_by_its_header(
    server: Server, stream: io.StringIO
) -> None:
    async with aiohttp.ClientSession(server.http_url) as http:
        good = await http.get("/-/health", headers={HEADER: "mine"})
        bad = await http.get("/missing")
        post = await http.post("/missing/messages", data=b"x", headers={HEADER: "theirs"})

    assert good.headers[HEADER] == "mine"
    first, second = refused(stream)
    assert (first["request"], first["operation"]) == (bad.headers[HEADER], "GET /missing")
    assert (second["request"], post.headers[HEADER]) == ("theirs", "theirs")


async def test_a_line_of_a_commit_is_not_of_the_request_that_woke_it(tmp_path: Path) -> None:
    seen: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(REQUEST_ID.get())

    log, handler = logging.getLogger("spoolrack_store"), Listening()
    log.addHandler(handler)
    # With the machine's own clock, commits run in the event loop's thread.
    async with Server(tmp_path / "root") as server, connected(server) as client:
        await client.create()
        await client.send(b"x")
        seen.clear()
        # A message whose file is removed by hand is missed, and that is logged.
        for path in (tmp_path / "root").rglob("q:*"):
            path.unlink()
        assert not await client.receive()
    log.removeHandler(handler)

    assert seen
    assert set(seen) == {""}


def test_of_very_many_refusals_for_one_reason_only_some_are_told_and_the_rest_is_counted() -> None:
    stream, now = io.StringIO(), [0.0]
    refusals = ErrorLog(make_log(format="json", stream=stream), now=lambda: now[0])

    for _ in range(BURST + 5):
        refusals.log("Send", "QUEUE_NOT_FOUND", "none", is_fault=False)
    refusals.log("Send", "DISK_FULL", "full", is_fault=True)
    now[0] = 1.0
    refusals.log("Send", "QUEUE_NOT_FOUND", "none", is_fault=False)

    lines = refused(stream)
    assert len(lines) == BURST + 2
    assert lines[-1]["left_out"] == 5
    assert [line["level"] for line in lines[-2:]] == ["warning", "info"]


def test_the_noise_of_one_caller_hides_no_refusal_of_another() -> None:
    stream, now = io.StringIO(), [0.0]
    refusals = ErrorLog(make_log(format="json", stream=stream), now=lambda: now[0])

    def refuse(peer: str, identity: str = "", times: int = 1) -> None:
        PEER.set(lambda: peer)
        IDENTITY.set(identity)
        for _ in range(times):
            refusals.log("Send", "PERMISSION_DENIED", "no", is_fault=False)

    def run() -> None:
        refuse("ipv4:192.0.2.1:40000", "noisy", 10_000)
        refuse("ipv4:192.0.2.1:40001", "noisy", 10_000)
        refuse("ipv4:192.0.2.1:40002", "probing", 2)
        refuse("ipv6:%5B2001:db8::1%5D:40000", times=10_000)
        refuse("192.0.2.9")

    copy_context().run(run)
    told = Counter((line.get("peer"), line.get("identity")) for line in refused(stream))
    assert told == {
        ("192.0.2.1", "noisy"): BURST,
        ("192.0.2.1", "probing"): 2,
        ("2001:db8::1", None): BURST,
        ("192.0.2.9", None): 1,
    }


def test_very_many_callers_that_are_refused_write_a_bounded_number_of_lines() -> None:
    stream, now = io.StringIO(), [0.0]
    refusals = ErrorLog(make_log(format="json", stream=stream), now=lambda: now[0])

    def run() -> None:
        for n in range(20 * MOST_CALLERS):
            PEER.set(lambda n=n: f"ipv6:%5B2001:db8::{n:x}%5D:1")  # type: ignore[misc]
            refusals.log("Send", "UNAUTHENTICATED", "no", is_fault=False)
        now[0] = 1.0
        refusals.log("Send", "UNAUTHENTICATED", "no", is_fault=False)

    copy_context().run(run)
    lines = refused(stream)
    assert len(lines) == ALL * BURST + 1
    assert lines[-1]["left_out_of_all"] == 20 * MOST_CALLERS - ALL * BURST
    assert len(refusals._buckets) == MOST_CALLERS


async def test_a_refusal_names_the_address_and_the_identity_of_its_caller(
    tmp_path: Path, files: Files
) -> None:
    stream = io.StringIO()
    security = Security(
        tokens=files.write_tokens("alice"), permissions=files.write_permissions("alice monitor q")
    )
    log = make_log(format="json", stream=stream)
    async with serving(tmp_path / "root", security, log=log) as server:
        for header in ("", bearer(files.tokens["alice"])):
            async with as_caller(server, *filter(None, [header])) as client:
                with pytest.raises(grpc.aio.AioRpcError):
                    await client.send(b"x")
            async with aiohttp.ClientSession(server.http_url) as http:
                headers = {"Authorization": header} if header else {}
                async with http.post("/q/messages", data=b"x", headers=headers) as answer:
                    assert answer.status in (401, 403)
    told = [(line["reason"], line["peer"], line.get("identity")) for line in refused(stream)]
    assert told == [
        *[("UNAUTHENTICATED", "127.0.0.1", None)] * 2,
        *[("PERMISSION_DENIED", "127.0.0.1", "alice")] * 2,
    ]
