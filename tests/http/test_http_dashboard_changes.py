"""Changes by the dashboard: queues, their settings, messages."""

from __future__ import annotations

from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.settings import QueueSettings

from tests.http.dashboard_rig import api, change
from tests.support.http_rig import Http
from tests.support.listing import messages_in


async def test_a_queue_is_created_with_its_settings_and_the_rest_as_they_are_by_default(
    http: Http, server: Server
) -> None:
    asked = {"visibility_timeout": 1.5, "max_bytes": 1 << 30, "lease_durability": "relaxed"}
    answer = await change(http, "queues/create", {"queue": "q", "settings": asked})
    assert (answer.status, answer.json) == (200, {})
    wanted = {"visibility_timeout": 1_500, "max_bytes": 1 << 30, "lease_durability": "relaxed"}
    assert server.store.queue("q").settings == QueueSettings().changed(wanted)
    assert (await change(http, "queues/create", {"queue": "plain"})).status == 200
    defaults = (await api(http, "queues"))["defaults"]
    assert (await api(http, "queues/plain"))["settings"] == defaults
    again = await change(http, "queues/create", {"queue": "q", "settings": {}})
    assert (again.status, again.reason) == (409, "QUEUE_EXISTS")


async def test_an_update_changes_what_it_names_and_nothing_else(http: Http, server: Server) -> None:
    await http.create("q", retention=60)
    answer = await change(http, "queues/update", {"queue": "q", "settings": {"max_messages": 7}})
    assert answer.status == 200
    assert server.store.queue("q").settings == QueueSettings().changed(
        {"retention": 60_000, "max_messages": 7}
    )


async def test_invalid_settings_are_reported_as_over_grpc(http: Http, server: Server) -> None:
    await http.create()
    for settings, part in (
        ({"max_receives": 3}, "goes with a dead_letter_queue"),
        ({"visibility_timeout": 10**6}, "visibility_timeout"),
        ({"nonsense": 1}, "is not a setting of a queue"),
        ({"relaxed_leases": True}, "is not a setting of a queue"),
        ({"dead_letter_queue": "q", "max_receives": 1}, "q"),
    ):
        answer = await change(http, "queues/update", {"queue": "q", "settings": settings})
        assert answer.status == 400, (settings, answer)
        assert part in answer.json["message"]
    assert server.store.queue("q").settings == QueueSettings()
    answer = await change(http, "queues/update", {"queue": "nobody", "settings": {"max_messages": 1}})
    assert (answer.status, answer.reason) == (404, "QUEUE_NOT_FOUND")


async def test_a_message_is_sent_with_its_attributes_and_its_delay(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create("q", delivery_delay=5)
    attributes = [{"name": "source", "text": "by hand"}, {"name": "é", "text": ""}]
    asked = {"queue": "q", "body": "zwölf", "attributes": attributes, "delay": 60_000}
    first = await change(http, "messages/send", asked)
    second = await change(http, "messages/send", {"queue": "q", "body": "", "delay": 0})
    third = await change(http, "messages/send", {"queue": "q", "body": "as the queue has it"})

    found = {message.id: message for message in messages_in(server.store, "q")}
    sent = found[first.json["id"]]
    assert sent.body == "zwölf".encode()
    assert sent.attributes == {"source": "by hand", "é": ""}
    assert sent.due == clock.wall() + 60_000
    assert found[second.json["id"]].due is None
    assert found[third.json["id"]].due == clock.wall() + 5_000


async def test_a_message_that_cannot_be_stored_is_refused_and_not_there(http: Http) -> None:
    await http.create("q", max_message_size=3)
    for more, reason in (
        ({"body": "four"}, "MESSAGE_TOO_LARGE"),
        ({"body": "\ud800"}, "INVALID_MESSAGE"),
        ({"body": "x", "attributes": [{"name": "", "text": "x"}]}, "INVALID_MESSAGE"),
        ({"body": "x", "attributes": [{"name": "\ud800", "text": "x"}]}, "INVALID_MESSAGE"),
        ({"body": "x", "attributes": [{"name": "a", "text": "x"}] * 2}, "INVALID_MESSAGE"),
        ({"body": "x", "attributes": [{"name": "a"}]}, "INVALID_REQUEST"),
        ({"body": "x", "delay": -1}, "INVALID_REQUEST"),
        ({"body": "x", "delay": 1.5}, "INVALID_REQUEST"),
        ({"body": "x", "delay": 10**12}, "INVALID_REQUEST"),
        ({}, "INVALID_REQUEST"),
    ):
        answer = await change(http, "messages/send", {"queue": "q", **more})
        assert answer.reason == reason, (more, answer)
    assert (await http.counts())["ready_count"] == 0
    answer = await change(http, "messages/send", {"queue": "nobody", "body": "x"})
    assert answer.reason == "QUEUE_NOT_FOUND"


async def test_a_redrive_that_runs_is_told_on_its_queues_page(http: Http, clock: ManualClock) -> None:
    await http.create("dead")
    await http.create("q", max_receives=1, dead_letter_queue="dead")
    for _ in range(3):
        await http.send()
        await http.receive()
    clock.advance(30_001)
    await http.receive()
    await http.until("dead", ready_count=3)
    assert (await api(http, "queues/dead"))["redrive"] is None

    started = await change(http, "redrives", {"queue": "dead", "rate": 1})
    redrive = (await api(http, "queues/dead"))["redrive"]
    assert redrive["id"] == started.json["redrive"]["id"]
    assert redrive["moved_count"] + redrive["remaining_count"] == 3
    assert redrive["max_messages_per_second"] == 1
    await change(http, "redrives/cancel", {"id": redrive["id"]})
    assert (await api(http, "queues/dead"))["redrive"] is None
    assert (await api(http, "queues/q"))["redrive"] is None
