"""The RPCs about messages and leases.

A handler translates for a use case, and never waits for a disk in the event loop. A message that no
transport took, because its client was gone, is released at once.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from functools import partial

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.operations import Receive

from ..app.bounded_receives import BoundedReceives
from ..app.bounds import MAX_COUNT, MAX_WAIT, number, queue_name
from ..app.store_access import Submitted
from ..app.trace_context import context_in
from ..wire import convert, outgoing_messages
from .authorized_calls import Context, current_caller, current_consumer
from .calls import Requests
from .message_requests import MessageRequests, hand_over
from .receive_streams import ReceiveStreams
from .streams import StreamOperation, Streams


class QueueService:
    """The handlers of these RPCs. Lives in one event loop."""

    def __init__(
        self,
        clock: Clock,
        requests: MessageRequests,
        receives: BoundedReceives,
        streams: Streams,
        receive_streams: ReceiveStreams,
    ) -> None:
        self._clock = clock
        self._requests = requests
        self._receives = receives
        self._streams = streams
        self._receive_streams = receive_streams

    # Sends.

    async def Send(self, request: rpc.SendRequest, context: Context) -> bytes:
        outgoing_messages.inherit_context(
            context_in(context.invocation_metadata() or ()), request.messages
        )
        sent = await self._requests.send(current_caller(), request)
        del request  # The store has the bodies.
        return await sent.answered()

    async def StreamSend(self, requests: Requests, context: Context) -> None:
        begin = partial(self._requests.send, current_caller())
        await self._streams.serve(requests, context, StreamOperation("StreamSend", begin))

    # Receives.

    async def Receive(self, request: rpc.ReceiveRequest, context: Context) -> None:
        if request.max_bytes < 0:
            raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule="must not be negative")
        max_bytes = request.max_bytes or convert.DEFAULT_RECEIVE_BYTES
        leased = await self._receives.lease_now(
            current_caller(),
            Receive(
                queue=queue_name(request.queue),
                max_messages=number(request.max_messages, "max_messages", default=1, most=MAX_COUNT),
                # More than fits into a response is never wanted.
                max_bytes=min(max_bytes, convert.MAX_RECEIVE_BYTES),
                visibility=convert.visibility(request),
                wait=convert.millis(request.wait, "wait", most=MAX_WAIT),
                consumer=current_consumer(context),
            ),
            context.peer(),
        )
        await hand_over(leased, context, self._clock.wall())

    async def StreamReceive(self, requests: Requests, context: Context) -> None:
        await self._receive_streams.serve(requests, context)

    # Calls on leases.

    async def Delete(self, request: rpc.DeleteRequest, context: Context) -> bytes:
        return await self._requests.delete(current_caller(), request).answered()

    async def StreamDelete(self, requests: Requests, context: Context) -> None:
        caller = current_caller()

        async def begin(request: rpc.DeleteRequest) -> Submitted[bytes]:
            return self._requests.delete(caller, request)

        await self._streams.serve(requests, context, StreamOperation("StreamDelete", begin))

    async def ExtendLeases(self, request: rpc.ExtendLeasesRequest, context: Context) -> bytes:
        return await self._requests.extend(current_caller(), request).answered()

    async def Release(self, request: rpc.ReleaseRequest, context: Context) -> bytes:
        return await self._requests.release(current_caller(), request).answered()

    async def Reject(self, request: rpc.RejectRequest, context: Context) -> bytes:
        return await self._requests.reject(current_caller(), request).answered()
