"""The methods of gRPC: the contract's and KEDA's, each with its handler.

Unary calls of use cases are the contract's. Here are those on messages and leases, whose responses are
encoded by column, and those that write their response themselves. A handler translates for a use case,
and never waits for a disk in the event loop. Messages and reservations that no transport took, because
the client was gone, are given back at once. A read of a reservation holds one page in memory, and asks
the store for the next when the transport has taken that one.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from google.protobuf.message import Message
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import reservation_service_pb2 as reservations
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import Draining

from ..app.application import Application
from ..app.caller import Caller
from ..app.queues import Queues
from ..app.store_access import Submitted
from ..app.trace_context import context_in
from ..metrics.instrumentation import Instrumentation
from ..wire import convert, encoding, lease_requests, outgoing_messages
from ..wire.contract_calls import CONTRACT, ContractCalls, ContractMethod, response_of, uses
from .authorized_calls import Context, current_caller, current_consumer
from .calls import CallIsOver, Method, Requests, ServedMethod, put, write
from .external_scaler import ExternalScaler
from .receive_streams import ReceiveStreams, hand_over, receive_of
from .served import SERVED_METHODS
from .streams import StreamOperation, Streams


def _scaled(request: Any) -> str:
    queue: str = request.scalerMetadata.get("queue", "")
    return queue


METHODS: Final[Mapping[str, ContractMethod]] = {
    **CONTRACT,
    # KEDA's, whose metadata name the queue.
    "IsActive": uses(Queues.counts, _scaled),
    "StreamIsActive": uses(Queues.counts, _scaled),
    "GetMetricSpec": uses(Queues.counts, _scaled),
    "GetMetrics": uses(Queues.counts, lambda asked: _scaled(asked.scaledObjectRef)),
}
_WRITING: Final = frozenset({"Receive", "Reserve"})


class Services:
    """The handlers of all methods of one server. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        clock: Clock,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._app = app
        self._clock = clock
        self._responses = app.responses
        self._streams = Streams(instrumentation, app.arrive)
        self._receive_streams = ReceiveStreams(app.leases, app.receives, self._streams, clock)
        self._calls = ContractCalls(app, clock)
        self._scaler = ExternalScaler(app.queues, clock)
        self._draining = False

    def credits(self) -> tuple[int, int]:
        """Return the number of messages that all receive streams may hold, and that they hold."""
        return self._receive_streams.credits()

    def drain(self) -> None:
        """End the streams: those of receives now, those of requests once all their requests are
        answered, and each read of a reservation after its present frame."""
        self._draining = True
        self._receive_streams.drain()
        self._streams.drain()
        self._scaler.drain()
        self._responses.end()

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by name."""
        return {
            name: ServedMethod(self._method(name), METHODS[name], writes_itself=name in _WRITING)
            for name in SERVED_METHODS
        }

    def _method(self, name: str) -> Method:
        if name in CONTRACT and self._calls.call_of(name) is not None:
            return partial(self._call, name)
        own: Method = getattr(self if name in CONTRACT else self._scaler, name)
        return own

    async def _call(self, name: str, request: Any, context: Context) -> Message:
        call = self._calls.call_of(name)
        assert call is not None
        return response_of(name, await call(current_caller(), request))

    # Sends.

    async def Send(self, request: rpc.SendRequest, context: Context) -> bytes:
        outgoing_messages.inherit_context(
            context_in(context.invocation_metadata() or ()), request.messages
        )
        sent = await self._send(current_caller(), request)
        del request  # The store has the bodies.
        return await sent.answered()

    async def StreamSend(self, requests: Requests, context: Context) -> None:
        begin = partial(self._send, current_caller())
        await self._streams.serve(requests, context, StreamOperation("StreamSend", begin))

    async def _send(self, caller: Caller, request: rpc.SendRequest) -> Submitted[bytes]:
        send = outgoing_messages.send_of(request.queue, request.messages)
        sent = await self._app.sends.send(caller, *send)
        return Submitted(sent.futures, lambda: encoding.send_response(sent.result()))

    # Receives.

    async def Receive(self, request: rpc.ReceiveRequest, context: Context) -> None:
        leased = await self._app.receives.receive(
            current_caller(), receive_of(request, current_consumer(context)), context.peer()
        )
        await hand_over(leased, context, self._clock.wall())

    async def StreamReceive(self, requests: Requests, context: Context) -> None:
        await self._receive_streams.serve(requests, context)

    # Calls on leases.

    async def _change_leases(self, request: lease_requests.LeaseRequest, context: Context) -> bytes:
        return await lease_requests.submit(self._app.leases, current_caller(), request).answered()

    Delete = ExtendLeases = Release = Reject = _change_leases

    async def StreamDelete(self, requests: Requests, context: Context) -> None:
        caller = current_caller()

        async def begin(request: rpc.DeleteRequest) -> Submitted[bytes]:
            return lease_requests.submit(self._app.leases, caller, request)

        await self._streams.serve(requests, context, StreamOperation("StreamDelete", begin))

    # Reservations.

    async def Reserve(self, request: reservations.ReserveRequest, context: Context) -> None:
        reservation = await self._calls.reserve(current_caller(), request)
        response = reservations.ReserveResponse(
            reservation=None if reservation is None else self._calls.reservation(reservation)
        )
        try:
            await write(context, response.SerializeToString())
        except CallIsOver:
            # It stays if another call has asked for the name meanwhile.
            self._app.reservations.undo(reservation)
            raise

    async def ReadReservation(
        self, request: reservations.ReadReservationRequest, context: Context
    ) -> None:
        async for page in self._calls.reserved_pages(current_caller(), request):
            if self._draining:
                raise Draining
            response = reservations.ReadReservationResponse(next_index=page.next_index)
            if request.by_column:
                response.runs.extend(map(convert.run, page.runs))
            else:
                response.messages.extend(map(convert.message, page.messages))
            async with self._responses.awaited_share(context.peer(), response.ByteSize()):
                await put(context, response.SerializeToString())
