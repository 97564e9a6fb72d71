"""Priorities over HTTP: a header of a send and of a receive, and a field of a list."""

from __future__ import annotations

import pytest

from tests.support.http_rig import Http

PRIORITY = "X-Message-Priority"


async def test_a_higher_priority_is_received_first(http: Http) -> None:
    await http.create()
    await http.send(b"low")
    high = await http.ask("POST", "/q/messages", b"high", {PRIORITY: "9"})

    looked = await http.ask("GET", f"/q/messages/{high.id}")
    shown = (await http.ask("GET", "/-/queues/q/messages")).json
    received = [await http.receive() for _ in range(2)]

    assert looked.headers[PRIORITY] == "9"
    assert [each["priority"] for each in shown["messages"]] == [0, 9]
    assert [(each.body, each.headers.get(PRIORITY)) for each in received] == [
        (b"high", "9"),
        (b"low", None),
    ]


@pytest.mark.parametrize("text", ["10", "-1", "high", "", "1.0", "٣"])
async def test_an_impossible_priority_is_refused(http: Http, text: str) -> None:
    await http.create()
    answer = await http.ask("POST", "/q/messages", b"a", {PRIORITY: text})
    assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
