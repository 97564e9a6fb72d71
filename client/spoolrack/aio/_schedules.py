"""Schedules: messages that a server sends at each tick of a cron expression."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .. import _arguments as arguments
from .._call_values import (
    CreateSchedule,
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from .._core.pagination import items
from .._core.resource import Resource
from .._schedule_values import Schedule
from .._values import Attributes, Seconds


class Schedules(Resource[Any]):
    """The schedules of a server; `client.schedules` is one."""

    async def create(
        self,
        queue: object,
        name: str,
        cron: str,
        body: bytes | str = b"",
        *,
        time_zone: str = "UTC",
        attributes: Attributes | None = None,
        group: str = "",
        timeout: Seconds | None = None,
    ) -> Schedule:
        """Send a message at each tick of `cron`, five fields as in crontab(5), in `time_zone`.

        Each tick is sent once, whatever crashes. A repetition with the same content is a success; with
        another one it raises `ScheduleExists`. A server looks at the clock: a folder has no schedules.
        """
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        arguments.text("cron", cron)
        arguments.text("time_zone", time_zone)
        given: Attributes = {} if attributes is None else attributes
        arguments.attributes(given)
        # No trace: that of the creation is not the messages'.
        request = CreateSchedule(
            queue=place,
            name=name,
            cron=cron,
            time_zone=time_zone,
            body=arguments.body("body", body),
            attributes=given,
            group=arguments.text("group", group),
        )
        return await self._context.ask(request, timeout)

    async def get(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Return a schedule, with its last and next ticks; raises `ScheduleNotFound`."""
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.ask(GetSchedule(queue=place, name=name), timeout)

    async def update(
        self,
        queue: object,
        name: str,
        *,
        cron: str | None = None,
        time_zone: str | None = None,
        body: bytes | str | None = None,
        attributes: Attributes | None = None,
        group: str | None = None,
        timeout: Seconds | None = None,
    ) -> Schedule:
        """Change a schedule: what is None stays. Raises `ScheduleNotFound`.

        With another `cron` or `time_zone` the first tick is the first one from now on.
        """
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        texts = {"cron": cron, "time_zone": time_zone, "group": group}
        for what, text in texts.items():
            if text is not None:
                arguments.text(what, text)
        if attributes is not None:
            arguments.attributes(attributes)
        content = None if body is None else arguments.body("body", body)
        request = UpdateSchedule(
            queue=place,
            name=name,
            cron=cron,
            time_zone=time_zone,
            body=content,
            attributes=attributes,
            group=group,
        )
        return await self._context.ask(request, timeout)

    def list(self, queue: object = "", *, timeout: Seconds | None = None) -> AsyncIterator[Schedule]:
        """Return the schedules of a queue, or all, by queue and name, with last and next ticks."""
        request = ListSchedules(queue=arguments.queue_name(queue))
        return items(self._context, request, arguments.timeout(timeout))

    async def pause(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Send no message of a schedule until it is resumed; raises `ScheduleNotFound`."""
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.ask(PauseSchedule(queue=place, name=name), timeout)

    async def resume(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Resume a schedule: the ticks of the pause are skipped. Raises `ScheduleNotFound`."""
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.ask(ResumeSchedule(queue=place, name=name), timeout)

    async def delete(self, queue: object, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a schedule; raises `ScheduleNotFound`. Its messages stay."""
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        await self._context.ask(DeleteSchedule(queue=place, name=name), timeout)
