"""The masks and pages of the RPCs about schedules, and the ticks that a server makes up for or not.

`tests/client/contract/test_contract_schedules.py` tells what a schedule promises.
"""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import schedule_service_pb2 as rpc
from spoolrack_server.app.scheduler import Scheduler
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, HOUR, MINUTE, Millis
from spoolrack_store.model.operations import UpdateQueue
from spoolrack_store.model.schedule_requests import CreateSchedule

from tests.support.server_rig import Client, connected, refused

MINUTELY = "* * * * *"


async def create(client: Client, cron: str = MINUTELY, **more: Any) -> rpc.Schedule:
    schedule = rpc.Schedule(queue="q", name="s", cron=cron, body=b"go")
    schedule.MergeFrom(rpc.Schedule(**more))
    made = await client.stub.CreateSchedule(rpc.CreateScheduleRequest(schedule=schedule))
    assert isinstance(made, rpc.CreateScheduleResponse)
    return made.schedule


async def listed(client: Client, **asked: Any) -> rpc.ListSchedulesResponse:
    found = await client.stub.ListSchedules(rpc.ListSchedulesRequest(**asked))
    assert isinstance(found, rpc.ListSchedulesResponse)
    return found


@pytest.fixture
def scheduler(server: Server, clock: ManualClock) -> Scheduler:
    """Another one than the server's own, as in another process: a test says when it looks."""
    return Scheduler(server.store, clock, make_log())


def minute(clock: ManualClock) -> int:
    """Return the Unix time at which the present minute began."""
    return clock.wall() // 60_000 * 60


async def ticks(client: Client) -> list[int]:
    """Receive what there is; return the ticks of the messages."""
    found = await client.receive(1_000)
    texts = [message.attributes["spoolrack-tick"].string_value for message in found]
    return [int(datetime.fromisoformat(text).astimezone(UTC).timestamp()) for text in texts]


async def test_of_the_ticks_that_were_missed_the_last_is_sent(
    tmp_path: Path, clock: ManualClock
) -> None:
    root = tmp_path / "root"
    async with Server(root, clock=clock) as server, connected(server) as client:
        await client.create()
        await create(client)
    begin = minute(clock)
    clock.advance(Millis(3 * DAY))
    async with Server(root, clock=clock) as server, connected(server) as client:
        scheduler = Scheduler(server.store, clock, make_log())
        await scheduler.fire_due()
        await scheduler.fire_due()
        assert await ticks(client) == [begin + 3 * DAY // 1_000]
        clock.advance(MINUTE)
        await scheduler.fire_due()
        assert await ticks(client) == [begin + 3 * DAY // 1_000 + more for more in (0, 60)]


async def test_a_clock_that_is_put_back_repeats_no_tick(
    client: Client, clock: ManualClock, scheduler: Scheduler
) -> None:
    await client.create()
    await create(client)
    begin = minute(clock)
    clock.advance(Millis(2 * HOUR))
    await scheduler.fire_due()
    clock.step_wall(Millis(-HOUR))
    for _ in range(61):
        clock.advance(MINUTE)
        await scheduler.fire_due()
    assert await ticks(client) == [begin + 7_200, begin + 7_260]


async def update(client: Client, *paths: str, **changed: Any) -> rpc.Schedule:
    request = rpc.UpdateScheduleRequest(schedule=rpc.Schedule(queue="q", name="s", **changed))
    request.update_mask.paths.extend(paths)
    updated = (await client.stub.UpdateSchedule(request)).schedule
    assert (await got(client)) == updated
    return updated


async def got(client: Client, name: str = "s") -> rpc.Schedule:
    request = rpc.GetScheduleRequest(queue="q", name=name)
    found: rpc.Schedule = (await client.stub.GetSchedule(request)).schedule
    return found


async def test_a_changed_content_leaves_the_time_and_what_no_mask_names(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    made = await create(client)
    clock.advance(Millis(10_000))
    attribute = pb.Attribute(string_value="x")
    updated = await update(client, body=b"new", group="g", attributes={"kind": attribute})
    assert (updated.body, updated.group, dict(updated.attributes)) == (b"new", "g", {"kind": attribute})
    assert updated.next_tick_time == made.next_tick_time
    updated = await update(client, "group", "attributes", body=b"ignored")
    assert (updated.body, updated.group, dict(updated.attributes)) == (b"new", "", {})
    updated = await update(client, "*", cron=updated.cron)
    assert (updated.body, updated.time_zone) == (b"", "UTC")


async def test_a_change_that_is_none_is_refused_and_changes_nothing(client: Client) -> None:
    await client.create()
    made = await create(client)
    for paths, changed in (
        (["cron"], {}),
        (["paused"], {}),
        ([], {"time_zone": "Mars/Base"}),
        ([], {"body": bytes(64 * 1024 + 1)}),
    ):
        no = await refused(update(client, *paths, **changed))
        assert no.reason == "INVALID_REQUEST", (paths, changed)
    assert await got(client) == made


async def test_a_full_queue_holds_up_its_own_schedule_only(
    client: Client, clock: ManualClock, scheduler: Scheduler
) -> None:
    await client.create(max_messages=1)
    await client.create("p")
    await client.send(b"there")
    await create(client)
    await create(client, queue="p")
    clock.advance(MINUTE)
    await scheduler.fire_due()
    assert (await client.counts("p")).ready_count == 1
    (there,) = await client.receive()
    await client.delete(there.receipt)
    await scheduler.fire_due()
    assert len(await ticks(client)) == 1


async def test_schedules_are_listed_page_by_page(client: Client) -> None:
    for queue in ("p", "q"):
        await client.create(queue)
        for name in ("b", "a"):
            await create(client, queue=queue, name=name)
    seen, token = [], ""
    for _ in range(4):
        page = await listed(client, page_size=1, page_token=token)
        seen += [(each.queue, each.name) for each in page.schedules]
        token = page.next_page_token
    assert seen == [("p", "a"), ("p", "b"), ("q", "a"), ("q", "b")]
    assert token == ""
    assert [each.name for each in (await listed(client, queue="p")).schedules] == ["a", "b"]
    assert (await refused(listed(client, page_token="x"))).reason == "INVALID_REQUEST"


async def stored(server: Server, **given: Any) -> None:
    """Store a schedule as an earlier version may have: without a check of its time."""
    content = {"queue": "q", "name": "old", "cron": MINUTELY, "time_zone": "UTC", **given}
    await asyncio.wrap_future(server.store.submit(CreateSchedule(**content)))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"time_zone": "Mars/Base"}, "TIME_UNUSABLE"),
        ({"time_zone": "posix/../UTC"}, "TIME_UNUSABLE"),
        ({"cron": "61 * * * *"}, "TIME_UNUSABLE"),
        ({"cron": "1 2"}, "TIME_UNUSABLE"),
        ({"body": bytes(101)}, "MESSAGE_TOO_LARGE"),
    ],
)
async def test_a_schedule_that_has_become_invalid_rests_alone_and_says_why(
    client: Client, server: Server, clock: ManualClock, given: dict[str, Any], reason: str
) -> None:
    lines = io.StringIO()
    scheduler = Scheduler(server.store, clock, make_log(stream=lines))
    await client.create()
    await stored(server, **given)
    if reason == "MESSAGE_TOO_LARGE":
        # Valid when it was stored: the setting is lowered after it.
        lowered = UpdateQueue(name="q", changes={"max_message_size": 100})
        await asyncio.wrap_future(server.store.submit(lowered))
    await create(client)
    for _ in range(3):
        clock.advance(MINUTE)
        assert await scheduler.fire_due() == 1, "the other schedule is sent"
    assert scheduler.resting == 1
    told = [line for line in lines.getvalue().splitlines() if "not sent" in line]
    assert len(told) == 1, "once, not each second"
    assert "schedule=old" in told[0]

    old, other = (await listed(client)).schedules
    assert ([each.reason for each in old.obstacles], list(other.obstacles)) == ([reason], [])
    assert old.obstacles[0].explanation in told[0].replace('\\"', '"')
    assert not old.HasField("next_tick_time")
    await client.stub.DeleteSchedule(rpc.DeleteScheduleRequest(queue="q", name="old"))
    assert [each.name for each in (await listed(client)).schedules] == ["s"]
    assert await scheduler.fire_due() == 0
    assert scheduler.resting == 0


async def test_a_schedule_that_rests_goes_on_once_it_is_mended(
    client: Client, server: Server, clock: ManualClock, scheduler: Scheduler
) -> None:
    await client.create()
    await stored(server, name="s", time_zone="Mars/Base")
    clock.advance(MINUTE)
    assert await scheduler.fire_due() == 0
    mended = await update(client, time_zone="UTC")
    assert not mended.obstacles
    assert mended.HasField("next_tick_time")
    clock.advance(MINUTE)
    assert await scheduler.fire_due() == 1


async def test_an_owner_without_permission_makes_a_schedule_rest(
    client: Client, server: Server, clock: ManualClock
) -> None:
    permitted = {"a"}
    scheduler = Scheduler(
        server.store, clock, make_log(), may_send=lambda identity, queue: identity in permitted
    )
    await client.create()
    for name, owner in (("a", "a"), ("b", "b"), ("unknown", "")):
        await stored(server, name=name, owner=owner)
    clock.advance(MINUTE)
    assert (await scheduler.fire_due(), scheduler.resting) == (2, 1)
    permitted.clear()
    clock.advance(MINUTE)
    assert (await scheduler.fire_due(), scheduler.resting) == (1, 2)
    permitted.add("b")
    assert await scheduler.fire_due() == 1, "the tick that was missed, when it has the permission"
