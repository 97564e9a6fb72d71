"""Deduplication ids over HTTP: a header of a send, and one of its answer."""

from __future__ import annotations

import json

from spoolrack_server.process.server import Server

from tests.support.http_rig import Http, raw_to

ID = "X-Message-Deduplication-Id"
TWICE = "X-Message-Duplicate"


async def test_an_id_is_the_same_however_it_is_encoded(http: Http) -> None:
    await http.create()
    first = await http.ask("POST", "/q/messages", b"x", {ID: "%C3%A4/%41"})
    again = await http.ask("POST", "/q/messages", b"x", {ID: "%c3%a4%2FA"})
    assert (again.id, again.headers[TWICE]) == (first.id, "true")
    assert TWICE not in first.headers
    for name in ("Location", "X-Message-Send-Time"):
        assert again.headers[name] == first.headers[name]


async def test_a_header_of_bytes_that_are_no_text_is_refused(http: Http, server: Server) -> None:
    await http.create()
    for header in (ID, "X-Message-Group"):
        async with raw_to(server) as raw:
            await raw.say(
                "POST /q/messages HTTP/1.1", f"{header}: \udcff", "Content-Length: 1", body=b"x"
            )
            status, _, body = await raw.answer()
        assert (status, json.loads(body)["reason"]) == (400, "INVALID_REQUEST")
