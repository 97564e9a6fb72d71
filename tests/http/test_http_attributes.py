"""Attributes as headers: every value comes back as it was sent, and gRPC sees the same."""

from __future__ import annotations

import aiohttp
from google.protobuf.duration_pb2 import Duration
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.gateway.headers import attributes_of, headers_of
from spoolrack_server.process.server import Server

from tests.support.http_rig import Http, raw_to
from tests.support.server_rig import Client

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OWN = (
    *("content-type", "content-encoding", "content-length", "content-range", "content-location"),
    *("transfer-encoding", "connection", "trailer", "upgrade", "set-cookie", "location", "refresh"),
    *("strict-transport-security", "www-authenticate", "etag", "x-message-id", "date"),
)
"""HTTP's own headers, most of which say how a response is read."""
NAMES = st.one_of(TEXT.filter(bool), st.sampled_from([*OWN, "A", "a"]))
SAFE = set(range(0x20, 0x7F))


@given(st.dictionaries(NAMES, st.one_of(TEXT, st.binary(max_size=20)), max_size=5))
@example({"content-type": " x "})
@example({"content-type": "\r\nSet-Cookie: x", "content-encoding": "gzip"})
@example({"Content-Type": "x", "content-type": "y"})
@example({"%41": "%41", "A": "A", "a": "%", "b": "100%25"})
@example({"x": "  ", "y": " \t ", "z": ""})
@example({"ä\U0001f600": "\0\x7f\u2028", "content-type": b"\xff"})
def test_headers_of_attributes_become_attributes_again(attributes: dict[str, str | bytes]) -> None:
    headers = headers_of(attributes)
    assert len({name.lower() for name in headers}) == len(headers)
    own = {name for name in headers if not name.startswith(("X-Attribute-", "X-Binary-Attribute-"))}
    assert own == {"Content-Type"}
    for name, value in headers.items():
        assert set(name.encode()) <= SAFE - set(b' :()<>@,;\\"/[]?={}')
        assert not set("\r\n\0") & set(value)
        assert value == value.strip(" \t")
    assert attributes_of(headers) == {"content-type": "application/octet-stream", **attributes}


async def test_no_attribute_changes_how_a_client_reads_the_response(
    http: Http, client: Client, server: Server
) -> None:
    await client.create(visibility_timeout=Duration(seconds=3600))
    for name in OWN:
        outgoing = pb.OutgoingMessage(body=b"plain")
        outgoing.attributes[name].string_value = "gzip"
        await client.stub.Send(rpc.SendRequest(queue="q", messages=[outgoing]))
        # A session as programs have it: this one decodes, keeps cookies and follows redirects.
        async with (
            aiohttp.ClientSession(server.http_url) as session,
            session.get("/q/messages") as response,
        ):
            assert (name, response.status, await response.read()) == (name, 200, b"plain")
            assert not session.cookie_jar.filter_cookies(response.url), name
            copied = {key: value for key, value in response.headers.items() if "Attribute-" in key} | {
                "Content-Type": response.headers["Content-Type"]
            }
        await http.send(b"again", **copied)
        (message,) = await client.receive()
        assert message.attributes[name].string_value == "gzip", name


NASTY = {
    "Priority": "LOW",
    "priority": " with space around ",
    "farbe": "grün\r\nX-Injected: 1",
    "größe": "100%",
    "a b": "%41",
    "content-type": "text/plain; charset=utf-8",
    "empty": "",
}


async def test_nasty_attributes_travel_unharmed_from_grpc_over_http_and_back(
    http: Http, client: Client
) -> None:
    await client.create(visibility_timeout=Duration(seconds=3600))
    outgoing = pb.OutgoingMessage(body=b"x")
    for name, value in NASTY.items():
        outgoing.attributes[name].string_value = value
    outgoing.attributes["Raw"].binary_value = bytes(range(256))
    await client.stub.Send(rpc.SendRequest(queue="q", messages=[outgoing]))
    received = await http.receive()
    assert "X-Injected" not in received.headers
    copied = {
        name: value
        for name, value in received.headers.items()
        if "attribute-" in name.lower() or name.lower() == "content-type"
    }
    await http.send(b"y", **copied)
    (message,) = await client.receive()
    assert dict(message.attributes) == dict(outgoing.attributes)


async def test_a_header_names_an_attribute(http: Http, client: Client) -> None:
    await http.create()
    for header, text, name, value in (
        ("X-Attribute-Priority", "low", "priority", "low"),
        ("x-attribute-PRIORITY", "LOW", "priority", "LOW"),
        ("X-Attribute-%50riority", "low", "Priority", "low"),
        ("X-Attribute-a.b_c", "50% off", "a.b_c", "50% off"),
        ("X-Attribute-a", "gr%C3%BCn", "a", "grün"),
        ("X-Attribute-a", "grün", "a", "grün"),
        ("X-Binary-Attribute-a", "AAH/", "a", b"\0\1\xff"),
        ("X-Binary-Attribute-a", "", "a", b""),
        ("X-Attribute-binary-a", "AAH/", "binary-a", "AAH/"),
        ("Content-Type", "", "content-type", ""),
        ("X-Attribute-Content-Type", "text/plain", "content-type", "text/plain"),
    ):
        await http.send(b"x", **{header: text})
        (message,) = await client.receive()
        (found,) = message.attributes.items()
        kind = "string_value" if isinstance(value, str) else "binary_value"
        assert found == (name, pb.Attribute(**{kind: value})), header  # type: ignore[arg-type]


async def test_an_attribute_has_one_value(http: Http, server: Server) -> None:
    await http.create()
    for twice in (
        ("X-Attribute-A: 1", "x-attribute-a: 2"),
        ("X-Attribute-A: 1", "X-Attribute-%61: 1"),
        ("Content-Type: a/b", "Content-Type: c/d"),
    ):
        async with raw_to(server) as raw:
            await raw.say("POST /q/messages HTTP/1.1", "Content-Length: 1", *twice, body=b"x")
            assert (twice, (await raw.answer())[0]) == (twice, 400)
    assert (await http.counts())["ready_count"] == 0


async def test_a_header_that_is_no_text_is_refused(http: Http, server: Server) -> None:
    await http.create()
    names = b"X-Attribute-A Content-Type X-Message-Delay X-Message-Group X-Message-Deduplication-Id"
    for name in names.split():
        async with raw_to(server) as raw:
            await raw.say(
                body=b"POST /q/messages HTTP/1.1\r\nHost: localhost\r\n" + name + b": \xff\r\n\r\n"
            )
            assert (await raw.answer())[0] == 400
    assert (await http.counts())["ready_count"] == 0
