"""Promises of every transport to a server about schedules, and the messages of their ticks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import spoolrack
from spoolrack import Client, Message, Schedule
from spoolrack.errors import (
    InvalidMessage,
    InvalidRequest,
    QueueNotFound,
    ScheduleExists,
    ScheduleNotFound,
)

from tests.client.contract.conftest import World
from tests.support.waiting import until

pytestmark = pytest.mark.needs("schedules")

MINUTELY = "* * * * *"
MINUTE = timedelta(minutes=1)


def create(client: Client, **changes: Any) -> Schedule:
    content: dict[str, Any] = {"cron": MINUTELY, "body": "go", **changes}
    made = client.schedules.create("jobs", "s", content.pop("cron"), content.pop("body"), **content)
    assert isinstance(made, Schedule)
    return made


def next_tick(made: Schedule) -> datetime:
    assert made.next_tick_at is not None
    return made.next_tick_at


def tick_of(message: Message) -> datetime:
    return datetime.fromisoformat(str(message.attributes["spoolrack-tick"]))


def sent(jobs: spoolrack.Queue, count: int = 1) -> list[Message]:
    """Return the messages, once there are `count`."""
    until(lambda: len(list(jobs.peek())) >= count)
    return list(jobs.peek())


def test_a_schedule_is_as_it_was_made(client: Client, jobs: spoolrack.Queue) -> None:
    made = client.schedules.create(
        jobs,
        "nightly",
        "30 3 * * MON-FRI",
        b"\xff",
        time_zone="Europe/Berlin",
        attributes={"kind": "x", "raw": b"\x00"},
        group="g",
    )
    assert (made.queue, made.name, made.cron) == ("jobs", "nightly", "30 3 * * MON-FRI")
    assert (made.body, made.group, made.time_zone) == (b"\xff", "g", "Europe/Berlin")
    assert dict(made.attributes) == {"kind": "x", "raw": b"\x00"}
    assert (made.paused, made.last_tick_at) == (False, None)
    assert next_tick(made) > made.created_at
    assert client.schedules.get("jobs", "nightly") == made
    assert list(client.schedules.list("jobs")) == [made]


def test_a_tick_sends_the_message_once_and_says_what_sent_it(
    world: World, client: Client, jobs: spoolrack.Queue
) -> None:
    made = create(client, attributes={"kind": "x"}, group="g")
    assert list(jobs.peek()) == []
    world.advance(60)
    (message,) = sent(jobs)
    assert (message.text, message.group) == ("go", "g")
    assert message.attributes["kind"] == "x"
    assert message.attributes["spoolrack-schedule"] == "s"
    assert tick_of(message) == next_tick(made)
    until(lambda: client.schedules.get("jobs", "s").last_tick_at == next_tick(made))
    assert client.schedules.get("jobs", "s").next_tick_at == next_tick(made) + MINUTE
    world.advance(60)
    assert [tick_of(each) - next_tick(made) for each in sent(jobs, 2)] == [timedelta(0), MINUTE]


def test_ticks_of_a_pause_are_skipped(world: World, client: Client, jobs: spoolrack.Queue) -> None:
    made = create(client)
    client.schedules.create("jobs", "other", MINUTELY)
    for _ in range(2):
        paused = client.schedules.pause("jobs", "s")
        assert (paused.paused, paused.next_tick_at) == (True, None)
    world.advance(60)
    assert [each.attributes["spoolrack-schedule"] for each in sent(jobs)] == ["other"]
    client.schedules.delete("jobs", "other")
    for _ in range(2):
        resumed = client.schedules.resume("jobs", "s")
        assert (resumed.paused, resumed.next_tick_at) == (False, next_tick(made) + MINUTE)
    world.advance(60)
    assert tick_of(sent(jobs, 2)[1]) == next_tick(made) + MINUTE


def test_an_update_changes_what_it_names(client: Client, jobs: spoolrack.Queue) -> None:
    made = create(client, attributes={"kind": "x"}, group="g")
    changed = client.schedules.update("jobs", "s", body=b"new", group="")
    assert (changed.body, changed.group, changed.cron) == (b"new", "", made.cron)
    assert dict(changed.attributes) == {"kind": "x"}
    assert changed.next_tick_at == made.next_tick_at
    changed = client.schedules.update("jobs", "s", attributes={"raw": b"\x00"}, cron="0 0 1 1 *")
    assert (changed.body, dict(changed.attributes)) == (b"new", {"raw": b"\x00"})
    assert next_tick(changed) > next_tick(made)
    changed = client.schedules.update("jobs", "s", time_zone="Asia/Tokyo", attributes={})
    assert (changed.time_zone, changed.cron, dict(changed.attributes)) == (
        "Asia/Tokyo",
        "0 0 1 1 *",
        {},
    )
    assert client.schedules.get("jobs", "s") == changed


def test_a_repeated_creation_finds_the_schedule_and_another_content_is_refused(
    client: Client, jobs: spoolrack.Queue
) -> None:
    made = create(client)
    assert create(client) == create(client, cron=" * *  * * *") == made
    for changes in ({"cron": "0 * * * *"}, {"body": "other"}, {"time_zone": "Asia/Tokyo"}):
        with pytest.raises(ScheduleExists, match="jobs"):
            create(client, **changes)
    assert client.schedules.get("jobs", "s") == made


def test_a_deleted_schedule_is_gone(world: World, client: Client, jobs: spoolrack.Queue) -> None:
    create(client)
    client.schedules.delete("jobs", "s")
    calls: list[Callable[[str, str], object]] = [
        client.schedules.get,
        client.schedules.pause,
        client.schedules.resume,
        client.schedules.update,
        client.schedules.delete,
    ]
    for call in calls:
        with pytest.raises(ScheduleNotFound, match="jobs"):
            call("jobs", "s")
    assert list(client.schedules.list("jobs")) == []
    client.schedules.create("jobs", "other", MINUTELY)
    world.advance(60)
    assert [each.attributes["spoolrack-schedule"] for each in sent(jobs)] == ["other"]


def test_schedules_end_with_their_queue(client: Client, jobs: spoolrack.Queue) -> None:
    create(client)
    jobs.delete_queue()
    with pytest.raises(QueueNotFound):
        create(client)
    with pytest.raises(QueueNotFound):
        list(client.schedules.list("jobs"))
    client.create_queue("jobs")
    assert list(client.schedules.list("jobs")) == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"cron": "0 25 * * *"}, InvalidRequest),
        ({"cron": "* * * * * *"}, InvalidRequest),
        ({"time_zone": "Mars/Base"}, InvalidRequest),
        ({"body": b"a" * 65_537}, InvalidRequest),
        ({"group": "g" * 129}, InvalidMessage),
    ],
)
def test_a_content_that_can_not_be_is_refused(
    client: Client, jobs: spoolrack.Queue, changes: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        create(client, **changes)
    made = create(client)
    with pytest.raises(kind):
        client.schedules.update("jobs", "s", **changes)
    assert list(client.schedules.list("jobs")) == [made]


def test_a_schedule_may_have_the_largest_body(client: Client, jobs: spoolrack.Queue) -> None:
    for name, body in (("bytes", b"\xff" * 65_536), ("text", b"\x01" * 65_536)):
        assert client.schedules.create("jobs", name, MINUTELY, body).body == body


def test_a_name_that_can_not_be_is_refused(client: Client, jobs: spoolrack.Queue) -> None:
    for name in ("", "a/b", "a b", "x" * 81):
        with pytest.raises(InvalidRequest):
            client.schedules.create("jobs", name, MINUTELY)


def test_all_schedules_are_listed_by_queue_and_name(client: Client) -> None:
    made = []
    for queue in ("jobs-0", "jobs-1", "mail"):
        client.create_queue(queue)
        for name in ("b", "a"):
            client.schedules.create(queue, name, MINUTELY)
            made.append((queue, name))
    assert [(each.queue, each.name) for each in client.schedules.list()] == sorted(made)
    assert [each.name for each in client.schedules.list("mail")] == ["a", "b"]
