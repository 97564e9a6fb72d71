"""Messages over HTTP: send, receive, delete, with what softlayer/mq promised and what goes beyond."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support import MIB
from tests.support.http_rig import Http, http_to, raw_to
from tests.support.server_rig import Client

GONE = "01890000-0000-7000-8000-000000000000"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


async def test_a_message_comes_as_it_was_sent(http: Http) -> None:
    await http.create("queue001")
    sent = await http.ask(
        "POST", "/queue001/messages", b"Hello\0\xff\r\n", {"Content-Type": "text/X-odd; Charset=b"}
    )
    assert (sent.status, sent.body) == (201, b"")
    assert sent.headers["Location"] == f"/queue001/messages/{sent.id}"
    received = await http.receive(queue="queue001")
    assert (received.status, received.body) == (200, b"Hello\0\xff\r\n")
    assert received.headers["Content-Type"] == "text/X-odd; Charset=b"
    assert received.id == sent.id
    assert received.headers["X-Message-Send-Time"] == sent.headers["X-Message-Send-Time"]
    for name in ("Send", "First-Receive", "Lease-Expire"):
        assert re.fullmatch(TIME, received.headers[f"X-Message-{name}-Time"])
    again = await http.receive(queue="queue001")
    assert (again.status, again.body) == (204, b"")


async def test_a_body_is_any_bytes_of_any_length(http: Http) -> None:
    await http.create()
    for size in (0, 1, 64 * 1024 + 1, 256 * 1024 + 1, MIB):
        body = bytes(range(256)) * (size // 256) + bytes(size % 256)
        await http.send(body)
        received = await http.receive()
        assert (received.status, received.body) == (200, body), size
        assert received.headers["Content-Type"] == "application/octet-stream"


async def test_a_body_may_come_in_chunks_and_unannounced(http: Http, client: Client) -> None:
    async def chunks() -> Any:
        for n in range(100):
            yield b"%d," % n

    await http.create()
    answer = await http.ask("POST", "/q/messages", chunks())
    assert answer.status == 201
    (message,) = await client.receive()
    assert message.body == b"".join(b"%d," % n for n in range(100))


async def test_a_compressed_body_stays_what_it_is(http: Http, client: Client) -> None:
    await http.create()
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    await http.ask("POST", "/q/messages", b"not gzip at all", headers)
    received = await http.receive("?visibility_timeout=0.001")
    assert received.body == b"not gzip at all"
    assert "Content-Encoding" not in received.headers
    assert received.headers["X-Attribute-Content-Encoding"] == "gzip"
    assert received.headers["Content-Type"] == "text/plain"


async def test_a_missing_queue_is_missing_for_messages_too(http: Http) -> None:
    answer = await http.ask("POST", "/nope/messages", bytes(MIB))
    assert (answer.status, answer.reason) == (404, "QUEUE_NOT_FOUND")
    for each in ("GET", "DELETE"):
        answer = await http.ask(each, f"/nope/messages/{GONE}")
        assert (answer.status, answer.reason) == (404, "QUEUE_NOT_FOUND")


async def test_to_delete_what_was_never_there_is_no_error(http: Http) -> None:
    await http.create()
    for id in (GONE, GONE.upper(), "4ad814ab-213e-11e3-a9a3-0025904f6e08"):
        assert (await http.ask("DELETE", f"/q/messages/{id}")).status == 202


async def test_a_delete_with_a_receipt_needs_the_lease(http: Http, clock: ManualClock) -> None:
    await http.create()
    id, other = await http.send(b"1"), await http.send(b"2")
    stale = (await http.receive("?visibility_timeout=1")).headers["X-Message-Receipt"]
    clock.advance(1_000)
    fresh = (await http.receive("?wait=3600")).headers["X-Message-Receipt"]
    answer = await http.ask("DELETE", f"/q/messages/{id}", None, {"If-Match": f'"{stale}"'})
    assert (answer.status, answer.reason) == (412, "STALE_RECEIPT")
    for receipt in ("nonsense", "*", "", f'"{fresh}", "{stale}"', f'W/"{fresh}"'):
        answer = await http.ask("DELETE", f"/q/messages/{id}", None, {"If-Match": receipt})
        assert (answer.status, answer.reason) == (400, "INVALID_RECEIPT"), receipt
    wrong = await http.ask("DELETE", f"/q/messages/{other}", None, {"If-Match": fresh})
    assert (wrong.status, wrong.reason) == (400, "INVALID_RECEIPT")
    assert (await http.counts())["leased_count"] == 1
    for quoted in (f'"{fresh}"', fresh):
        answer = await http.ask("DELETE", f"/q/messages/{id}", None, {"If-Match": quoted})
        assert answer.status == 202
    assert (await http.counts())["leased_count"] == 0


async def test_a_change_of_a_lease_needs_its_receipt(http: Http) -> None:
    await http.create()
    id = await http.send()
    lease = {"If-Match": (await http.receive()).headers["X-Message-Receipt"]}
    for act in ("extend?visibility_timeout=5", "release", "reject"):
        refused = await http.ask("POST", f"/q/messages/{id}/{act}")
        assert (act, refused.status, refused.reason) == (act, 400, "INVALID_REQUEST")
        assert "If-Match" in refused.json["message"]
    assert (await http.counts())["leased_count"] == 1
    extended = await http.ask("POST", f"/q/messages/{id}/extend?visibility_timeout=60.5", None, lease)
    assert (extended.status, extended.json.keys()) == (200, {"lease_expire_time"})
    released = await http.ask("POST", f"/q/messages/{id}/release?delay=5", None, lease)
    assert (released.status, released.json.keys()) == (200, {"deliver_time"})


async def test_a_delete_after_the_lease_needs_the_last_receive(http: Http) -> None:
    await http.create()
    id = await http.send()
    leased = (await http.receive()).headers
    count, first = "X-Message-Receive-Count", "X-Message-First-Receive-Time"
    receive = {"If-Match": leased["X-Message-Receipt"], count: leased[count], first: leased[first]}
    for allowed, headers in (
        ("1", receive),
        ("true", {"If-Match": receive["If-Match"]}),
        ("true", {**receive, count: "0"}),
        ("true", {**receive, first: "now"}),
        ("true", {**receive, first: "2026-13-01T00:00:00.000Z"}),
        ("true", {count: receive[count], first: receive[first]}),
    ):
        answer = await http.ask("DELETE", f"/q/messages/{id}?allow_expired={allowed}", None, headers)
        assert (headers, answer.status, answer.reason) == (headers, 400, "INVALID_REQUEST")
    assert (await http.counts())["leased_count"] == 1


async def test_a_delay_is_rounded_up_to_a_millisecond(http: Http, clock: ManualClock) -> None:
    await http.create()
    await http.send(**{"X-Message-Delay": "0.49900000000000005"})  # Rounded up.
    clock.advance(499)
    assert (await http.receive()).status == 204
    clock.advance(1)
    assert (await http.receive("?wait=3600")).status == 200


async def test_a_long_poll_ends_when_its_time_is_over(http: Http, clock: ManualClock) -> None:
    await http.create()
    poll = asyncio.ensure_future(http.receive("?wait=20"))
    for elapsed in (0, 19_999):
        clock.advance(elapsed)
        for _ in range(20):
            await http.counts()
        assert not poll.done()
    while not poll.done():
        clock.advance(1)
        await http.counts()
    assert (await poll).status == 204


async def test_a_body_that_is_too_large_is_refused(http: Http) -> None:
    await http.create("small", max_message_size=10)
    await http.create("large", max_message_size=2 * MIB)
    for queue, limit in [("small", 10), ("large", 2 * MIB)]:
        for body in (bytes(limit + 1), chunked(bytes(limit + 1))):
            answer = await http.ask("POST", f"/{queue}/messages", body)
            assert (answer.status, answer.reason) == (413, "MESSAGE_TOO_LARGE")
            assert answer.json["metadata"] == {
                "queue": queue,
                "size": str(limit + 1),
                "limit": str(limit),
            }
        assert (await http.ask("POST", f"/{queue}/messages", bytes(limit))).status == 201


async def chunked(body: bytes) -> Any:
    yield body


async def test_expect_continue_is_refused_before_a_body_that_is_too_large(
    http: Http, server: Server
) -> None:
    await http.create()
    expect = "Expect: 100-continue"
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", f"Content-Length: {2 * MIB}", expect)
        assert (await raw.answer())[0] == 413
    async with raw_to(server) as raw:
        await raw.say("POST /nope/messages HTTP/1.1", "Content-Length: 100000", expect)
        assert (await raw.answer())[0] == 404
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", "Content-Length: 100000", expect)
        assert (await raw.head())[0] == 100
        await raw.say(body=bytes(100_000))
        assert (await raw.answer())[0] == 201
        # And the connection lives.
        await raw.say("GET /q/messages HTTP/1.1")
        status, _, body = await raw.answer()
        assert (status, body) == (200, bytes(100_000))


@pytest.mark.parametrize("body", [b"ZZ\r\n", b"5\r\nabc\r\n0\r\n\r\n", b"-1\r\n\r\n"])
async def test_a_body_that_can_not_be_read_is_a_bad_request(
    http: Http, server: Server, body: bytes
) -> None:
    await http.create()
    async with raw_to(server) as raw:
        await raw.say("POST /q/messages HTTP/1.1", "Transfer-Encoding: chunked", body=body)
        status, _, _ = await raw.answer()
        assert status == 400
        assert b"HTTP/1.1 2" not in await raw.until_closed()
    assert (await http.counts())["ready_count"] == 0


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\0" * 1_000]
)
async def test_bytes_that_are_no_http_are_refused_and_log_nothing(
    http: Http, server: Server, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_to(server) as raw:
        await raw.say(body=garbage)
        assert (await raw.answer())[0] == 400
        await raw.until_closed()
    assert (await http.ask("GET", "/-/health")).status == 200
    assert not caplog.records


async def test_a_deduplication_id_is_the_same_however_it_is_encoded(http: Http) -> None:
    await http.create()
    id, twice = "X-Message-Deduplication-Id", "X-Message-Duplicate"
    first = await http.ask("POST", "/q/messages", b"x", {id: "%C3%A4/%41"})
    again = await http.ask("POST", "/q/messages", b"x", {id: "%c3%a4%2FA"})
    assert (again.id, again.headers[twice], first.headers.get(twice)) == (first.id, "true", None)
    for name in ("Location", "X-Message-Send-Time"):
        assert again.headers[name] == first.headers[name]


async def test_a_lease_tells_the_address_and_the_user_agent_of_its_consumer(
    http: Http, client: Client
) -> None:
    await http.create()
    await http.send(b"one")
    await http.send(b"two")
    agent = "worker/1 \u202e" + "x" * 1_000
    await http.ask("GET", "/q/messages", headers={"User-Agent": agent})
    await client.receive()
    over_http, over_grpc = (await http.ask("GET", "/q")).json["oldest_leases"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+, worker/1 \?x{190}", over_http["consumer"])
    assert re.fullmatch(r"127\.0\.0\.1:\d+, grpc-python-asyncio/\S+", over_grpc["consumer"])


async def test_a_lease_from_before_a_restart_has_an_unknown_consumer(
    http: Http, server: Server, tmp_path: Path, clock: ManualClock
) -> None:
    await http.create()
    await http.send(b"held")
    await http.receive()
    await server.stop()
    async with Server(tmp_path / "root", clock=clock) as again, http_to(again) as http:
        (lease,) = (await http.ask("GET", "/q")).json["oldest_leases"]
        assert lease["consumer"] == "unknown to this process; no other has the root open"
        assert lease["receive_time"] is None
