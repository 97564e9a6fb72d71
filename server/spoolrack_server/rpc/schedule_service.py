"""The RPCs about schedules: messages that are sent at the times of a cron expression."""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from spoolrack.v1 import schedule_service_pb2 as rpc

from ..app.schedules import Schedules
from ..wire import convert
from .authorized_calls import Context, current_caller


class ScheduleService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def CreateSchedule(
        self, request: rpc.CreateScheduleRequest, context: Context
    ) -> rpc.CreateScheduleResponse:
        asked = request.schedule
        made = await self._schedules.create(
            current_caller(),
            asked.queue,
            asked.name,
            cron_text=asked.cron,
            time_zone=asked.time_zone,
            body=asked.body,
            attributes=convert.attributes(asked.attributes),
            group=asked.group,
        )
        return rpc.CreateScheduleResponse(schedule=convert.schedule(made))

    async def GetSchedule(
        self, request: rpc.GetScheduleRequest, context: Context
    ) -> rpc.GetScheduleResponse:
        found = await self._schedules.get(current_caller(), request.queue, request.name)
        return rpc.GetScheduleResponse(schedule=convert.schedule(found))

    async def UpdateSchedule(
        self, request: rpc.UpdateScheduleRequest, context: Context
    ) -> rpc.UpdateScheduleResponse:
        wanted = request.schedule
        changes = convert.schedule_changes(wanted, request.update_mask)
        updated = await self._schedules.update(current_caller(), wanted.queue, wanted.name, changes)
        return rpc.UpdateScheduleResponse(schedule=convert.schedule(updated))

    async def ListSchedules(
        self, request: rpc.ListSchedulesRequest, context: Context
    ) -> rpc.ListSchedulesResponse:
        page = await self._schedules.list(
            current_caller(),
            queue=request.queue,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return rpc.ListSchedulesResponse(
            schedules=map(convert.schedule, page.items), next_page_token=page.next_token
        )

    async def PauseSchedule(
        self, request: rpc.PauseScheduleRequest, context: Context
    ) -> rpc.PauseScheduleResponse:
        paused = await self._schedules.pause(
            current_caller(), request.queue, request.name, is_paused=True
        )
        return rpc.PauseScheduleResponse(schedule=convert.schedule(paused))

    async def ResumeSchedule(
        self, request: rpc.ResumeScheduleRequest, context: Context
    ) -> rpc.ResumeScheduleResponse:
        resumed = await self._schedules.pause(
            current_caller(), request.queue, request.name, is_paused=False
        )
        return rpc.ResumeScheduleResponse(schedule=convert.schedule(resumed))

    async def DeleteSchedule(
        self, request: rpc.DeleteScheduleRequest, context: Context
    ) -> rpc.DeleteScheduleResponse:
        await self._schedules.delete(current_caller(), request.queue, request.name)
        return rpc.DeleteScheduleResponse()
