"""Redrives in a root on this machine. All processes that have it open drive them, also this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from spoolrack_store.model import redrive_requests as ops
from spoolrack_store.store import Store

from .._redrive_values import Redrive, RedriveState
from .._values import Page, moment_of
from .folder_calls import FolderCalls

_STATES: Final[Mapping[ops.RedriveState, RedriveState]] = {
    ops.RedriveState.RUNNING: RedriveState.RUNNING,
    ops.RedriveState.DONE: RedriveState.DONE,
    ops.RedriveState.CANCELLED: RedriveState.CANCELLED,
}


class FolderRedrives:
    """`transports.RedriveTransport` over the calls of a root."""

    def __init__(self, calls: FolderCalls) -> None:
        self._calls = calls

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
        request = ops.StartRedrive(
            queue=queue,
            destination=destination,
            message_ids=[id.lower() for id in ids],
            source_queue=source_queue,
            max_messages_per_second=max_messages_per_second,
        )
        return _redrive(await self._calls.submit(request, timeout))

    async def get(self, id: str, *, queue: str, timeout: float) -> Redrive:
        return _redrive(await self._calls.work(lambda store: store.redrive(id.lower(), queue), timeout))

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Redrive]:
        return await self._calls.page(
            partial(Store.redrives, queue=queue, after=token),
            _redrive,
            lambda redrive: redrive.id,
            timeout,
        )

    async def cancel(self, id: str, *, queue: str, timeout: float) -> Redrive:
        return _redrive(
            await self._calls.submit(ops.CancelRedrive(id=id.lower(), queue=queue), timeout)
        )


def _redrive(redrive: ops.Redrive) -> Redrive:
    return Redrive(
        id=redrive.id,
        queue=redrive.queue,
        destination=redrive.destination,
        source_queue=redrive.source_queue,
        max_messages_per_second=redrive.max_messages_per_second,
        state=_STATES[redrive.state],
        moved_count=redrive.moved_count,
        failed_count=redrive.failed_count,
        last_failure=redrive.last_failure,
        remaining_count=redrive.remaining_count,
        started_at=moment_of(redrive.started_at),
        ended_at=None if redrive.ended_at is None else moment_of(redrive.ended_at),
    )
