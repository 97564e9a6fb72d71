"""Stages, reservations and redrives over HTTP: the contract's requests as JSON."""

from __future__ import annotations

import json
from typing import Any

from spoolrack_server.app.store_access import answer as outcome
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.reservation_requests import MAX_SEQUENCE_NUMBER
from spoolrack_store.model.stage_requests import Stage

from tests.support.http_rig import Answer, Http

JSON = {"Content-Type": "application/json"}


async def post(http: Http, path: str, **content: Any) -> Answer:
    return await http.ask("POST", f"/-/{path}", json.dumps(content), JSON)


async def listed(http: Http, path: str) -> Any:
    content = (await http.ask("GET", f"/-/{path}")).json
    return content[path.partition("?")[0]]


async def stage(server: Server, name: str) -> None:
    await outcome(
        server.store.submit(Stage(stage=name, chunk_number=0, queue="q", bodies=[b"x", b"y"]))
    )


async def test_a_stage_is_listed_aborted_and_published_once(server: Server, http: Http) -> None:
    await http.create()
    for name in ("a", "b"):
        await stage(server, name)
    first, _ = await listed(http, "stages")
    assert (first["name"], first["message_counts"], first["chunk_count"]) == ("a", {"q": 2}, 1)
    assert first["permissions"] == ["send", "receive", "manage", "monitor"]
    assert (await http.ask("GET", "/-/stages/a?queue=q")).json == first
    assert (await http.ask("GET", "/-/stages/c")).reason == "STAGE_NOT_FOUND"
    page = (await http.ask("GET", "/-/stages?page_size=1")).json
    rest = await http.ask("GET", f"/-/stages?page_size=1&page_token={page['next_page_token']}")
    assert [each["name"] for each in rest.json["stages"]] == ["b"]
    assert (await http.ask("DELETE", "/-/stages/a")).json == {"message_count": 2}
    assert (await http.ask("DELETE", "/-/stages/a")).reason == "STAGE_NOT_FOUND"
    part = await post(http, "publish", writer="w", epoch=0, stages=["b"], queue="q", message_count="3")
    assert (part.status, part.reason) == (412, "STAGE_INCOMPLETE")
    for is_repeated in (False, True):
        published = (await post(http, "publish", writer="w", epoch=0, stages=["b"])).json
        count = 0 if is_repeated else 2
        assert published == {"message_count": count, "duplicate": is_repeated, "last_epoch": 0}
    assert await listed(http, "stages") == []
    assert (await http.counts())["ready_count"] == 2


async def test_a_set_is_reserved_read_extended_and_committed(http: Http, clock: ManualClock) -> None:
    await http.create()
    for body in (b"text", b"\xff"):
        await http.send(body)
    asked = {"stream": "s", "sequence_number": "0", "visibility_timeout": 60}
    made = (await post(http, "queues/q/reservations", **asked)).json
    assert (made["state"], made["message_count"], made["sequence_number"]) == ("held", 2, "0")
    assert (await post(http, "queues/q/reservations", **asked)).json == made
    unread = await post(http, "reservations/s/commit", last_sequence_number=0, only_read=True)
    assert (unread.status, unread.reason) == (412, "RESERVATION_UNREAD")
    read = (await http.ask("GET", "/-/reservations/s/0/messages?mark_read=true&end_index=1")).json
    assert ([each["body"] for each in read["messages"]], read["next_index"]) == (["text"], 1)
    read = (await http.ask("GET", "/-/reservations/s/0/messages?begin_index=1")).json
    assert ([each["binary_body"] for each in read["messages"]], read["next_index"]) == (["/w=="], 2)
    read = (await http.ask("GET", "/-/reservations/s/0/messages?begin_index=2")).json
    assert read == {"messages": [], "next_index": None}
    clock.advance(30_000)
    extended = await post(http, "reservations/s/0/extend", visibility_timeout=90)
    assert extended.json["expire_time"] > made["expire_time"]
    committed = await post(http, "reservations/s/commit", last_sequence_number=0, only_read=True)
    assert committed.json == {"deleted_count": 2, "lost_sequence_numbers": []}
    assert await listed(http, "reservations") == []


async def test_a_set_is_released_also_with_a_number_no_script_can_count_to(http: Http) -> None:
    await http.create()
    await http.send()
    number = str(MAX_SEQUENCE_NUMBER)
    await post(http, "queues/q/reservations", stream="spark", sequence_number=number)
    (held,) = await listed(http, "reservations")
    assert (held["sequence_number"], held["state"], held["queue"]) == (number, "held", "q")
    assert (await http.ask("GET", f"/-/reservations/spark/{number}")).json == held
    assert (await http.ask("DELETE", f"/-/reservations/spark/{number}")).status == 204
    (lost,) = await listed(http, "reservations?stream=spark&queue=q")
    assert lost["state"] == "lost"
    assert (await http.counts())["ready_count"] == 1


async def test_the_last_redrives_of_a_queue_are_listed_alone(http: Http, clock: ManualClock) -> None:
    await http.create("dead")
    await http.create("q", max_receives=1, dead_letter_queue="dead")
    ids = [await http.send() for _ in range(3)]
    for _ in ids:
        await http.receive()
    clock.advance(30_001)
    await http.receive()
    await http.until("dead", ready_count=3)

    first = await post(http, "queues/dead/redrives", max_messages_per_second=1)
    assert (first.status, first.json["state"]) == (201, "running")
    cancelled = await http.ask("POST", f"/-/redrives/{first.json['id']}/cancel")
    assert cancelled.json["state"] == "cancelled"
    assert cancelled.json["permissions"] == ["send", "receive", "manage", "monitor"]
    second = await post(http, "queues/dead/redrives", source_queue="q", message_ids=ids[2:])
    other = await post(http, "queues/q/redrives", destination="dead")
    (last,) = await listed(http, "redrives?last=1")
    assert last["id"] == other.json["id"]
    newest = await listed(http, "redrives?queue=dead&last=1")
    assert [each["id"] for each in newest] == [second.json["id"]]
