"""Extensions, releases and rejections over HTTP."""

from __future__ import annotations

import pytest
from spoolrack_server.wire.json_form import time_text
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.support.http_rig import Answer, Http


async def leased(http: Http) -> tuple[str, dict[str, str]]:
    """Receive a message; return the path of it and the header that ends its lease."""
    got = await http.receive()
    return f"/q/messages/{got.id}", {"If-Match": got.headers["X-Message-Receipt"]}


async def test_an_extended_lease_ends_later_with_the_same_receipt(
    http: Http, clock: ManualClock
) -> None:
    await http.create()
    id = await http.send()
    path, match = await leased(http)
    extended = await http.ask("POST", f"{path}/extend?visibility_timeout=60.5", headers=match)
    assert extended.status == 200
    assert extended.json == {"lease_expire_time": time_text(Millis(clock.wall() + 60_500))}
    looked = await http.ask("GET", f"/q/messages/{id}")
    assert looked.headers["X-Message-Lease-Expire-Time"] == extended.json["lease_expire_time"]
    assert (await http.ask("DELETE", path, headers=match)).status == 202


async def test_an_expired_lease_is_extended_by_its_last_receive(http: Http, clock: ManualClock) -> None:
    await http.create()
    await http.send()
    got = await http.receive("?visibility_timeout=1")
    clock.advance(1_000)
    url = f"/q/messages/{got.id}/extend?visibility_timeout=60"
    match = {"If-Match": got.headers["X-Message-Receipt"]}
    assert (await http.ask("POST", url, headers=match)).reason == "STALE_RECEIPT"
    names = ("X-Message-Receive-Count", "X-Message-First-Receive-Time")
    told = {**match, **{name: got.headers[name] for name in names}}
    assert (await http.ask("POST", f"{url}&allow_expired=true", headers=told)).status == 200
    assert (await http.counts())["leased_count"] == 1


async def test_a_released_message_is_ready_again_after_its_delay(
    http: Http, clock: ManualClock
) -> None:
    await http.create()
    await http.send()
    path, match = await leased(http)
    released = await http.ask("POST", f"{path}/release?delay=5&reason=busy", headers=match)
    assert released.status == 200
    assert set(released.json) == {"deliver_time"}
    assert (await http.counts())["delayed_count"] == 1
    clock.advance(5_000)
    again = await http.receive("?wait=20")
    assert again.headers["X-Message-Receive-Count"] == "2"


async def test_a_release_may_leave_the_receive_uncounted(http: Http) -> None:
    await http.create()
    await http.send()
    path, match = await leased(http)
    released = await http.ask("POST", f"{path}/release?delay=0&uncounted=true", headers=match)
    assert released.status == 200
    assert (await http.receive()).headers["X-Message-Receive-Count"] == "1"


async def test_a_rejected_message_is_a_dead_letter_with_its_reason(http: Http) -> None:
    await http.create("dead")
    await http.create(max_receives=9, dead_letter_queue="dead")
    await http.send()
    path, match = await leased(http)
    rejected = await http.ask("POST", f"{path}/reject?reason=not%20JSON", headers=match)
    assert (rejected.status, rejected.body) == (204, b"")
    assert (await http.counts("dead"))["ready_count"] == 1
    assert (await http.counts())["leased_count"] == 0


async def test_a_rejection_without_a_dead_letter_queue_is_a_conflict(http: Http) -> None:
    await http.create()
    await http.send()
    path, match = await leased(http)
    refused = await http.ask("POST", f"{path}/reject", headers=match)
    assert (refused.status, refused.reason) == (409, "NO_DEAD_LETTER_QUEUE")
    assert (await http.counts())["leased_count"] == 1


@pytest.mark.parametrize("act", ["extend?visibility_timeout=5", "release", "reject"])
async def test_only_the_holder_of_the_present_lease_changes_it(http: Http, act: str) -> None:
    await http.create("dead")
    await http.create(max_receives=9, dead_letter_queue="dead")
    await http.send()
    path, match = await leased(http)
    without: Answer = await http.ask("POST", f"{path}/{act}")
    assert (without.status, without.reason) == (400, "INVALID_REQUEST")
    assert "If-Match" in without.json["message"]
    assert (await http.ask("POST", f"{path}/release?delay=0", headers=match)).status == 200
    stale = await http.ask("POST", f"{path}/{act}", headers=match)
    assert (stale.status, stale.reason) == (412, "STALE_RECEIPT")
