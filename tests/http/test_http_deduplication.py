"""Deduplication ids over HTTP: a header of a send, and one of its answer."""

from __future__ import annotations

import json

from spoolrack_server.process.server import Server

from tests.support.http_rig import Http, raw_to

ID = "X-Message-Deduplication-Id"
TWICE = "X-Message-Duplicate"


async def test_a_send_that_is_repeated_is_answered_with_the_first_one(http: Http) -> None:
    await http.create()
    headers = {ID: "order 17"}
    first = await http.ask("POST", "/q/messages", b"first", headers)
    again = await http.ask("POST", "/q/messages", b"again", headers)
    assert (first.status, again.status) == (201, 201)
    assert again.id == first.id
    for name in ("Location", "X-Message-Send-Time"):
        assert again.headers[name] == first.headers[name]
    assert TWICE not in first.headers
    assert again.headers[TWICE] == "true"
    assert (await http.receive()).body == b"first"
    assert (await http.receive()).status == 204


async def test_an_id_is_the_same_however_it_is_encoded(http: Http) -> None:
    await http.create()
    first = await http.ask("POST", "/q/messages", b"x", {ID: "%C3%A4/%41"})
    again = await http.ask("POST", "/q/messages", b"x", {ID: "%c3%a4%2FA"})
    assert (again.id, again.headers[TWICE]) == (first.id, "true")


async def test_an_id_of_128_characters_is_the_longest(http: Http) -> None:
    await http.create()
    for id in ("x" * 128, "%F0%9F%90%8D" * 128):
        assert (await http.ask("POST", "/q/messages", b"x", {ID: id})).status == 201


async def test_a_header_of_bytes_that_are_no_text_is_refused(http: Http, server: Server) -> None:
    await http.create()
    for header in (ID, "X-Message-Group"):
        async with raw_to(server) as raw:
            await raw.say(
                "POST /q/messages HTTP/1.1", f"{header}: \udcff", "Content-Length: 1", body=b"x"
            )
            status, _, body = await raw.answer()
        assert (status, json.loads(body)["reason"]) == (400, "INVALID_REQUEST")
