"""Schedules: messages that are sent at the times of a cron expression. `scheduler` sends the ticks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest, ScheduleNotFound
from spoolrack_store.model.schedule import MAX_SCHEDULES, is_schedule_name
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    PauseSchedule,
    QueuedSchedule,
    UpdateSchedule,
)

from . import cron
from .bounds import queue_name
from .caller import Caller, Permission, on_queue, on_some_queue
from .pages import Page, PagedList
from .store_access import StoreAccess

Change = TypeVar("Change", CreateSchedule, UpdateSchedule)

DEFAULT_ZONE: Final = "UTC"


def next_tick(queued: QueuedSchedule) -> int | None:
    """Return the Unix time of the first tick that was not sent; None for a paused schedule."""
    schedule = queued.schedule
    if schedule.is_paused:
        return None
    # A tick is a whole second, and one at the very moment of the creation is before it.
    after = schedule.since // 1_000
    if queued.last_tick is not None:
        after = max(after, queued.last_tick)
    return cron.next_tick(schedule.cron, schedule.time_zone, after)


def _read(text: str) -> tuple[str, str]:
    queue, _, name = text.partition(":")
    if not is_schedule_name(name):
        raise InvalidRequest(what="page_token", value=text, rule="must be one of this list")
    return queue_name(queue), name


SCHEDULES: Final = PagedList[QueuedSchedule, tuple[str, str]](
    method="ListSchedules",
    cursor=lambda queued: (queued.queue, queued.name),
    first=("", ""),
    read=_read,
    write=":".join,
    queues=lambda queued: (queued.queue,),
)


def _require_change(caller: Caller, queue: str) -> None:
    caller.require(Permission.MANAGE, queue)
    caller.require(Permission.SEND, queue)  # A schedule sends messages to its queue.


class Schedules:
    """The use cases of schedules. Lives in one event loop."""

    def __init__(self, access: StoreAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    @on_some_queue(Permission.MANAGE)
    async def create(self, caller: Caller, request: CreateSchedule) -> QueuedSchedule:
        """Create a schedule; raise `InvalidRequest` for an invalid time."""
        _require_change(caller, request.queue)
        return await self._access.submit(self._at(request, request.cron, request.time_zone))

    def _at(self, request: Change, text: str, zone: str) -> Change:
        """Return the request with the time as it is kept; raise `InvalidRequest` for an invalid
        time."""
        zone = zone or DEFAULT_ZONE
        cron.check(text, zone, self._clock.wall() // 1_000)
        return replace(request, cron=" ".join(text.split()), time_zone=zone)

    @on_queue(Permission.MANAGE)
    async def get(self, caller: Caller, queue: str, name: str) -> QueuedSchedule:
        listing = partial(self._access.store.schedules, queue=queue, limit=MAX_SCHEDULES)
        for each in await self._access.read(listing):
            if each.name == name:
                return each
        raise ScheduleNotFound(queue=queue, schedule=name)

    @on_some_queue(Permission.MANAGE)
    async def update(self, caller: Caller, request: UpdateSchedule) -> QueuedSchedule:
        """Change parts of a schedule; raise `InvalidRequest` for an invalid time."""
        _require_change(caller, request.queue)
        text, zone = request.cron, request.time_zone
        if text is not None or zone is not None:
            there = (await self.get(caller, request.queue, request.name)).schedule
            text = there.cron if text is None else text
            request = self._at(request, text, there.time_zone if zone is None else zone)
        return await self._access.submit(request)

    @on_some_queue(Permission.MANAGE)
    async def list(
        self, caller: Caller, *, queue: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[QueuedSchedule]:
        """Return a page of the schedules, those of `queue` if it is given, by queue and name."""
        caller.require_named(Permission.MANAGE, queue)
        listing = partial(self._access.store.schedules, queue=queue)
        allowed = caller.queues_for(Permission.MANAGE)
        return await self._access.read(SCHEDULES.page, listing, allowed, page_size, page_token, queue)

    @on_queue(Permission.MANAGE)
    async def pause(self, caller: Caller, queue: str, name: str, *, is_paused: bool) -> QueuedSchedule:
        """Pause a schedule, or resume it."""
        return await self._access.submit(PauseSchedule(queue=queue, name=name, is_paused=is_paused))

    @on_queue(Permission.MANAGE)
    async def delete(self, caller: Caller, queue: str, name: str) -> None:
        await self._access.submit(DeleteSchedule(queue=queue, name=name))
