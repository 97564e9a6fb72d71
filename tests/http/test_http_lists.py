"""Lists of messages over HTTP, and their filters."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from tests.support import MIB
from tests.support.http_rig import Http


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
