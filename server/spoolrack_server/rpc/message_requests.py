"""Requests about messages, unary or of a stream: to a use case, and its result to a response."""

from __future__ import annotations

import asyncio

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis

from ..app.application import Application
from ..app.bounded_receives import LeasedMessages
from ..app.caller import Caller
from ..app.store_access import Submitted
from ..wire import encoding, lease_changes
from ..wire.outgoing_messages import send_of
from .authorized_calls import Context
from .calls import CallIsOver, put, write


class MessageRequests:
    """Submits requests; raises the `StoreError` of one that is invalid as a whole."""

    def __init__(self, app: Application) -> None:
        self._sends = app.sends
        self._leases = app.leases

    async def send(self, caller: Caller, request: rpc.SendRequest) -> Submitted[bytes]:
        sent = await self._sends.send(caller, *send_of(request.queue, request.messages))
        return Submitted(sent.futures, lambda: encoding.send_response(sent.result()))

    def delete(self, caller: Caller, request: rpc.DeleteRequest) -> Submitted[bytes]:
        delete, encode = lease_changes.deletion(request.queue, request.targets)
        deleted = self._leases.delete(caller, delete)
        return Submitted(deleted.futures, lambda: encode(deleted.result()))

    def extend(self, caller: Caller, request: rpc.ExtendLeasesRequest) -> Submitted[bytes]:
        changes, last_receives = lease_changes.extensions(request.extensions)
        changed = self._leases.extend(caller, request.queue, changes, last_receives)
        return Submitted(changed.futures, lambda: lease_changes.extend_response(changed.result()))

    def release(self, caller: Caller, request: rpc.ReleaseRequest) -> Submitted[bytes]:
        changes = lease_changes.releases(request.releases)
        released = self._leases.release(caller, request.queue, changes)
        return Submitted(released.futures, lambda: lease_changes.release_response(released.result()))

    def reject(self, caller: Caller, request: rpc.RejectRequest) -> Submitted[bytes]:
        changes = lease_changes.rejections(request.rejections)
        rejected = self._leases.reject(caller, request.queue, changes)
        return Submitted(rejected.futures, lambda: lease_changes.reject_response(rejected.result()))


async def hand_over(
    leased: LeasedMessages, context: Context, wall: Millis, writes: asyncio.Lock | None = None
) -> None:
    """Write messages in one response; return the leases that the transport didn't take.

    Of a stream, which takes one response at a time, `writes` is held meanwhile; the task that hands
    over must be no call's, which is cancelled.
    """
    response = encoding.deliveries(leased.deliveries, wall, in_stream=writes is not None)
    # The bodies are in the response now.
    leased.deliveries = []
    try:
        if writes is not None:
            async with writes:
                await put(context, response)
        elif leased.receipts:
            await write(context, response)
        else:
            await put(context, response)  # Nothing has to go back.
    except CallIsOver:
        leased.give_back()
        raise
    finally:
        leased.free()
