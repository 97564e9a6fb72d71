"""The RPCs about redrives: dead letters that are moved back, in the background."""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.model.redrive_requests import Redrive, RedriveState

from . import convert
from .access.authorization import current_caller
from .app.redrives import Redrives
from .rpc import Context

_STATES: Final[Mapping[RedriveState, rpc.RedriveState.ValueType]] = {
    RedriveState.RUNNING: rpc.REDRIVE_STATE_RUNNING,
    RedriveState.DONE: rpc.REDRIVE_STATE_DONE,
    RedriveState.CANCELLED: rpc.REDRIVE_STATE_CANCELLED,
}


class RedriveService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(self, redrives: Redrives) -> None:
        self._redrives = redrives

    async def StartRedrive(
        self, request: rpc.StartRedriveRequest, context: Context
    ) -> rpc.StartRedriveResponse:
        started = await self._redrives.start(
            current_caller(),
            request.queue,
            destination=request.destination,
            source_queue=request.source_queue,
            ids=request.message_ids,
            rate=request.max_messages_per_second,
        )
        return rpc.StartRedriveResponse(redrive=_redrive(started))

    async def GetRedrive(
        self, request: rpc.GetRedriveRequest, context: Context
    ) -> rpc.GetRedriveResponse:
        redrive = await self._redrives.get(current_caller(), request.id)
        return rpc.GetRedriveResponse(redrive=_redrive(redrive))

    async def ListRedrives(
        self, request: rpc.ListRedrivesRequest, context: Context
    ) -> rpc.ListRedrivesResponse:
        page = await self._redrives.list(
            current_caller(),
            queue=request.queue,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return rpc.ListRedrivesResponse(
            redrives=map(_redrive, page.items), next_page_token=page.next_token
        )

    async def CancelRedrive(
        self, request: rpc.CancelRedriveRequest, context: Context
    ) -> rpc.CancelRedriveResponse:
        ended = await self._redrives.cancel(current_caller(), request.id)
        return rpc.CancelRedriveResponse(redrive=_redrive(ended))


def _redrive(redrive: Redrive) -> rpc.Redrive:
    return rpc.Redrive(
        id=redrive.id,
        queue=redrive.queue,
        destination=redrive.destination,
        source_queue=redrive.source_queue,
        max_messages_per_second=redrive.rate,
        state=_STATES[redrive.state],
        moved_count=redrive.moved,
        failed_count=redrive.failed,
        last_failure=redrive.last_failure,
        remaining_count=redrive.remaining,
        start_time=convert.timestamp(redrive.started_at),
        end_time=None if redrive.ended_at is None else convert.timestamp(redrive.ended_at),
    )
