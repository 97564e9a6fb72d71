"""A page of another site, in a browser that reaches this server, changes nothing here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server

from tests.support import STUCK, raw_http2
from tests.support.http_rig import Http

FOREIGN: Mapping[str, Mapping[str, str]] = {
    "a fetch": {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"},
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "another port of this machine": {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
    "a word that no browser says": {"Sec-Fetch-Site": "unknown"},
    "a browser that says no site": {"Origin": "http://evil.example"},
    "a page without an origin": {"Origin": "null"},
    "a name that begins like ours": {"Origin": "http://127.0.0.1.evil.example"},
    "our name at another port": {"Origin": "http://127.0.0.1:1"},
    "a name that only the page says": {
        "Origin": "http://evil.example",
        "X-Forwarded-Host": "queues.example",
    },
}
CHANGES = [
    ("POST", "/q/messages", b"x"),
    ("GET", "/q/messages", None),
    ("GET", "/q/messages?visibility_timeout=43200", None),
    ("PUT", "/other", None),
    ("PATCH", "/q", b'{"sending": "paused"}'),
    ("DELETE", "/q/messages", None),
    ("POST", "/-/queues/q/reservations", b'{"stream": "s"}'),
    ("POST", "/-/queues/q/redrives", b"{}"),
    ("DELETE", "/q", None),
    ("DELETE", "/q/messages/{id}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_page_of_another_site_changes_nothing(
    http: Http, method: str, path: str, body: bytes | None
) -> None:
    await http.create()
    id = await http.send()
    for page, headers in FOREIGN.items():
        answer = await http.ask(method, path.replace("{id}", id), body, headers)
        assert (page, answer.status, answer.reason) == (page, 403, "CROSS_ORIGIN")
        assert (await http.counts()).items() >= {"ready_count": 1, "leased_count": 0}.items(), page
        assert (await http.ask("GET", "/other")).status == 404, page


async def test_no_other_site_is_ever_told_that_it_may(http: Http) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PATCH"}
    assert (await http.ask("OPTIONS", "/q", headers=asked)).status == 405
    for path in ("/-/queues", "/-/dashboard"):
        answer = await http.ask(
            "GET", path, headers={"Origin": "https://evil.example"}, described=False
        )
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_programs_and_the_servers_own_pages_are_served(http: Http, server: Server) -> None:
    await http.create()
    host = (server.http_url or "").removeprefix("http://")
    for headers in (
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://behind.a.proxy.example"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": f"http://{host}"},
        {"Origin": f"https://{host}"},
        {"Origin": "HTTPS://Queues.example", "X-Forwarded-Host": "queues.example"},
        {"Origin": "https://queues.example", "X-Forwarded-Host": "queues.example, inner.example"},
    ):
        assert (await http.ask("POST", "/q/messages", b"x", headers)).status == 201, headers
        assert (await http.ask("GET", "/q/messages", None, headers)).status == 200, headers


async def test_a_link_on_another_site_leads_here(http: Http) -> None:
    await http.create()
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    for path in ("/", "/-/dashboard", "/q", "/-/health"):
        assert (await http.ask("GET", path, None, headers, described=False)).status == 200, path


async def test_the_port_of_grpc_takes_nothing_that_a_page_can_send(http: Http, server: Server) -> None:
    """No page can say `te: trailers`, and without it a call is reset."""
    said = raw_http2.call("CreateQueue").replace(raw_http2.header(b"te", b"trailers"), b"")
    headers_frame = len(raw_http2.PREFACE + raw_http2.frame(raw_http2.SETTINGS))
    lost = len(raw_http2.header(b"te", b"trailers"))
    length = int.from_bytes(said[headers_frame : headers_frame + 3]) - lost
    said = said[:headers_frame] + length.to_bytes(3) + said[headers_frame + 3 :]
    asked = rpc.CreateQueueRequest(queue=pb.Queue(name="q")).SerializeToString()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.grpc_port)
    writer.write(said + raw_http2.data(raw_http2.message(asked), ends=True))
    reset = (4).to_bytes(3) + b"\x03\x00" + (1).to_bytes(4)  # RST_STREAM of the call's stream
    heard = b""
    while reset not in heard:
        heard += (part := await asyncio.wait_for(reader.read(4096), STUCK))
        assert part, heard
    writer.close()
    assert (await http.ask("GET", "/q")).status == 404
