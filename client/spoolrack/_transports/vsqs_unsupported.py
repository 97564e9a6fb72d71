"""Operations that a vsqs folder lacks: each is refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from .._redrive_values import Redrive
from .._reservation_values import CommitResult, Reservation
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import Outgoing, Page
from ..errors import Unsupported


class NoStages:
    """`transports.StagingTransport` that refuses all."""

    async def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Sequence[Outgoing],
        *,
        time_to_live: float | None,
        timeout: float,
    ) -> StageResult:
        _no_stages()

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Sequence[str],
        *,
        epoch_retention: float | None,
        timeout: float,
    ) -> PublishResult:
        _no_stages()

    async def abort(self, stage: str, *, timeout: float) -> int:
        _no_stages()

    async def list_stages(self, *, token: str, timeout: float) -> Page[StageInfo]:
        _no_stages()


class NoReservations:
    """`transports.ReservationTransport` that refuses all."""

    async def reserve(
        self,
        queue: str,
        stream: str,
        sequence_number: int,
        *,
        max_messages: int,
        max_bytes: int,
        visibility_timeout: float | None,
        wait: float,
        timeout: float,
    ) -> Reservation | None:
        _no_reservations()

    async def extend(
        self, stream: str, sequence_number: int, *, visibility_timeout: float | None, timeout: float
    ) -> Reservation:
        _no_reservations()

    def read(self, stream: str, sequence_number: int, *, begin: int, end: int) -> NoReturn:
        _no_reservations()

    async def commit(self, stream: str, last_sequence_number: int, *, timeout: float) -> CommitResult:
        _no_reservations()

    async def release(self, stream: str, sequence_number: int, *, timeout: float) -> None:
        _no_reservations()

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Reservation]:
        _no_reservations()


class NoRedrives:
    """`transports.RedriveTransport` that refuses all."""

    async def start(
        self,
        queue: str,
        *,
        destination: str,
        ids: Sequence[str],
        source_queue: str,
        max_messages_per_second: int,
        timeout: float,
    ) -> Redrive:
        _no_redrives()

    async def get(self, id: str, *, timeout: float) -> Redrive:
        _no_redrives()

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Redrive]:
        _no_redrives()

    async def cancel(self, id: str, *, timeout: float) -> Redrive:
        _no_redrives()


def _no_stages() -> NoReturn:
    raise Unsupported(
        "A vsqs folder has no stages, so a batch can't appear in it all at once: send the messages "
        "one by one, or use file:///root."
    )


def _no_reservations() -> NoReturn:
    raise Unsupported(
        "A vsqs folder has no reservations: receive and delete its messages, or use file:///root."
    )


def _no_redrives() -> NoReturn:
    raise Unsupported(
        "A vsqs folder has no dead letters, so there is nothing to redrive: use file:///root."
    )
