"""The RPCs about redrives: dead letters that are moved back, in the background."""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from spoolrack.v1 import redrive_service_pb2 as rpc

from ..app.redrives import Redrives
from ..wire import convert
from .authorized_calls import Context, current_caller


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
        return rpc.StartRedriveResponse(redrive=convert.redrive(started))

    async def GetRedrive(
        self, request: rpc.GetRedriveRequest, context: Context
    ) -> rpc.GetRedriveResponse:
        redrive = await self._redrives.get(current_caller(), request.id, queue=request.queue)
        return rpc.GetRedriveResponse(redrive=convert.redrive(redrive))

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
            redrives=map(convert.redrive, page.items), next_page_token=page.next_token
        )

    async def CancelRedrive(
        self, request: rpc.CancelRedriveRequest, context: Context
    ) -> rpc.CancelRedriveResponse:
        ended = await self._redrives.cancel(current_caller(), request.id, queue=request.queue)
        return rpc.CancelRedriveResponse(redrive=convert.redrive(ended))
