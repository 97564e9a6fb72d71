"""Pauses over HTTP: settings of a queue, and the refusal of a send."""

from __future__ import annotations

from tests.support.http_rig import Http


async def test_a_send_to_a_paused_queue_is_a_conflict_and_a_receive_of_one_is_empty(http: Http) -> None:
    await http.create(sending="paused", receiving="paused")
    refused = await http.ask("POST", "/q/messages", b"no")
    assert (refused.status, refused.reason) == (409, "SENDING_PAUSED")
    assert "Retry-After" not in refused.headers
    assert (await http.receive()).status == 204


async def test_a_queue_tells_what_holds_its_messages_back(http: Http) -> None:
    await http.create()
    await http.send(b"held")
    leased = await http.receive()
    told = (await http.ask("GET", "/q")).json
    assert told["obstacles"] == [
        {"reason": "NOTHING_READY", "explanation": "no message is ready: 1 leased, 0 delayed"}
    ]
    (lease,) = told["oldest_leases"]
    assert (lease["message_id"], lease["message_count"], lease["receive_count"]) == (leased.id, 1, 1)
    assert lease["stream"] == ""
