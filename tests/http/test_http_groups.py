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


async def test_groups_of_a_strict_queue_are_received_one_message_at_a_time(http: Http) -> None:
    await http.create(group_order="strict")
    for body, group in ((b"a1", "a"), (b"a2", "a"), (b"b1", "b")):
        await http.ask("POST", "/q/messages", body, {GROUP: group})
    assert [(await http.receive()).body for _ in range(2)] == [b"a1", b"b1"]
    assert (await http.receive()).status == 204
