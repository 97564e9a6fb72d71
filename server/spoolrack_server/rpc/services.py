"""The services of gRPC: the contract's unary calls, the servicers of the other methods, and KEDA's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message
from spoolrack_store.model.clock import Clock

from ..app.application import Application
from ..app.memory import Budget
from ..app.queues import Queues
from ..metrics.instrumentation import Instrumentation
from ..wire.contract import SERVED
from ..wire.contract_calls import (
    CONTRACT,
    ContractCall,
    ContractCalls,
    ContractMethod,
    response_of,
    uses,
)
from .authorized_calls import Context, current_caller
from .calls import Method, ServedMethod
from .external_scaler import ExternalScaler
from .message_requests import MessageRequests
from .queue_service import QueueService
from .receive_streams import ReceiveStreams
from .reservation_service import ReservationService
from .streams import Streams


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
    """The handlers of all services of one server. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        clock: Clock,
        responses: Budget,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        """`responses` bounds the bytes of messages in unsent responses."""
        receives = app.bounded_receives(responses)
        self._responses = responses
        self._streams = Streams(instrumentation)
        requests = MessageRequests(app)
        self._receive_streams = ReceiveStreams(app.leases, requests, receives, self._streams, clock)
        self._calls = ContractCalls(app, clock)
        self._reservations = ReservationService(self._calls, app.reservations, responses)
        self._scaler = ExternalScaler(app.queues, clock)
        self._servicers: Mapping[str, object] = {
            "QueueService": QueueService(
                clock, requests, receives, self._streams, self._receive_streams
            ),
            "ReservationService": self._reservations,
            "ExternalScaler": self._scaler,
        }

    def credits(self) -> tuple[int, int]:
        """Return the number of messages that all receive streams may hold, and that they hold."""
        return self._receive_streams.credits()

    def drain(self) -> None:
        """End the streams: those of receives now, those of requests once all their requests are
        answered."""
        self._receive_streams.drain()
        self._streams.drain()
        self._reservations.drain()
        self._scaler.drain()
        self._responses.end()

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by name."""
        return {
            method.name: ServedMethod(
                self._method(service.name, method.name),
                METHODS[method.name],
                writes_itself=method.name in _WRITING,
            )
            for service in SERVED
            for method in service.methods
        }

    def _method(self, service: str, name: str) -> Method:
        call = self._calls.find(name) if name in CONTRACT else None
        if call is not None:
            return _served(name, call)
        own: Method = getattr(self._servicers[service], name)
        return own


def _served(name: str, call: ContractCall) -> Method:
    async def run(request: Any, context: Context) -> Message:
        return response_of(name, await call(current_caller(), request))

    return run
