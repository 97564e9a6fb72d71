"""The dashboard's files with their headers, its JSON, and its actions."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from base64 import b64decode
from pathlib import Path

import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app.health import Health
from spoolrack_server.app.loop_answers import answer as outcome
from spoolrack_server.http.headers import time_text
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.stage_requests import Stage

from tests import CHECKOUT
from tests.http.dashboard_rig import (
    STATIC,
    api,
    assets,
    change,
    get,
)
from tests.support.http_rig import Http, fragile, raw_to
from tests.support.server_rig import Client

# The files.


async def test_the_page_and_every_file_of_it_are_served_with_the_headers_that_bind_them(
    http: Http,
) -> None:
    for path in ["", *(f"/{asset}" for asset in assets())]:
        answer = await get(http, f"/-/dashboard{path}")
        assert answer.status == 200, path
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        kind = answer.headers["Content-Type"]
        wanted = {
            "js": "text/javascript",
            "css": "text/css",
            "svg": "image/svg+xml",
            "txt": "text/plain",
        }
        assert kind.startswith(wanted.get(path.rpartition(".")[2], "text/html")), path
        head = await http.ask("HEAD", f"/-/dashboard{path}", described=False)
        assert (head.status, head.body) == (200, b"")


async def test_the_page_itself_holds_no_script_no_style_and_no_address_of_another_host(
    http: Http,
) -> None:
    page = (await get(http, "/-/dashboard")).body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=|//", page)
    for named in re.findall(r'(?:src|href)="(?!#)([^"]+)"', page):
        assert (await get(http, f"/-/{named}")).status == 200, named


async def test_a_cached_asset_is_not_sent_again(http: Http) -> None:
    first = await get(http, "/-/dashboard/app.js")
    again = await get(http, "/-/dashboard/app.js", **{"If-None-Match": first.headers["ETag"]})
    other = await get(http, "/-/dashboard/app.js", **{"If-None-Match": 'W/"other"'})
    assert (again.status, again.body) == (304, b"")
    assert (other.status, other.body) == (200, first.body)
    assert first.headers["Cache-Control"] == "no-cache"


async def test_a_client_that_accepts_gzip_gets_it(http: Http) -> None:
    plain = await get(http, "/-/dashboard/style.css", **{"Accept-Encoding": "identity"})
    packed = await get(http, "/-/dashboard/style.css", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 2


@pytest.mark.parametrize(
    "path",
    [
        "../permits.py",
        "%2e%2e/permits.py",
        "..%2fpermits.py",
        "pages/../../permits.py",
        "/etc/passwd",
        "vendor/vendored.json",
        "nobody.js",
        "app.js/",
        "%00",
    ],
)
async def test_nothing_but_its_files_can_be_asked_for(http: Http, path: str) -> None:
    answer = await get(http, f"/-/dashboard/{path}")
    assert (answer.status, answer.reason) == (404, "NO_SUCH_PAGE")


async def test_a_slash_too_many_leads_to_the_page(http: Http) -> None:
    assert (await get(http, "/-/dashboard/")).status == 200  # aiohttp's client follows


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_root_leads_browsers_to_the_page_and_programs_nowhere(
    http: Http, server: Server, method: str
) -> None:
    async with raw_to(server) as raw:
        await raw.say(f"{method} / HTTP/1.1", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
        status, headers = await raw.head()
    # Relative: a proxy may serve it under a prefix.
    assert (status, headers["location"]) == (303, "-/dashboard")
    assert (await get(http, "/", Accept="text/html")).headers["Content-Type"].startswith("text/html")
    answer = await get(http, "/", Accept="*/*")
    assert (answer.status, answer.reason) == (404, "NO_SUCH_PAGE")


@pytest.mark.parametrize("noted", [STATIC / "vendor", CHECKOUT / "tests" / "browser" / "vendor"])
def test_vendored_files_equal_npm_s_with_their_licence_beside_them(noted: Path) -> None:
    files = set()
    for package in json.loads((noted / "vendored.json").read_text()):
        assert package["integrity"].startswith("sha512-")
        assert any("LICENSE" in name for name in package["files"]), package["name"]
        for name, facts in package["files"].items():
            assert hashlib.sha256((noted / name).read_bytes()).hexdigest() == facts["sha256"], name
            files.add(noted / name)
    assert files == {
        path for path in noted.rglob("*") if path.is_file() and path.name != "vendored.json"
    }


def test_no_script_of_ours_makes_html_of_a_text() -> None:
    ours = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert len(ours) > 10
    for path in ours:
        script = path.read_text()
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert danger not in script, path
        assert not re.search(r"https?://(?!www\.w3\.org/)", script), path


# Reading.


async def test_a_queue_is_told_with_its_counts_its_ages_and_what_goes_in_and_out(
    http: Http, clock: ManualClock
) -> None:
    await http.create("dead")
    await http.create("q", max_receives=3, dead_letter_queue="dead")
    await http.send(b"old")
    clock.advance(100_000)
    await http.send(b"young")
    leased = await http.receive()
    await http.ask(
        "DELETE",
        f"/q/messages/{leased.id}",
        headers={"X-Message-Receipt": leased.headers["X-Message-Receipt"]},
    )

    rows = {row["name"]: row for row in (await api(http, "queues"))["queues"]}
    assert rows["q"] == {
        "name": "q",
        "ready": 1,
        "leased": 0,
        "delayed": 0,
        "bytes": 5,
        "oldest_age": 0,
        "entered": 2,
        "left": 1,
        "dead_letter_queue": "dead",
        "blocking": None,
        "may": ["send", "receive", "manage", "monitor"],
        "is_dead_letter_queue": False,
    }
    assert rows["dead"]["is_dead_letter_queue"]
    await http.send(b"x")
    clock.advance(20_000)
    ages = await api(http, "ages?first=15s")
    assert [(q["name"], q["counts"][:3]) for q in ages["queues"]] == [
        ("dead", [0, 0, 0]),
        ("q", [0, 2, 0]),
    ]
    page = await api(http, "queues/q")
    assert page["settings"]["max_receives"] == 3
    assert not page["dead_letter_queue_is_missing"]
    assert (page["obstacles"], page["oldest_leases"]) == ([], [])
    await http.receive()
    (lease,) = (await api(http, "queues/q"))["oldest_leases"]
    assert lease["consumer"].startswith("127.0.0.1:")
    dead = await api(http, "queues/dead")
    assert (dead["is_dead_letter_queue"], dead["sources"]) == (True, ["q"])


async def test_a_filter_is_part_of_a_name_and_lists_are_bounded(http: Http) -> None:
    for n in range(12):
        await http.create(f"jobs-{n}")
    found = await api(http, "queues?contains=-1")
    assert [row["name"] for row in found["queues"]] == ["jobs-1", "jobs-10", "jobs-11"]
    assert found["are_all"]
    assert (await api(http, "queues?contains=nothing"))["queues"] == []


async def test_messages_are_told_a_page_at_a_time_and_none_is_leased(http: Http) -> None:
    await http.create()
    ids = [await http.send(b"body %d" % n) for n in range(7)]

    first = await api(http, "queues/q/messages?limit=3")
    second = await api(http, f"queues/q/messages?limit=3&after={first['next']}")
    third = await api(http, f"queues/q/messages?limit=3&after={second['next']}")

    pages = [first, second, third]
    assert [m["id"] for page in pages for m in page["messages"]] == ids
    assert [page["next"] for page in pages] == [ids[2], ids[5], ""]
    assert b64decode(first["messages"][1]["body"]) == b"body 1"
    assert (await http.counts())["ready_count"] == 7
    assert (await api(http, "queues/q/messages?state=leased"))["messages"] == []


async def test_a_large_body_is_shown_in_part_and_not_at_all_in_a_list(http: Http) -> None:
    await http.create()
    id = await http.send(bytes(range(256)) * 1024)

    (listed,) = (await api(http, "queues/q/messages"))["messages"]
    message = (await api(http, f"queues/q/messages/{id}"))["message"]

    assert (listed["body"], listed["body_size"]) == (None, 256 * 1024)
    assert b64decode(message["body"]) == bytes(range(256)) * 256
    assert message["body_size"] == 256 * 1024


async def test_attributes_are_told_as_they_are_text_or_binary(http: Http, client: Client) -> None:
    await http.create()
    message = pb.OutgoingMessage(body=b"")
    message.attributes["<b>"].string_value = "<script>alert(1)</script>"
    message.attributes["raw"].binary_value = b"\x00\xff"
    await client.stub.Send(rpc.SendRequest(queue="q", messages=[message]))

    (listed,) = (await api(http, "queues/q/messages"))["messages"]
    assert listed["attributes"] == {"<b>": "<script>alert(1)</script>"}
    assert listed["binary_attributes"] == {"raw": "AP8="}


async def test_how_a_dead_letter_died_is_told(http: Http, clock: ManualClock) -> None:
    await http.create("dead")
    await http.create("q", max_receives=1, dead_letter_queue="dead")
    id = await http.send(b"poison")
    await http.receive()
    clock.advance(30_001)
    await http.receive()
    await http.until("dead", ready_count=1)

    message = (await api(http, f"queues/dead/messages/{id}"))["message"]
    (record,) = message["dead_letter_records"]
    assert (record["source_queue"], record["reason"], record["receive_count"]) == (
        "q",
        "max_receives",
        1,
    )
    assert record["dead_letter_time"] == time_text(clock.wall())
    # The pages read no field that isn't there.
    pages = [(STATIC / "pages" / name).read_text() for name in ("message.js", "messages.js")]
    read = {field for page in pages for field in re.findall(r"\b(?:record|last)\.(\w+)", page)}
    assert read <= set(record)


async def test_why_a_server_does_not_serve_is_told_and_its_queues_still_are(tmp_path: Path) -> None:
    health = Health()
    async with fragile(tmp_path / "root", health) as rig:
        await rig.http.create()
        health.fail("A sync failed.")
        server = await api(rig.http, "server")
        assert (server["status"], server["why"]) == ("NOT_SERVING", "A sync failed.")
        assert len((await api(rig.http, "queues"))["queues"]) == 1


async def test_the_owner_of_an_open_root_is_reported(server: Server, http: Http) -> None:
    found = await api(http, "server")
    (owner,) = found["owners"]
    assert owner["is_me"]
    assert owner["about"].startswith(f"pid {os.getpid()} on ")
    assert found["status"] == "SERVING"


# Changing.


async def test_messages_are_deleted_by_their_ids_and_each_failure_is_told(http: Http) -> None:
    await http.create()
    id = await http.send()
    other = "01890000-0000-7000-8000-000000000000"
    answer = await change(http, "messages/delete", {"queue": "q", "ids": [id, other]})
    assert answer.json["deleted"] == 1
    assert [failure["id"] for failure in answer.json["failures"]] == [other]


async def test_messages_are_filtered_by_age_group_and_attribute(http: Http, clock: ManualClock) -> None:
    await http.create()
    old = await http.send(b"1", **{"X-Message-Group": "eu", "X-Attribute-Kind": "a"})
    clock.advance(5_000)
    new = await http.send(b"2", **{"X-Attribute-Kind": "a"})
    for query, wanted in (
        ("older_than=4000", [old]),
        ("older_than=0", [old, new]),
        ("group=eu", [old]),
        ("attribute=kind=a", [old, new]),
        ("attribute=kind=a&group=eu&state=ready", [old]),
        ("attribute=kind=b", []),
    ):
        found = (await api(http, f"queues/q/messages?{query}"))["messages"]
        assert [each["id"] for each in found] == wanted, query


async def test_a_purge_takes_the_queues_name_typed(http: Http) -> None:
    await http.create()
    await http.send()
    for confirm in ("", "Q", None, ["q"]):
        answer = await change(http, "queues/purge", {"queue": "q", "confirm": confirm})
        assert (answer.status, answer.reason) == (400, "INVALID_REQUEST")
    assert (await http.counts())["ready_count"] == 1
    answer = await change(http, "queues/purge", {"queue": "q", "confirm": "q"})
    assert answer.json == {"deleted": 1}


async def test_a_purge_takes_only_the_age_and_the_states_that_are_asked_for(
    http: Http, clock: ManualClock
) -> None:
    await http.create()
    await http.send()
    clock.advance(2_000)
    await http.send()
    await http.receive()
    asked = {"queue": "q", "confirm": "q", "older_than": 1_000}
    assert (await change(http, "queues/purge", asked | {"states": ["ready"]})).json == {"deleted": 0}
    assert (await change(http, "queues/purge", asked)).json == {"deleted": 1}
    refused = await change(http, "queues/purge", asked | {"states": ["gone"]})
    assert (refused.status, refused.reason) == (400, "INVALID_REQUEST")
    assert (await http.counts())["ready_count"] == 1


async def test_schedules_of_a_queue_are_shown_created_paused_and_deleted(http: Http) -> None:
    await http.create()
    assert (await api(http, "queues/q"))["schedules"] == []
    named = {"queue": "q", "schedule": "nightly"}
    content = {"cron": "30 6 * * *", "time_zone": "Europe/Berlin", "body": "b"}
    assert (await change(http, "schedules/create", named | {"content": content})).json == {}
    (made,) = (await api(http, "queues/q"))["schedules"]
    assert (made["name"], made["cron"], made["paused"]) == ("nightly", "30 6 * * *", False)
    assert made["next_tick_time"] > made["create_time"]
    assert (await change(http, "schedules/pause", named | {"is_paused": True})).json == {}
    (paused,) = (await api(http, "queues/q"))["schedules"]
    assert paused["paused"]
    assert "next_tick_time" not in paused
    for wrong in ({"is_paused": "yes"}, {}):
        refused = await change(http, "schedules/pause", named | wrong)
        assert (refused.status, refused.reason) == (400, "INVALID_REQUEST")
    refused = await change(http, "schedules/create", named | {"content": []})
    assert (refused.status, refused.reason) == (400, "INVALID_REQUEST")
    assert (await change(http, "schedules/delete", named)).json == {}
    assert (await api(http, "queues/q"))["schedules"] == []


async def test_a_stage_is_shown_and_aborted(server: Server, http: Http) -> None:
    await http.create()
    staged = Stage(stage="s-1", chunk=0, queue="q", bodies=[b"x", b"y"])
    await outcome(server.store.submit(staged))
    (stage,) = (await api(http, "stages"))["stages"]
    assert (stage["name"], stage["message_counts"], stage["may_abort"]) == ("s-1", {"q": 2}, True)
    assert (await change(http, "stages/abort", {"stage": "s-1"})).json == {"deleted": 2}
    assert (await api(http, "stages"))["stages"] == []


async def test_a_reservation_is_shown_and_released_also_with_a_number_no_script_can_count_to(
    server: Server, http: Http
) -> None:
    await http.create()
    await http.send()
    sequence_number = 2**63 - 2
    await outcome(
        server.store.submit(Reserve(queue="q", stream="spark", sequence_number=sequence_number))
    )
    (held,) = (await api(http, "reservations"))["reservations"]
    assert (held["sequence_number"], held["message_count"], held["state"]) == (
        str(sequence_number),
        1,
        "held",
    )
    answer = await change(
        http, "reservations/release", {"stream": "spark", "sequence_number": str(sequence_number)}
    )
    assert answer.status == 200
    assert (await api(http, "reservations"))["reservations"][0]["state"] == "lost"
    assert (await http.counts())["ready_count"] == 1


async def test_dead_letters_go_back_and_a_redrive_can_be_watched_and_cancelled(
    http: Http, clock: ManualClock
) -> None:
    await http.create("dead")
    await http.create("q", max_receives=1, dead_letter_queue="dead")
    for _ in range(3):
        await http.send()
        await http.receive()
    clock.advance(30_001)
    await http.receive()
    await http.until("dead", ready_count=3)

    started = await change(http, "redrives", {"queue": "dead", "rate": 1, "destination": "", "ids": []})
    assert started.status == 200, started
    (redrive,) = (await api(http, "redrives"))["redrives"]
    assert (redrive["id"], redrive["may_cancel"]) == (started.json["redrive"]["id"], True)
    assert redrive["moved_count"] + redrive["remaining_count"] == 3
    again = await change(http, "redrives", {"queue": "dead"})
    assert (again.status, again.reason) == (409, "REDRIVE_RUNNING")
    cancelled = await change(http, "redrives/cancel", {"id": redrive["id"]})
    assert cancelled.json["redrive"]["state"] == "cancelled"
    rows = {row["name"]: row for row in (await api(http, "queues"))["queues"]}
    assert rows["dead"]["left"] == rows["q"]["ready"] == cancelled.json["redrive"]["moved_count"]
    assert rows["q"]["entered"] == 3 + rows["dead"]["left"]
