"""Looks at messages over HTTP: one, whole or in part, and lists."""

from __future__ import annotations

import os
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import MIB
from tests.support.http_rig import Http

BODY = bytes(range(256)) * (3 * MIB // 256) + b"the end"


@pytest.mark.parametrize("body", [BODY, b"0123456789"])
async def test_a_part_of_a_body_is_that_part(http: Http, body: bytes) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(body)
    for range, part in (
        ("bytes=0-0", slice(0, 1)),
        ("bytes=2-4", slice(2, 5)),
        ("bytes=5-", slice(5, None)),
        ("bytes=-3", slice(-3, None)),
        ("bytes=-99999999", slice(0, None)),
        ("bytes=1-" + "9" * 100, slice(1, None)),
    ):
        first, last, _ = part.indices(len(body))
        for method in ("GET", "HEAD"):
            answer = await http.ask(method, f"/q/messages/{id}", None, {"Range": range})
            assert (range, answer.status) == (range, 206)
            assert answer.body == (body[part] if method == "GET" else b""), range
            assert answer.headers["Content-Range"] == f"bytes {first}-{last - 1}/{len(body)}"
            assert answer.headers["Content-Length"] == str(last - first)


async def test_a_part_that_is_not_there_is_refused(http: Http) -> None:
    await http.create()
    id = await http.send(b"0123456789")
    for range in ("bytes=10-", "bytes=10-20", "bytes=-0", "bytes=" + "9" * 100 + "-"):
        answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": range})
        assert (range, answer.status, answer.reason) == (range, 416, "RANGE_NOT_SATISFIABLE")
        assert answer.headers["Content-Range"] == "bytes */10"


async def test_a_range_that_can_not_be_read_is_passed_over(http: Http) -> None:
    await http.create()
    id = await http.send(b"0123456789")
    for range in ("bytes=-", "bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes 0-1", "bytes=a-b", ""):
        answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": range})
        assert (range, answer.status, answer.body) == (range, 200, b"0123456789")


async def test_a_download_can_go_on_where_it_broke_off(http: Http) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(BODY)
    whole = await http.ask("GET", f"/q/messages/{id}")
    assert whole.body == BODY
    assert whole.headers["Accept-Ranges"] == "bytes"
    headers = {"Range": "bytes=1000000-", "If-Range": whole.headers["ETag"]}
    rest = await http.ask("GET", f"/q/messages/{id}", None, headers)
    assert (rest.status, rest.body) == (206, BODY[1_000_000:])
    headers["If-Range"] = '"another"'
    assert (await http.ask("GET", f"/q/messages/{id}", None, headers)).status == 200


async def test_a_list_is_filtered_by_several_attributes_of_text_and_bytes(http: Http) -> None:
    await http.create()
    red = {"X-Attribute-Colour": "red", "X-Binary-Attribute-Raw": "AAE="}
    await http.send(b"other", **{**red, "X-Attribute-Size": "s"})
    wanted = await http.send(b"wanted", **{**red, "X-Attribute-Size": "l, xl=2"})
    await http.send(b"text", **{"X-Attribute-Raw": "AAE=", "X-Attribute-Size": "l, xl=2"})
    query = "attribute=colour=red&attribute=size=l,%20xl=2&binary_attribute=raw=AAE%3D"
    found = (await http.ask("GET", f"/-/queues/q/messages?{query}")).json["messages"]
    assert [message["id"] for message in found] == [wanted]


async def test_an_empty_body_has_no_parts(http: Http) -> None:
    await http.create()
    id = await http.send(b"")
    assert (await http.ask("GET", f"/q/messages/{id}")).body == b""
    answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": "bytes=0-"})
    assert answer.status == 416


async def test_a_receive_is_never_a_part(http: Http) -> None:
    await http.create()
    await http.send(b"0123456789")
    answer = await http.ask("GET", "/q/messages", None, {"Range": "bytes=2-4"})
    assert (answer.status, answer.body) == (200, b"0123456789")


def spoil(root: Path, id: str) -> None:
    """Change the first byte of a message's body, whose file a commit may just be publishing."""
    for _ in range(1_000):
        for path in (*root.glob(f"bodies/{id}"), *root.rglob(f"*{id}*")):
            with suppress(FileNotFoundError), path.open("r+b") as file:
                file.write(b"X")
                return
    raise AssertionError("its file isn't found")


async def test_a_damaged_message_is_not_shown(http: Http, tmp_path: Path) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(BODY)
    spoil(tmp_path / "root", id)
    answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": "bytes=100-200"})
    assert (answer.status, answer.reason) == (500, "MESSAGE_DAMAGED")


async def test_a_message_does_not_become_a_page_of_this_server(http: Http) -> None:
    await http.create()
    id = await http.send(b"<script>alert(1)</script>", **{"Content-Type": "text/html"})
    for path in (f"/q/messages/{id}", "/q/messages"):
        headers = (await http.ask("GET", path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"


async def test_a_large_body_is_sent_by_the_kernel_from_its_file(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real = os.sendfile

    def counted(socket: int, file: int, offset: int, count: int) -> int:
        sent.append(real(socket, file, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counted)
    await http.create()
    body = os.urandom(1_000_000)
    id = await http.send(body)
    assert (await http.ask("GET", f"/q/messages/{id}")).body == body
    assert sum(sent) == len(body), "a look"
    part = await http.ask("GET", f"/q/messages/{id}", headers={"Range": "bytes=500000-"})
    assert (part.body, sum(sent)) == (body[500_000:], 1_500_000)
    assert (await http.receive()).body == body
    assert sum(sent) == 2_500_000, "and a receive"


async def listed(http: Http, query: str = "") -> list[dict[str, Any]]:
    answer = await http.ask("GET", f"/-/queues/q/messages?{query}")
    assert answer.status == 200
    messages: list[dict[str, Any]] = answer.json["messages"]
    return messages


async def test_the_beginning_of_bodies_is_shown_on_demand_but_for_large_ones_in_a_list(
    http: Http,
) -> None:
    await http.create()
    await http.send("äb".encode())
    await http.send(b"\xffx")
    large = await http.send(bytes(range(256)) * 1024)
    assert not {"body", "binary_body", "receipt"} & (await listed(http))[0].keys()
    first, second, third = await listed(http, "max_body_bytes=2")
    assert (first["body"], second["binary_body"], third["body_size"]) == ("ä", "/3g=", 256 * 1024)
    assert not {"body", "binary_body"} & third.keys()
    shown = (await http.ask("GET", f"/-/queues/q/messages/{large}")).json
    assert b64decode(shown["binary_body"]) == bytes(range(256)) * 256
    shown = (await http.ask("GET", f"/-/queues/q/messages/{large}?max_body_bytes=3")).json
    assert (shown["body"], shown["body_size"]) == ("\0\1\2", 256 * 1024)
    missing = await http.ask("GET", "/-/queues/q/messages/01890000-0000-7000-8000-000000000000")
    assert (missing.status, missing.reason) == (404, "MESSAGE_NOT_FOUND")


async def test_a_page_of_long_attributes_is_shorter_than_was_asked(http: Http) -> None:
    await http.create()
    ids = [await http.send(**{"X-Attribute-Long": "x" * 8_000}) for _ in range(300)]
    page = (await http.ask("GET", "/-/queues/q/messages?page_size=1000")).json
    shown = len(page["messages"])
    assert 2 * MIB - 8_100 < shown * 8_000 <= 2 * MIB
    path = f"/-/queues/q/messages?page_size=1000&page_token={page['next_page_token']}"
    rest = (await http.ask("GET", path)).json["messages"]
    assert [each["id"] for each in (*page["messages"], *rest)] == ids
