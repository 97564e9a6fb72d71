"""Schedules: they are stored in their queue's settings file, and each tick is a publication.

A tick is staged and published in one commit, under the lock, and its epoch is its Unix time in seconds.
So it is sent once, whichever processes ask and whatever crashes between: the manifest says that it was
sent, and stays as long as the schedule is there. A chunk without a manifest is found by the next try.
When a tick has come is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Final

from ..model.clock import MINUTE, Clock, Millis, second_text
from ..model.errors import InvalidRequest, ScheduleExists, ScheduleNotFound, StoreError
from ..model.field_checks import check_number, check_word
from ..model.message_content import check_content, check_group
from ..model.receipts import make_token
from ..model.schedule import (
    MAX_BODY,
    MAX_NAME,
    MAX_SCHEDULES,
    MAX_TEXT,
    Schedule,
    attributes_of,
)
from ..model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    PauseSchedule,
    QueuedSchedule,
    UpdateSchedule,
)
from ..model.stage_requests import MIN_EPOCH_RETENTION, Publish, Stage
from .catalog import Catalog, QueueRecord
from .stages import Stages

LIFE_OF_A_TICK: Final = Millis(10 * MINUTE)
"""A tick that was staged, and not published before a crash, is dropped after so long."""
_PARTS: Final = ("cron", "time_zone", "body", "attributes", "group")
"""Parts that a repeated creation must have again, and an update may change."""


class ScheduleCatalog:
    """The schedules of all queues. Not thread-safe."""

    def __init__(self, catalog: Catalog, stages: Stages, clock: Clock, random: Random) -> None:
        self._catalog = catalog
        self._stages = stages
        self._clock = clock
        self._random = random

    def create(self, request: CreateSchedule) -> QueuedSchedule:
        record = self._catalog.require_open(request.queue)
        schedule = record.schedules.get(request.name)
        if schedule is not None:
            for part in _PARTS:
                if getattr(schedule, part) != getattr(request, part):
                    raise ScheduleExists(queue=record.name, schedule=request.name, differing=part)
            return self._queued(record, request.name, schedule)
        count = len(record.schedules) + 1
        check_number(f"the number of schedules of {record.name}", count, 0, MAX_SCHEDULES)
        _check(record, request)
        now = self._clock.wall()
        made = Schedule(
            cron=request.cron,
            time_zone=request.time_zone,
            body=request.body,
            attributes=dict(request.attributes),
            group=request.group,
            created_at=now,
            since=now,
            token=make_token(self._random),
            owner=request.owner,
        )
        self._catalog.change_schedules(record, {**record.schedules, request.name: made})
        return self._queued(record, request.name, made)

    def update(self, request: UpdateSchedule) -> QueuedSchedule:
        record, schedule = self._require(request.queue, request.name)
        given = {part: getattr(request, part) for part in _PARTS}
        changes = {part: value for part, value in given.items() if value is not None}
        changed = replace(schedule, **changes)
        wanted = {part: getattr(changed, part) for part in _PARTS}
        _check(record, CreateSchedule(queue=record.name, name=request.name, **wanted))
        if (changed.cron, changed.time_zone) != (schedule.cron, schedule.time_zone):
            # The new time has no tick in the past, and the old one none any more.
            changed = replace(changed, since=self._clock.wall())
        if request.owner is not None:
            changed = replace(changed, owner=request.owner)
        if changed != schedule:
            self._catalog.change_schedules(record, {**record.schedules, request.name: changed})
        return self._queued(record, request.name, changed)

    def pause(self, request: PauseSchedule) -> QueuedSchedule:
        record, schedule = self._require(request.queue, request.name)
        if schedule.paused is not request.paused:
            since = schedule.since if request.paused else self._clock.wall()
            schedule = replace(schedule, paused=request.paused, since=since)
            self._catalog.change_schedules(record, {**record.schedules, request.name: schedule})
        return self._queued(record, request.name, schedule)

    def delete(self, request: DeleteSchedule) -> None:
        record, _ = self._require(request.queue, request.name)
        left = {name: each for name, each in record.schedules.items() if name != request.name}
        self._catalog.change_schedules(record, left)

    def fire(self, requests: Sequence[Fire]) -> list[bool | StoreError]:
        """Send ticks; the answers are valid once the commit is synced. All of them are synced at
        once."""
        publications: dict[int, Publish] = {}
        outcomes: list[bool | StoreError] = [False] * len(requests)
        for place, request in enumerate(requests):
            try:
                publication = self._stage(request)
            except StoreError as error:
                outcomes[place] = error
            else:
                if publication is not None:
                    publications[place] = publication
        self._stages.make_durable([name for each in publications.values() for name in each.stages])
        for place, publication in publications.items():
            try:
                outcomes[place] = not self._stages.publish(publication).duplicate
            except StoreError as error:
                outcomes[place] = error
        return outcomes

    def listed(self, queue: str, after: tuple[str, str], limit: int) -> list[QueuedSchedule]:
        """Return up to `limit` schedules above the queue and name `after`, in order."""
        records = self._catalog.records
        if queue:
            names: Iterable[str] = (self._catalog.require(queue).name,)
        else:
            names = self._catalog.scheduled.since(after[0])
        found = (
            (place, name)
            for place in names
            for name in sorted(records[place].schedules)
            if (place, name) > after
        )
        return [
            self._queued(records[place], name, records[place].schedules[name])
            for place, name in islice(found, limit)
        ]

    def _stage(self, request: Fire) -> Publish | None:
        """Stage the message of a tick; None if it isn't to be sent."""
        record, schedule = self._require(request.queue, request.name)
        last = self._stages.last_epoch(schedule.writer)
        is_late = last is not None and request.tick <= last
        if schedule.paused or schedule.token != request.token or is_late:
            return None
        if request.tick * 1_000 <= schedule.since:
            return None
        stage = f"{schedule.writer}-{request.tick}"
        self._stages.stage(
            Stage(
                stage=stage,
                chunk_number=0,
                queue=record.name,
                bodies=[schedule.body],
                attributes={0: attributes_of(request.name, schedule, second_text(request.tick))},
                groups={0: schedule.group} if schedule.group else {},
                time_to_live=LIFE_OF_A_TICK,
                is_tick=True,
            )
        )
        return Publish(
            writer=schedule.writer,
            epoch=request.tick,
            stages=[stage],
            epoch_retention=MIN_EPOCH_RETENTION,
            is_tick=True,
        )

    def _require(self, queue: str, name: str) -> tuple[QueueRecord, Schedule]:
        record = self._catalog.require(queue)
        schedule = record.schedules.get(name)
        if schedule is None:
            raise ScheduleNotFound(queue=queue, schedule=name)
        return record, schedule

    def _queued(self, record: QueueRecord, name: str, schedule: Schedule) -> QueuedSchedule:
        return QueuedSchedule(
            queue=record.name,
            name=name,
            schedule=schedule,
            last_tick=self._stages.last_epoch(schedule.writer),
            is_too_large=len(schedule.body) > record.settings.max_message_size,
        )


def _check(record: QueueRecord, request: CreateSchedule) -> None:
    check_word("name", request.name, MAX_NAME)
    for what, text in (("cron", request.cron), ("time_zone", request.time_zone)):
        if not 1 <= len(text) <= MAX_TEXT:
            raise InvalidRequest(
                what=what, value=text[:MAX_TEXT], rule=f"must be 1 to {MAX_TEXT} characters"
            )
    check_number("the bytes of body", len(request.body), 0, MAX_BODY)
    moment = Millis(0)
    made = Schedule(
        cron="", time_zone="", attributes=request.attributes, created_at=moment, since=moment, token=""
    )
    attributes = attributes_of(request.name, made, "2026-11-23T00:00:00Z")
    check_content(record.name, len(request.body), attributes, record.settings.max_message_size)
    if request.group:
        check_group(request.group)
