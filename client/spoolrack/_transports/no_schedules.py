"""Schedules of transports without a server: each operation is refused, with an error that names the
alternative."""

from __future__ import annotations

from typing import NoReturn

from .._schedule_values import Schedule, SchedulePage
from .._values import Outgoing
from ..errors import Unsupported


class NoSchedules:
    """`transports.ScheduleTransport` that refuses all."""

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
        _refuse()

    async def list_schedules(
        self, *, queue: str, token: str, limit: int, timeout: float
    ) -> SchedulePage:
        _refuse()

    async def pause(self, queue: str, name: str, *, timeout: float) -> Schedule:
        _refuse()

    async def resume(self, queue: str, name: str, *, timeout: float) -> Schedule:
        _refuse()

    async def delete(self, queue: str, name: str, *, timeout: float) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise Unsupported(
        "Schedules need a server, which looks at the clock: connect to one, such as `spoolrack serve`."
    )
