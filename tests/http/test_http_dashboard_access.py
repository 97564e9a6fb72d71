"""Refusals of the dashboard: nonsense, requests of other sites, and actions without permission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.app.loop_answers import answer as outcome
from spoolrack_server.dashboard.change_requests import LARGEST_BODY, OURS
from spoolrack_server.dashboard.queries import MOST_MESSAGES, MOST_QUEUES, MOST_THINGS
from spoolrack_server.metrics.history import EVERY
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Stage

from tests.http.dashboard_rig import (
    ALICE,
    BOB,
    CHANGE,
    RULES,
    api,
    assets,
    change,
    fill,
    get,
    guarded,
)
from tests.support.http_rig import Http

# Refusals.


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain", OURS: "1"},
        {"Content-Type": "application/x-www-form-urlencoded", OURS: "1"},
        {},
    ],
)
async def test_a_change_that_another_site_could_have_sent_is_refused(
    http: Http, headers: dict[str, str]
) -> None:
    await http.create()
    await http.send()
    asked = json.dumps({"queue": "q", "confirm": "q"})
    answer = await http.ask("POST", "/-/api/queues/purge", asked, headers, described=False)
    assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
    assert (await http.counts())["ready_count"] == 1


async def test_no_other_site_is_ever_told_that_it_may(http: Http) -> None:
    asked = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": OURS,
    }
    answer = await http.ask("OPTIONS", "/-/api/queues/purge", headers=asked, described=False)
    assert answer.status == 405
    for path in ("/-/api/queues", "/-/dashboard"):
        answer = await get(http, path, Origin="https://evil.example")
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


HOSTILE: list[Any] = [
    *(None, 1, -1, 2**70, 1.5, True, [], [None], {}, {"a": 1}, "", "..", "../x", "a/b", "é", "\ud800"),
    *("x" * 5_000, "%00", "\x00", "-", "q:q", "' OR 1=1", "<b>"),
]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("queues/create", ("queue", "settings")),
        ("queues/update", ("queue", "settings")),
        ("messages/send", ("queue", "body", "attributes", "delay")),
        ("messages/delete", ("queue", "ids")),
        ("queues/purge", ("queue", "confirm")),
        ("stages/abort", ("stage",)),
        ("reservations/release", ("stream", "sequence_number")),
        ("redrives", ("queue", "destination", "source_queue", "ids", "rate")),
        ("redrives/cancel", ("id",)),
    ],
)
async def test_no_nonsense_in_a_change_is_a_mistake_of_the_server(
    http: Http, path: str, fields: tuple[str, ...]
) -> None:
    await http.create()
    await http.create("other")
    await http.send()
    good = {
        "queue": "q",
        "confirm": "?",
        "stage": "s",
        "stream": "s",
        "sequence_number": "1",
        "id": "x",
        "ids": [],
    }
    good |= {"body": "x", "settings": {}}
    for field in fields:
        for value in [*HOSTILE, *({"retention": each, "max_receives": each} for each in HOSTILE)]:
            # Another queue than the one that is counted below; a message of nonsense may be a message.
            queue = "q" if path != "messages/send" else "other"
            answer = await change(http, path, {**good, "queue": queue, field: value})
            assert answer.status < 500, (path, field, value, answer)
    for raw in (b"", b"[]", b"{", b"\xff", b"[" * 50_000, b'{"a":' * 5_000, b"1" * LARGEST_BODY + b"1"):
        answer = await http.ask("POST", f"/-/api/{path}", raw, CHANGE, described=False)
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST"), raw[:20]
    assert (await http.counts())["ready_count"] == 1


@pytest.mark.parametrize(
    "path",
    [
        "queues?contains=" + "x" * 81,
        "ages?first=1ms",
        "queues/%2e%2e",
        "queues/a%2Fb",
        "queues/nobody",
        "queues/q/messages?limit=0",
        f"queues/q/messages?limit={MOST_MESSAGES + 1}",
        "queues/q/messages?limit=%D9%A1",
        "queues/q/messages?after=x",
        "queues/q/messages?state=removed",
        "queues/nobody/history",
        "queues/%2e%2e/history",
        "trends?contains=" + "x" * 81,
        "queues/q/messages/x",
        "queues/q/messages/01890000-0000-7000-8000-000000000000",
        "nobody",
        "",
    ],
)
async def test_an_unreadable_request_is_refused_with_a_reason(http: Http, path: str) -> None:
    await http.create()
    answer = await get(http, f"/-/api/{path}")
    assert answer.status in (400, 404)
    assert answer.reason


# Permissions.


async def test_the_page_is_anybodys_and_nothing_else_is(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as (_, http):
        for path in ["", *(f"/{asset}" for asset in assets())]:
            assert (await get(http, f"/-/dashboard{path}")).status == 200
        for path in (
            *("server", "queues", "ages", "queues/mail", "stages", "reservations", "redrives"),
            *("resources", "trends", "queues/mail/history"),
        ):
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                answer = await get(http, f"/-/api/{path}", **headers)
                assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")
        answer = await change(http, "queues/purge", {"queue": "mail", "confirm": "mail"})
        assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")


async def test_one_sees_the_queues_that_one_may_see_and_is_offered_what_one_may_do(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path, RULES) as (_, http):
        await fill(http)
        rows = (await api(http, "queues", **BOB))["queues"]
        assert {row["name"]: row["may"] for row in rows} == {
            "jobs-1": ["monitor"],
            "mail": ["receive", "monitor"],
        }
        assert [row["name"] for row in (await api(http, "ages", **BOB))["queues"]] == ["jobs-1", "mail"]
        told = await api(http, "server", **BOB)
        assert (told["identity"], told["sees_all"], "owners" in told) == ("bob", False, False)


async def test_a_forbidden_call_is_refused_whether_the_resource_exists_or_not(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as (_, http):
        await fill(http)
        refused = []
        for queue in ("secret", "nobody"):
            refused += [
                await get(http, f"/-/api/queues/{queue}", **BOB),
                await get(http, f"/-/api/queues/{queue}/history", **BOB),
                await change(http, "queues/create", {"queue": queue}, **BOB),
                await change(http, "queues/update", {"queue": queue}, **BOB),
                await change(http, "messages/send", {"queue": queue, "body": "x"}, **BOB),
                await get(http, f"/-/api/queues/{queue}/messages", **BOB),
                await change(http, "queues/purge", {"queue": queue, "confirm": queue}, **BOB),
                await change(http, "messages/delete", {"queue": queue, "ids": []}, **BOB),
                await change(http, "redrives", {"queue": queue}, **BOB),
            ]
        refused += [
            await get(http, "/-/api/resources", **BOB),
            await change(http, "queues/create", {"queue": "mail"}, **BOB),
            await change(http, "queues/update", {"queue": "mail", "settings": {}}, **BOB),
            await change(http, "messages/send", {"queue": "mail", "body": "x"}, **BOB),
            await get(http, "/-/api/queues/jobs-1/messages", **BOB),
            await change(http, "queues/purge", {"queue": "mail", "confirm": "mail"}, **BOB),
            await change(http, "redrives", {"queue": "mail"}, **BOB),
        ]
        assert {(answer.status, answer.reason) for answer in refused} == {(403, "PERMISSION_DENIED")}
        assert (await get(http, "/-/api/queues/mail/messages", **BOB)).status == 200
        for queue in ("mail", "secret"):
            counts = (await http.ask("GET", f"/{queue}", headers=ALICE)).json["counts"]
            assert counts["ready_count"] == 1


async def test_a_redrive_of_a_forbidden_queue_is_answered_as_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path, RULES, ManualClock()) as (_, http):
        await fill(http)
        asked = {"queue": "secret", "destination": "mail", "rate": 1}
        started = await change(http, "redrives", asked, **ALICE)
        id = started.json["redrive"]["id"]
        absent = id.translate(str.maketrans("0123456789", "1234567890"))
        forbidden, missing = [
            await change(http, "redrives/cancel", {"id": each}, **BOB) for each in (id, absent)
        ]
        assert (forbidden.status, forbidden.reason) == (404, "REDRIVE_NOT_FOUND")
        assert (forbidden.status, forbidden.reason) == (missing.status, missing.reason)
        told = json.dumps(forbidden.json).replace(id, absent)
        assert told == json.dumps(missing.json)
        assert (await change(http, "redrives/cancel", {"id": id}, **ALICE)).status == 200


async def test_redrives_of_forbidden_queues_hide_none_that_are_shown(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES, ManualClock()) as (server, http):
        await fill(http)
        store = server.store
        shown = store.submit(StartRedrive(queue="mail", destination="jobs-1")).result()
        for _ in range(MOST_THINGS):
            hidden = store.submit(StartRedrive(queue="secret", destination="mail", rate=1)).result()
            store.submit(CancelRedrive(id=hidden.id)).result()
        (redrive,) = (await api(http, "redrives", **BOB))["redrives"]
        assert (redrive["id"], redrive["may_cancel"]) == (shown.id, False)
        assert len((await api(http, "redrives", **ALICE))["redrives"]) == MOST_THINGS


async def test_settings_that_send_dead_letters_to_a_queue_take_the_permission_to_send_there(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path, "alice all *\nbob all bobs-*\n") as (server, http):
        await fill(http)
        settings = {"dead_letter_queue": "mail", "max_receives": 3}
        asked = {"queue": "bobs-1", "settings": settings}
        assert (await change(http, "queues/create", asked, **BOB)).reason == "PERMISSION_DENIED"
        assert (await change(http, "queues/create", {"queue": "bobs-1"}, **BOB)).status == 200
        assert (await change(http, "queues/update", asked, **BOB)).reason == "PERMISSION_DENIED"
        assert server.store.queue("bobs-1").settings == QueueSettings()


async def test_of_a_queue_that_one_may_not_see_there_is_no_history(tmp_path: Path) -> None:
    clock = ManualClock()
    async with guarded(tmp_path, RULES, clock) as (server, http):
        await fill(http)
        clock.advance(EVERY)
        await server.observer.sample()
        assert set((await api(http, "trends", **ALICE))["queues"]) == {"jobs-1", "mail", "secret"}
        assert set((await api(http, "trends", **BOB))["queues"]) == {"jobs-1", "mail"}
        assert set((await api(http, "trends?contains=mai", **BOB))["queues"]) == {"mail"}
        assert (await api(http, "queues/mail/history", **BOB))["is_kept"]
        told = await api(http, "server", **BOB)
        assert told["version"]
        assert not {"disk", "root", "processes"} & set(told)
        assert not (await api(http, "queues", **BOB))["may_create"]
        assert (await api(http, "queues", **ALICE))["may_create"]


async def test_stages_and_reservations_of_others_are_neither_seen_nor_ended(tmp_path: Path) -> None:
    async with guarded(tmp_path, RULES) as (server, http):
        await fill(http)
        await outcome(server.store.submit(Stage(stage="s", chunk=0, queue="secret", bodies=[b""])))
        await outcome(server.store.submit(Reserve(queue="secret", stream="r", sequence_number=1)))
        assert (await api(http, "stages", **BOB))["stages"] == []
        assert (await api(http, "reservations", **BOB))["reservations"] == []
        answer = await change(http, "stages/abort", {"stage": "s"}, **BOB)
        assert (answer.status, answer.reason) == (409, "NAME_TAKEN")
        answer = await change(
            http, "reservations/release", {"stream": "r", "sequence_number": "1"}, **BOB
        )
        assert (answer.status, answer.reason) == (409, "NAME_TAKEN")
        assert len((await api(http, "stages", **ALICE))["stages"]) == 1
        assert (await api(http, "reservations", **ALICE))["reservations"][0]["state"] == "held"


async def test_more_queues_than_one_answer_has_are_said_to_be_more(http: Http, server: Server) -> None:
    making = [
        server.store.submit(CreateQueue(name=f"q{n:04}", settings=QueueSettings()))
        for n in range(MOST_QUEUES + 1)
    ]
    for made in making:
        await outcome(made)
    found = await api(http, "queues")
    assert (len(found["queues"]), found["are_all"]) == (MOST_QUEUES, False)
    assert (await api(http, "queues?contains=q1000"))["are_all"]
