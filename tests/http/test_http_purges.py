"""Purges over HTTP: of all messages, by age and by state."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from spoolrack_store.manual_clock import ManualClock

from tests.support.http_rig import Http


async def test_a_purge_deletes_all_messages_and_says_how_many(http: Http) -> None:
    await http.create()
    for _ in range(3):
        await http.send()
    await http.receive()
    answer = await http.ask("DELETE", "/q/messages")
    assert (answer.status, answer.json) == (200, {"purged_count": 3})
    assert (await http.ask("DELETE", "/q/messages")).json == {"purged_count": 0}


async def test_a_purge_takes_only_the_states_and_the_age_that_are_named(
    http: Http, clock: ManualClock
) -> None:
    await http.create()
    await http.send()
    await http.receive()
    clock.advance(1_000)
    sent = await http.ask("POST", "/q/messages", b"x")
    moment = quote(sent.headers["X-Message-Send-Time"])
    purge = await http.ask("DELETE", f"/q/messages?sent_before={moment}&states=ready,delayed")
    assert purge.json == {"purged_count": 0}
    purge = await http.ask("DELETE", f"/q/messages?sent_before={moment}")
    assert purge.json == {"purged_count": 1}
    assert (await http.ask("DELETE", "/q/messages?states=leased")).json == {"purged_count": 0}
    assert (await http.ask("DELETE", "/q/messages?states=ready")).json == {"purged_count": 1}


@pytest.mark.parametrize(
    "query",
    ["sent_before=yesterday", "sent_before=2026-01-01T00:00:00", "states=gone", "states=a,"],
)
async def test_a_purge_that_cannot_be_read_deletes_nothing(http: Http, query: str) -> None:
    await http.create()
    await http.send()
    refused = await http.ask("DELETE", f"/q/messages?{query}")
    assert (refused.status, refused.reason) == (400, "INVALID_REQUEST")
    assert query.partition("=")[0] in refused.json["message"]
    assert (await http.counts())["ready_count"] == 1


async def test_a_purge_that_names_a_queue_beside_its_path_is_refused(http: Http) -> None:
    await http.create()
    refused = await http.ask(
        "DELETE", "/q/messages", b'{"name": "r"}', {"Content-Type": "application/json"}
    )
    assert (refused.status, refused.reason) == (400, "INVALID_REQUEST")


async def test_a_purge_of_a_queue_that_is_not_there_is_told_so(http: Http) -> None:
    refused = await http.ask("DELETE", "/q/messages")
    assert (refused.status, refused.reason) == (404, "QUEUE_NOT_FOUND")
