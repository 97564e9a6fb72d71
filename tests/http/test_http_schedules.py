"""Schedules over HTTP."""

from __future__ import annotations

import json
from typing import Any

from tests.support.http_rig import Answer, Http

SCHEDULES = "/-/queues/q/schedules"
JSON = {"Content-Type": "application/json"}


async def put(http: Http, name: str, /, *, method: str = "PUT", **content: Any) -> Answer:
    return await http.ask(method, f"{SCHEDULES}/{name}", json.dumps(content), JSON)


async def test_a_schedule_is_created_listed_paused_resumed_and_deleted(http: Http) -> None:
    await http.create()
    attributes = {"attributes": {"kind": "x"}, "binary_attributes": {"raw": "AAE="}}
    wanted = {"cron": "30 6 * * *", "time_zone": "Europe/Berlin", "body": "b", "group": "g"}
    made = await put(http, "nightly", **wanted, **attributes)
    assert made.status == 201
    assert {**made.json, **wanted, **attributes, "paused": False, "name": "nightly"} == made.json
    assert made.json["next_tick_time"] > made.json["create_time"]
    assert (await put(http, "nightly", **wanted, **attributes)).json == made.json
    assert (await http.ask("GET", SCHEDULES)).json == {"schedules": [made.json], "next_page_token": ""}
    assert (await http.ask("GET", f"{SCHEDULES}/nightly")).json == made.json
    paused = await http.ask("POST", f"{SCHEDULES}/nightly/pause")
    assert (paused.status, paused.json["paused"]) == (200, True)
    assert "next_tick_time" not in paused.json
    resumed = await http.ask("POST", f"{SCHEDULES}/nightly/resume")
    assert (resumed.json["paused"], resumed.json["next_tick_time"]) == (
        False,
        made.json["next_tick_time"],
    )
    assert (await http.ask("DELETE", f"{SCHEDULES}/nightly")).status == 204
    nothing = {"schedules": [], "next_page_token": ""}
    assert (await http.ask("GET", SCHEDULES)).json == nothing


async def test_the_schedules_of_all_queues_are_listed_page_by_page(http: Http) -> None:
    for queue in ("q", "r"):
        await http.create(queue)
        content = json.dumps({"cron": "30 6 * * *"})
        await http.ask("PUT", f"/-/queues/{queue}/schedules/nightly", content, JSON)
    first = (await http.ask("GET", "/-/schedules?page_size=1")).json
    token = first["next_page_token"]
    last = (await http.ask("GET", f"/-/schedules?page_size=1&page_token={token}")).json
    (one,), (other,) = first["schedules"], last["schedules"]
    assert (one["queue"], other["queue"], last["next_page_token"]) == ("q", "r", "")
    of_one = (await http.ask("GET", "/-/schedules?queue=r")).json
    assert of_one == {"schedules": [other], "next_page_token": ""}


async def test_a_patch_changes_the_fields_of_a_schedule_that_it_names(http: Http) -> None:
    await http.create()
    attributes = {"attributes": {"kind": "x"}, "binary_attributes": {"raw": "AAE="}}
    made = await put(http, "s", cron="30 6 * * *", body="b", group="g", **attributes)
    time = {"cron": "0 7 * * *", "time_zone": "Asia/Tokyo"}
    changed = await put(http, "s", method="PATCH", **time, group="")
    assert changed.status == 200
    assert changed.json["next_tick_time"] != made.json["next_tick_time"]
    expected = {**made.json, **time, "group": "", "next_tick_time": changed.json["next_tick_time"]}
    assert changed.json == expected
    assert (await put(http, "s", method="PATCH")).json == changed.json
    texts = await put(http, "s", method="PATCH", attributes={"kind": "y"}, binary_body="gA==")
    assert texts.json["attributes"] == {"kind": "y"}
    assert texts.json["binary_attributes"] == {}
    assert texts.json["binary_body"] == "gA=="
    reset = await put(http, "s", method="PATCH", time_zone=None, attributes=None)
    assert (reset.json["time_zone"], reset.json["attributes"]) == ("UTC", {})
    assert (await http.ask("GET", f"{SCHEDULES}/s")).json == reset.json


async def test_a_body_that_is_no_text_is_told_in_base64(http: Http) -> None:
    await http.create()
    made = await put(http, "s", cron="* * * * *", binary_body="gA==")
    assert made.json["binary_body"] == "gA=="
    assert "body" not in made.json


async def test_a_missing_and_a_differing_schedule_are_reported(http: Http) -> None:
    assert (await http.ask("GET", SCHEDULES)).reason == "QUEUE_NOT_FOUND"
    await http.create()
    paths = ("GET", "s"), ("PATCH", "s"), ("DELETE", "s"), ("POST", "s/pause"), ("POST", "s/resume")
    for method, path in paths:
        missing = await http.ask(method, f"{SCHEDULES}/{path}")
        assert (missing.status, missing.reason) == (404, "SCHEDULE_NOT_FOUND")
    await put(http, "s", cron="* * * * *")
    differs = await put(http, "s", cron="1 * * * *")
    assert (differs.status, differs.reason) == (409, "SCHEDULE_EXISTS")
