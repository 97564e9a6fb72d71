"""Schedules: messages that are sent at the times of a cron expression. `scheduler` sends the ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest, ScheduleNotFound
from spoolrack_store.model.operations import Obstacle, Request
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

MaySend = Callable[[str, str], bool]
"""Returns whether the identity of this name, which isn't calling, may send to a queue."""


def anyone_may(identity: str, queue: str) -> bool:
    """Return True: for a store without callers."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """A schedule with its next tick, or with what keeps it from being sent."""

    queued: QueuedSchedule
    next_tick: int | None
    """Unix time in seconds of the first tick that was not sent; None: there is none, the schedule is
    paused, or it has obstacles."""
    obstacles: Sequence[Obstacle] = ()


def planned(queued: QueuedSchedule, may_send: MaySend) -> PlannedSchedule:
    """Plan a schedule. Raises nothing: what was valid when it was stored needn't be so now."""
    schedule = queued.schedule
    obstacles: list[tuple[str, str]] = []
    following = None
    if not schedule.paused:
        # A tick is a whole second, and one at the very moment of the creation is before it.
        after = schedule.since // 1_000
        if queued.last_tick is not None:
            after = max(after, queued.last_tick)
        try:
            following = cron.next_tick(schedule.cron, schedule.time_zone, after)
        except cron.UnusableTime as error:
            obstacles.append(("TIME_UNUSABLE", str(error)))
    if schedule.owner and not may_send(schedule.owner, queued.queue):
        obstacles.append(
            (
                "OWNER_NOT_PERMITTED",
                f"its owner {schedule.owner} may not send to {queued.queue} any more: give it the "
                "permission again, or have another caller update the schedule, who becomes its owner",
            )
        )
    if queued.is_too_large:
        obstacles.append(
            (
                "MESSAGE_TOO_LARGE",
                f"its body of {len(schedule.body)} bytes is above the queue's max_message_size: raise "
                "the setting, or give the schedule a smaller body",
            )
        )
    return PlannedSchedule(
        queued=queued,
        next_tick=None if obstacles else following,
        obstacles=[Obstacle(reason=reason, explanation=text) for reason, text in obstacles],
    )


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

    def __init__(self, access: StoreAccess, clock: Clock, may_send: MaySend = anyone_may) -> None:
        self._access = access
        self._clock = clock
        self._may_send = may_send

    async def _change(self, request: Request[QueuedSchedule]) -> PlannedSchedule:
        return planned(await self._access.submit(request), self._may_send)

    @on_some_queue(Permission.MANAGE)
    async def create(self, caller: Caller, request: CreateSchedule) -> PlannedSchedule:
        """Create a schedule; raise `InvalidRequest` for an invalid time."""
        _require_change(caller, request.queue)
        request = replace(request, owner=caller.name)
        return await self._change(self._at(request, request.cron, request.time_zone))

    def _at(self, request: Change, text: str, zone: str) -> Change:
        """Return the request with the time as it is kept; raise `InvalidRequest` for an invalid
        time."""
        zone = zone or DEFAULT_ZONE
        cron.check(text, zone, self._clock.wall() // 1_000)
        return replace(request, cron=" ".join(text.split()), time_zone=zone)

    @on_queue(Permission.MANAGE)
    async def get(self, caller: Caller, queue: str, name: str) -> PlannedSchedule:
        listing = partial(self._access.store.schedules, queue=queue, limit=MAX_SCHEDULES)
        for each in await self._access.read(listing):
            if each.name == name:
                return planned(each, self._may_send)
        raise ScheduleNotFound(queue=queue, schedule=name)

    @on_some_queue(Permission.MANAGE)
    async def update(self, caller: Caller, request: UpdateSchedule) -> PlannedSchedule:
        """Change parts of a schedule, and make the caller its owner; raise `InvalidRequest` for an
        invalid time."""
        _require_change(caller, request.queue)
        request = replace(request, owner=caller.name)
        text, zone = request.cron, request.time_zone
        if text is not None or zone is not None:
            there = (await self.get(caller, request.queue, request.name)).queued.schedule
            text = there.cron if text is None else text
            request = self._at(request, text, there.time_zone if zone is None else zone)
        return await self._change(request)

    @on_some_queue(Permission.MANAGE)
    async def list(
        self, caller: Caller, *, queue: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[PlannedSchedule]:
        """Return a page of the schedules, those of `queue` if it is given, by queue and name."""
        caller.require_named(Permission.MANAGE, queue)
        listing = partial(self._access.store.schedules, queue=queue)
        allowed = caller.queues_for(Permission.MANAGE)
        found = await self._access.read(SCHEDULES.page, listing, allowed, page_size, page_token, queue)
        return Page([planned(each, self._may_send) for each in found.items], found.next_token)

    @on_queue(Permission.MANAGE)
    async def pause(self, caller: Caller, queue: str, name: str, *, paused: bool) -> PlannedSchedule:
        """Pause a schedule, or resume it."""
        return await self._change(PauseSchedule(queue=queue, name=name, paused=paused))

    @on_queue(Permission.MANAGE)
    async def delete(self, caller: Caller, queue: str, name: str) -> None:
        await self._access.submit(DeleteSchedule(queue=queue, name=name))
