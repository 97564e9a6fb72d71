"""The RPCs about schedules: the store keeps them, `scheduler` sends their ticks."""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from functools import partial

from spoolrack.v1 import schedule_service_pb2 as rpc
from spoolrack_store.model import schedule_requests as ops
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.schedule import is_schedule_name

from . import convert, cron
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .page_tokens import PageTokens, page_size
from .rpc import Context
from .scheduler import next_tick
from .store_access import StoreAccess

DEFAULT_ZONE = "UTC"


class ScheduleService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(self, access: StoreAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    async def CreateSchedule(
        self, request: rpc.CreateScheduleRequest, context: Context
    ) -> rpc.CreateScheduleResponse:
        asked = request.schedule
        made = await self._access.submit(
            creation(
                self._clock,
                queue=convert.queue_name(asked.queue),
                name=asked.name,
                cron_text=asked.cron,
                time_zone=asked.time_zone,
                body=asked.body,
                attributes=convert.attributes(asked.attributes),
                group=asked.group,
            )
        )
        return rpc.CreateScheduleResponse(schedule=_schedule(made))

    async def ListSchedules(
        self, request: rpc.ListSchedulesRequest, context: Context
    ) -> rpc.ListSchedulesResponse:
        size, tokens = page_size(request.page_size), PageTokens("ListSchedules", request.queue)
        look = partial(
            shown,
            partial(
                self._access.store.schedules,
                queue=request.queue and convert.queue_name(request.queue),
            ),
            _place,
            lambda each: (each.queue,),
            queues_for(Permission.MANAGE),
            after=tokens.after(request.page_token, _read_place, ("", "")),
            limit=size + 1,
        )
        found = await self._access.read(look)
        return rpc.ListSchedulesResponse(
            schedules=[_schedule(each) for each in found[:size]],
            next_page_token=tokens.token(":".join(_place(found[size - 1])))
            if len(found) > size
            else "",
        )

    async def PauseSchedule(
        self, request: rpc.PauseScheduleRequest, context: Context
    ) -> rpc.PauseScheduleResponse:
        return rpc.PauseScheduleResponse(schedule=await self._pause(request, is_paused=True))

    async def ResumeSchedule(
        self, request: rpc.ResumeScheduleRequest, context: Context
    ) -> rpc.ResumeScheduleResponse:
        return rpc.ResumeScheduleResponse(schedule=await self._pause(request, is_paused=False))

    async def _pause(
        self, request: rpc.PauseScheduleRequest | rpc.ResumeScheduleRequest, *, is_paused: bool
    ) -> rpc.Schedule:
        queue = convert.queue_name(request.queue)
        asked = ops.PauseSchedule(queue=queue, name=request.name, is_paused=is_paused)
        return _schedule(await self._access.submit(asked))

    async def DeleteSchedule(
        self, request: rpc.DeleteScheduleRequest, context: Context
    ) -> rpc.DeleteScheduleResponse:
        queue = convert.queue_name(request.queue)
        await self._access.submit(ops.DeleteSchedule(queue=queue, name=request.name))
        return rpc.DeleteScheduleResponse()


def creation(
    clock: Clock,
    *,
    queue: str,
    name: str,
    cron_text: str,
    time_zone: str,
    body: bytes,
    attributes: dict[str, str | bytes],
    group: str,
) -> ops.CreateSchedule:
    """Return the request for a schedule; raise `InvalidRequest` for an invalid time."""
    zone = time_zone or DEFAULT_ZONE
    cron.check(cron_text, zone, clock.wall() // 1_000)
    return ops.CreateSchedule(
        queue=queue,
        name=name,
        cron=" ".join(cron_text.split()),
        time_zone=zone,
        body=body,
        attributes=attributes,
        group=group,
    )


def _place(each: ops.QueuedSchedule) -> tuple[str, str]:
    return each.queue, each.name


def _read_place(text: str) -> tuple[str, str]:
    queue, _, name = text.partition(":")
    if not is_schedule_name(name):
        raise InvalidRequest(what="page_token", value=text, rule="must be one of this list")
    return convert.queue_name(queue), name


def _schedule(each: ops.QueuedSchedule) -> rpc.Schedule:
    schedule, following = each.schedule, next_tick(each)
    told = rpc.Schedule(
        queue=each.queue,
        name=each.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        body=schedule.body,
        group=schedule.group,
        paused=schedule.is_paused,
        create_time=convert.timestamp(schedule.created_at),
    )
    for name, value in schedule.attributes.items():
        if isinstance(value, str):
            told.attributes[name].string_value = value
        else:
            told.attributes[name].binary_value = value
    if each.last_tick is not None:
        told.last_tick_time.CopyFrom(convert.timestamp(Millis(each.last_tick * 1_000)))
    if following is not None:
        told.next_tick_time.CopyFrom(convert.timestamp(Millis(following * 1_000)))
    return told
