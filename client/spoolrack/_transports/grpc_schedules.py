"""Schedules over gRPC."""

from __future__ import annotations

from typing import cast

from .._schedule_values import Schedule
from .._values import Attributes, Obstacle, Outgoing, Page, moment_of
from ..v1 import schedule_service_pb2 as pb
from . import grpc_values as convert
from .grpc_calls import ChannelCalls


class GrpcSchedules:
    """`transports.ScheduleTransport` over the calls of a channel."""

    def __init__(self, calls: ChannelCalls) -> None:
        self._calls = calls

    async def create(
        self,
        queue: str,
        name: str,
        cron: str,
        message: Outgoing,
        *,
        time_zone: str,
        timeout: float,
    ) -> Schedule:
        schedule = pb.Schedule(
            queue=queue,
            name=name,
            cron=cron,
            time_zone=time_zone,
            body=cast(bytes, message.body),
            attributes=convert.outgoing(message).attributes,
            group=message.group,
        )
        response = await self._calls.unary(
            self._calls.stub.CreateSchedule, pb.CreateScheduleRequest(schedule=schedule), timeout
        )
        return _schedule(response.schedule)

    async def get(self, queue: str, name: str, *, timeout: float) -> Schedule:
        request = pb.GetScheduleRequest(queue=queue, name=name)
        response = await self._calls.unary(self._calls.stub.GetSchedule, request, timeout)
        return _schedule(response.schedule)

    async def update(
        self,
        queue: str,
        name: str,
        *,
        cron: str | None,
        time_zone: str | None,
        body: bytes | None,
        attributes: Attributes | None,
        group: str | None,
        timeout: float,
    ) -> Schedule:
        request = pb.UpdateScheduleRequest(
            schedule=pb.Schedule(
                queue=queue,
                name=name,
                cron=cron or "",
                time_zone=time_zone or "",
                group=group or "",
                body=body or b"",
                attributes={key: convert.attribute(each) for key, each in (attributes or {}).items()},
            )
        )
        changes = {
            "cron": cron,
            "time_zone": time_zone,
            "body": body,
            "attributes": attributes,
            "group": group,
        }
        request.update_mask.paths.extend(each for each, value in changes.items() if value is not None)
        response = await self._calls.unary(self._calls.stub.UpdateSchedule, request, timeout)
        return _schedule(response.schedule)

    async def list_schedules(self, *, queue: str, token: str, timeout: float) -> Page[Schedule]:
        request = pb.ListSchedulesRequest(queue=queue, page_token=token)
        response = await self._calls.unary(self._calls.stub.ListSchedules, request, timeout)
        return Page(
            items=[_schedule(each) for each in response.schedules],
            next_token=response.next_page_token,
        )

    async def pause(self, queue: str, name: str, *, timeout: float) -> Schedule:
        request = pb.PauseScheduleRequest(queue=queue, name=name)
        response = await self._calls.unary(self._calls.stub.PauseSchedule, request, timeout)
        return _schedule(response.schedule)

    async def resume(self, queue: str, name: str, *, timeout: float) -> Schedule:
        request = pb.ResumeScheduleRequest(queue=queue, name=name)
        response = await self._calls.unary(self._calls.stub.ResumeSchedule, request, timeout)
        return _schedule(response.schedule)

    async def delete(self, queue: str, name: str, *, timeout: float) -> None:
        request = pb.DeleteScheduleRequest(queue=queue, name=name)
        await self._calls.unary(self._calls.stub.DeleteSchedule, request, timeout)


def _schedule(schedule: pb.Schedule) -> Schedule:
    def moment(field: str) -> int:
        return convert.millis(getattr(schedule, field))

    return Schedule(
        queue=schedule.queue,
        name=schedule.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        body=schedule.body,
        attributes=convert.attributes(schedule),
        group=schedule.group,
        paused=schedule.paused,
        created_at=moment_of(moment("create_time")),
        last_tick_at=moment_of(moment("last_tick_time"))
        if schedule.HasField("last_tick_time")
        else None,
        next_tick_at=moment_of(moment("next_tick_time"))
        if schedule.HasField("next_tick_time")
        else None,
        owner=schedule.owner,
        obstacles=[
            Obstacle(reason=each.reason, explanation=each.explanation) for each in schedule.obstacles
        ],
    )
