"""Schedules, for threads: messages that a server sends at each tick of a cron expression."""

from __future__ import annotations

from collections.abc import Iterator

from .._runtime import run
from .._schedule_values import Schedule
from .._values import Attributes, Seconds
from ..aio import _schedules as aio_schedules
from .iteration import blocking_iterator


class Schedules:
    """The schedules of a server; `client.schedules` is one. `queue` is a name, or a handle."""

    def __init__(self, core: aio_schedules.Schedules) -> None:
        self._core = core

    def create(
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
        return run(
            self._core.create(
                queue,
                name,
                cron,
                body,
                time_zone=time_zone,
                attributes=attributes,
                group=group,
                timeout=timeout,
            )
        )

    def list(self, queue: object = "", *, timeout: Seconds | None = None) -> Iterator[Schedule]:
        """Return the schedules of a queue, or all, by queue and name, with last and next ticks."""
        return blocking_iterator(self._core.list(queue, timeout=timeout))

    def pause(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Send no message of a schedule until it is resumed; raises `ScheduleNotFound`."""
        return run(self._core.pause(queue, name, timeout=timeout))

    def resume(self, queue: object, name: str, *, timeout: Seconds | None = None) -> Schedule:
        """Resume a schedule: the ticks of the pause are skipped. Raises `ScheduleNotFound`."""
        return run(self._core.resume(queue, name, timeout=timeout))

    def delete(self, queue: object, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a schedule; raises `ScheduleNotFound`. Its messages stay."""
        run(self._core.delete(queue, name, timeout=timeout))
