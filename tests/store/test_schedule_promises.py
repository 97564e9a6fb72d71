"""Promises of schedules: a tick is sent once, whichever process asks, and whatever ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.errors import (
    DamagedSettings,
    InvalidRequest,
    QueueFull,
    ScheduleExists,
    ScheduleNotFound,
    StoreError,
)
from spoolrack_store.model.operations import DeleteQueue, UpdateQueue
from spoolrack_store.model.schedule import MAX_BODY, MAX_SCHEDULES
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    QueuedSchedule,
    UpdateSchedule,
)
from spoolrack_store.model.sealed import seal, unseal
from spoolrack_store.model.settings import Record, decode, encode

from tests.store.stage_rig import START, Rig

TICK = START // 1_000 + 60
NIGHTLY = CreateSchedule(
    queue="q",
    name="nightly",
    cron="0 3 * * *",
    time_zone="Europe/Berlin",
    body=b"go",
    attributes={"text": "a", "bytes": b"\xff"},
    group="g",
)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def create(rig: Rig, **changes: Any) -> QueuedSchedule:
    made = rig.ask(replace(NIGHTLY, **changes))
    assert isinstance(made, QueuedSchedule)
    return made


def fire(rig: Rig, made: QueuedSchedule, tick: int = TICK, **named: Any) -> bool:
    asked = Fire(queue=made.queue, name=made.name, token=made.schedule.token, tick=tick)
    sent = rig.ask(asked, **named)
    assert isinstance(sent, bool)
    return sent


def listed(rig: Rig, queue: str = "", **named: Any) -> list[str]:
    return [each.name for each in rig.engine.schedules.listed(queue, ("", ""), 99, **named)]


def test_a_change_replaces_what_it_names_and_a_changed_time_has_no_tick_before_it(rig: Rig) -> None:
    made = create(rig)
    rig.clock.advance(120_000)
    renewed = rig.ask(UpdateSchedule(queue="q", name="nightly", body=b"new", group=""))
    assert renewed.schedule == replace(made.schedule, body=b"new", group="")
    moved = rig.ask(UpdateSchedule(queue="q", name="nightly", cron="0 4 * * *"))
    assert (moved.schedule.cron, moved.schedule.body) == ("0 4 * * *", b"new")
    assert not fire(rig, made)
    rig.clock.advance(60_000)
    assert fire(rig, made, TICK + 120)
    wrong = UpdateSchedule(queue="q", name="nightly", body=bytes(MAX_BODY + 1))
    missing = UpdateSchedule(queue="q", name="none", body=b"")
    for refused, error in ((wrong, InvalidRequest), (missing, ScheduleNotFound)):
        with pytest.raises(error):
            rig.ask(refused)


def test_a_tick_is_sent_once_and_an_earlier_one_never(rig: Rig) -> None:
    made = create(rig)
    assert fire(rig, made)
    assert not fire(rig, made)
    assert not fire(rig, made, TICK - 1)
    asked = Fire(queue="q", name="nightly", token=made.schedule.token, tick=TICK + 60)
    assert rig.commit(asked, asked, asked) == [True, False, False]
    rig.settle()
    assert rig.receive() == [b"go"] * 2
    assert rig.staged() == []


def test_the_last_tick_is_remembered_as_long_as_the_schedule_is_there(rig: Rig) -> None:
    made = create(rig)
    fire(rig, made)
    rig.clock.advance(500 * DAY)
    rig.settle()
    assert not fire(rig, made)
    assert rig.names("published") == [f"schedule-{made.schedule.token}.{TICK}"]
    rig.ask(DeleteSchedule(queue="q", name="nightly"))
    rig.clock.advance(1_000)
    rig.settle()
    assert rig.names("published") == []


def test_the_last_tick_of_a_deleted_queue_is_forgotten(rig: Rig) -> None:
    fire(rig, create(rig))
    rig.ask(DeleteQueue(name="q"))
    rig.clock.advance(500 * DAY)
    rig.settle()
    assert rig.names("published") == []


def test_nothing_is_sent_after_a_schedule_is_deleted_or_made_anew(rig: Rig) -> None:
    made = create(rig)
    rig.ask(DeleteSchedule(queue="q", name="nightly"))
    with pytest.raises(ScheduleNotFound):
        fire(rig, made)
    again = create(rig)
    assert again.schedule.token != made.schedule.token
    assert not fire(rig, made)
    assert fire(rig, again)


def test_a_repeated_creation_finds_the_schedule_and_another_content_is_refused(rig: Rig) -> None:
    made = create(rig)
    assert create(rig) == made
    for part in ({"cron": "* * * * *"}, {"time_zone": "UTC"}, {"body": b""}, {"group": "h"}):
        with pytest.raises(ScheduleExists, match=f"with another {next(iter(part))}"):
            create(rig, **part)
    with pytest.raises(ScheduleExists, match="with another attributes"):
        create(rig, attributes={})


def test_settings_and_labels_of_a_queue_leave_its_schedules_alone(rig: Rig) -> None:
    create(rig)
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 5}, labels={"a": "b"}))
    assert listed(rig) == ["nightly"]
    rig.restart()
    assert listed(rig) == ["nightly"]
    assert rig.engine.catalog.records["q"].labels == {"a": "b"}


def test_a_full_queue_takes_a_tick_once_it_has_room(rig: Rig) -> None:
    made = create(rig)
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 1}))
    assert fire(rig, made)
    rig.settle()
    with pytest.raises(QueueFull):
        fire(rig, made, TICK + 60)
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 2}))
    assert fire(rig, made, TICK + 60)
    rig.settle()
    assert rig.receive() == [b"go"] * 2


@pytest.mark.parametrize(
    "part",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "a" * 65},
        {"cron": ""},
        {"cron": "*" * 257},
        {"time_zone": ""},
        {"body": b"x" * (MAX_BODY + 1)},
        {"attributes": {"": "x"}},
        {"group": "g" * 129},
    ],
)
def test_a_schedule_that_can_be_none_is_refused(rig: Rig, part: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        create(rig, **part)
    assert listed(rig) == []


def test_a_queue_has_64_schedules_at_most(rig: Rig) -> None:
    for number in range(MAX_SCHEDULES):
        create(rig, name=f"n{number}")
    with pytest.raises(InvalidRequest, match="must be from 0 to 64"):
        create(rig, name="more")
    rig.restart()
    assert len(listed(rig)) == MAX_SCHEDULES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"cron": "0 3 * * *"', '"cron": 5'),
        ('"token": "', '"token": "/'),
        ('"since": ', '"since": -'),
        ('"body": "', '"body": "!'),
        ('"paused": false', '"paused": 0'),
        ('"nightly"', '"../nightly"'),
    ],
)
def test_a_settings_file_with_a_schedule_that_is_none_is_damaged(
    rig: Rig, before: str, after: str
) -> None:
    schedules = {"nightly": create(rig).schedule}
    record = Record(settings=rig.queues["q"], created_at=Millis(START), schedules=schedules)
    content = encode(record)
    assert decode(content, "f") == record
    values = json.dumps(unseal(content))
    assert before in values
    with pytest.raises(DamagedSettings):
        decode(seal(json.loads(values.replace(before, after))), "f")
