"""Groups over HTTP: a header of a send and of a receive, and a field of a list."""

from __future__ import annotations

from tests.support.http_rig import Http

GROUP = "X-Message-Group"


async def test_a_group_comes_back_as_it_was_sent(http: Http) -> None:
    await http.create()
    grouped = await http.ask("POST", "/q/messages", b"a", {GROUP: "caf%C3%A9 7"})
    await http.send(b"b")

    looked = await http.ask("GET", f"/q/messages/{grouped.id}")
    shown = (await http.ask("GET", "/-/queues/q/messages")).json
    received = [await http.receive() for _ in range(2)]

    assert looked.headers[GROUP] == "caf%C3%A9 7"
    assert [each["group"] for each in shown["messages"]] == ["café 7", ""]
    assert [each.headers.get(GROUP) for each in received] == ["caf%C3%A9 7", None]
