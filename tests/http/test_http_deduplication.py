"""Deduplication ids over HTTP: a header of a send, and one of its answer."""

from __future__ import annotations

import json

import pytest
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


async def test_a_send_with_another_id_or_with_none_is_one_of_its_own(http: Http) -> None:
    await http.create()
    sent = [
        await http.ask("POST", "/q/messages", b"x", headers)
        for headers in ({}, {}, {ID: "a"}, {ID: "A"}, {ID: "%61b"}, {ID: "\N{SNAKE}".encode().hex()})
    ]
    assert len({answer.id for answer in sent}) == len(sent)
    assert not any(TWICE in answer.headers for answer in sent)


async def test_an_id_is_the_same_however_it_is_encoded(http: Http) -> None:
    await http.create()
    first = await http.ask("POST", "/q/messages", b"x", {ID: "%C3%A4/%41"})
    again = await http.ask("POST", "/q/messages", b"x", {ID: "%c3%a4%2FA"})
    assert (again.id, again.headers[TWICE]) == (first.id, "true")


async def test_an_id_of_128_characters_is_the_longest(http: Http) -> None:
    await http.create()
    for id in ("x" * 128, "%F0%9F%90%8D" * 128):
        assert (await http.ask("POST", "/q/messages", b"x", {ID: id})).status == 201


@pytest.mark.parametrize("value", ["", "x" * 129, "%F0%9F%90%8D" * 129])
@pytest.mark.parametrize("header", [ID, "X-Message-Group"])
async def test_an_id_and_a_group_of_another_length_are_refused_as_over_grpc(
    http: Http, header: str, value: str
) -> None:
    await http.create()
    no = await http.ask("POST", "/q/messages", b"x", {header: value})
    assert (no.status, no.reason) == (400, "INVALID_MESSAGE")
    assert "characters, not 1 to 128" in no.json["message"]
    assert (await http.receive()).status == 204


@pytest.mark.parametrize(
    "values",
    [["a", "a"], ["%ff"], ["%ED%A0%80"]],
    ids=["two", "no UTF-8", "a surrogate"],
)
@pytest.mark.parametrize("header", [ID, "X-Message-Group"])
async def test_a_header_that_is_no_text_is_refused(http: Http, header: str, values: list[str]) -> None:
    await http.create()
    no = await http.ask("POST", "/q/messages", b"x", [(header, value) for value in values])
    assert (no.status, no.reason) == (400, "INVALID_REQUEST")
    assert header in no.json["message"]
    assert (await http.receive()).status == 204


async def test_a_header_of_bytes_that_are_no_text_is_refused(http: Http, server: Server) -> None:
    await http.create()
    for header in (ID, "X-Message-Group"):
        async with raw_to(server) as raw:
            await raw.say(
                "POST /q/messages HTTP/1.1", f"{header}: \udcff", "Content-Length: 1", body=b"x"
            )
            status, _, body = await raw.answer()
        assert (status, json.loads(body)["reason"]) == (400, "INVALID_REQUEST")
