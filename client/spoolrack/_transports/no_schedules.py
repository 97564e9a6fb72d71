"""Schedules of transports without a server: each operation is refused, and the error says what to do
instead."""

from __future__ import annotations

from typing import NoReturn

from .._schedule_values import Schedule
from .._values import Outgoing, Page
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

    async def list_schedules(self, *, queue: str, token: str, timeout: float) -> Page[Schedule]:
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
