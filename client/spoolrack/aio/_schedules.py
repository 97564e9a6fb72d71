"""Schedules: messages that a server sends at each tick of a cron expression."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .. import _arguments as arguments
from .._core.pagination import items
from .._core.resource import Resource
from .._schedule_values import Schedule
from .._values import Attributes, Outgoing, Seconds


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
        schedules = self._context.transport.schedules
        place = arguments.queue_name(queue)
        arguments.text("name", name)
        arguments.text("cron", cron)
        arguments.text("time_zone", time_zone)
        given: Attributes = {} if attributes is None else attributes
        arguments.attributes(given)
        # No trace: that of the creation is not the messages'.
        message = Outgoing(
            body=arguments.body("body", body), attributes=given, group=arguments.text("group", group)
        )
        return await self._context.call(
            schedules.create, timeout, place, name, cron, message, time_zone=time_zone
        )

    async def get(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Return a schedule, with its last and next ticks; raises `ScheduleNotFound`."""
        schedules, place = self._context.transport.schedules, arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.call(schedules.get, timeout, place, name)

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
        schedules, place = self._context.transport.schedules, arguments.queue_name(queue)
        arguments.text("name", name)
        texts = {"cron": cron, "time_zone": time_zone, "group": group}
        for what, text in texts.items():
            if text is not None:
                arguments.text(what, text)
        if attributes is not None:
            arguments.attributes(attributes)
        content = None if body is None else arguments.body("body", body)
        return await self._context.call(
            schedules.update,
            timeout,
            place,
            name,
            cron=cron,
            time_zone=time_zone,
            body=content,
            attributes=attributes,
            group=group,
        )

    def list(self, queue: object = "", *, timeout: Seconds | None = None) -> AsyncIterator[Schedule]:
        """Return the schedules of a queue, or all, by queue and name, with last and next ticks."""
        fetch, place = self._context.transport.schedules.list_schedules, arguments.queue_name(queue)
        return items(self._context, fetch, arguments.timeout(timeout), queue=place)

    async def pause(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Send no message of a schedule until it is resumed; raises `ScheduleNotFound`."""
        schedules, place = self._context.transport.schedules, arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.call(schedules.pause, timeout, place, name)

    async def resume(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Resume a schedule: the ticks of the pause are skipped. Raises `ScheduleNotFound`."""
        schedules, place = self._context.transport.schedules, arguments.queue_name(queue)
        arguments.text("name", name)
        return await self._context.call(schedules.resume, timeout, place, name)

    async def delete(self, queue: object, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a schedule; raises `ScheduleNotFound`. Its messages stay."""
        schedules, place = self._context.transport.schedules, arguments.queue_name(queue)
        arguments.text("name", name)
        await self._context.call(schedules.delete, timeout, place, name)
