"""The RPCs about redrives: dead letters that are moved back, in the background.

The store does the work, and continues it after a restart; here its requests are checked and its answers
converted. No call waits for the end of a redrive: a client polls it.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.model import redrive_requests as ops
from spoolrack_store.model.errors import InvalidRequest, RedriveNotFound
from spoolrack_store.model.message_ids import is_id

from . import convert
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .page_tokens import PageTokens, page_size
from .rpc import Context
from .store_access import StoreAccess

_STATES: Final[Mapping[ops.RedriveState, rpc.RedriveState.ValueType]] = {
    ops.RedriveState.RUNNING: rpc.REDRIVE_STATE_RUNNING,
    ops.RedriveState.DONE: rpc.REDRIVE_STATE_DONE,
    ops.RedriveState.CANCELLED: rpc.REDRIVE_STATE_CANCELLED,
}


class RedriveService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def StartRedrive(
        self, request: rpc.StartRedriveRequest, context: Context
    ) -> rpc.StartRedriveResponse:
        return rpc.StartRedriveResponse(
            redrive=_redrive(await self._access.submit(_operation(request)))
        )

    async def GetRedrive(
        self, request: rpc.GetRedriveRequest, context: Context
    ) -> rpc.GetRedriveResponse:
        found = await self._find(_id(request.id), Permission.MONITOR)
        return rpc.GetRedriveResponse(redrive=_redrive(found))

    async def _find(self, id: str, permission: Permission) -> ops.Redrive:
        """Return a redrive of a queue on which the caller has this permission; any other is not
        found."""
        found = await self._access.read(self._access.store.redrive, id)
        allowed = queues_for(permission)
        if allowed is not None and not allowed(found.queue):
            raise RedriveNotFound(redrive=id)
        return found

    async def ListRedrives(
        self, request: rpc.ListRedrivesRequest, context: Context
    ) -> rpc.ListRedrivesResponse:
        size, tokens = page_size(request.page_size), PageTokens("ListRedrives", request.queue)
        look = partial(
            shown,
            partial(
                self._access.store.redrives,
                queue=request.queue and convert.queue_name(request.queue),
            ),
            lambda redrive: redrive.id,
            lambda redrive: (redrive.queue,),
            queues_for(Permission.MONITOR),
            after=tokens.after(request.page_token, _id, ""),
            limit=size + 1,
        )
        found = await self._access.read(look)
        return rpc.ListRedrivesResponse(
            redrives=[_redrive(redrive) for redrive in found[:size]],
            next_page_token=tokens.token(found[size - 1].id) if len(found) > size else "",
        )

    async def CancelRedrive(
        self, request: rpc.CancelRedriveRequest, context: Context
    ) -> rpc.CancelRedriveResponse:
        id = _id(request.id)
        if queues_for(Permission.MANAGE) is not None:
            # A redrive's queue never changes, so the check of its permission stays true.
            await self._find(id, Permission.MANAGE)
        ended = await self._access.submit(ops.CancelRedrive(id=id))
        return rpc.CancelRedriveResponse(redrive=_redrive(ended))


def _id(id: str) -> str:
    if not is_id(id.lower()):
        raise InvalidRequest(what="id", value=id, rule="must be an id that StartRedrive answers with")
    return id.lower()


def _operation(request: rpc.StartRedriveRequest) -> ops.StartRedrive:
    convert.place(len(request.message_ids), "the number of message_ids", most=ops.MAX_SELECTED)
    return ops.StartRedrive(
        queue=convert.queue_name(request.queue),
        destination=request.destination and convert.queue_name(request.destination),
        ids=[convert.message_id(id) for id in request.message_ids],
        source_queue=request.source_queue and convert.queue_name(request.source_queue),
        rate=convert.place(
            request.max_messages_per_second, "max_messages_per_second", most=ops.MAX_RATE
        ),
    )


def _redrive(redrive: ops.Redrive) -> rpc.Redrive:
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
