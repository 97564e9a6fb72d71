"""The services of gRPC over the use cases: the one list of methods and their permissions.

The permission is that of the method's use case. A call is refused before its request is read if its
caller has the permission on no queue, and before its handler runs if it hasn't it on the queue that is
named here. Further queues the use case checks: those that only the store knows, and those that messages
are sent to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from spoolrack_store.model.clock import Clock

from ..app.application import Application
from ..app.bounded_receives import BoundedReceives
from ..app.caller import permission_of
from ..app.leases import Leases
from ..app.memory import Budget
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.redrives import Redrives
from ..app.reservations import Reservations
from ..app.schedules import Schedules
from ..app.sends import Sends
from ..app.stages import Stages
from ..metrics.instrumentation import Instrumentation
from ..wire.contract import SERVED
from ..wire.contract_calls import ContractCall, ContractCalls
from .authorized_calls import Context, MethodPermission, current_caller
from .calls import Method, ServedMethod
from .external_scaler import ExternalScaler
from .message_requests import MessageRequests
from .queue_service import QueueService
from .receive_streams import ReceiveStreams
from .reservation_service import ReservationService
from .streams import Streams


def _on(
    use_case: Callable[..., Any], queue: str | Callable[[Any], str] = lambda request: ""
) -> MethodPermission:
    """Return the permission of a use case, with the path of the field that names the queue."""
    return MethodPermission(
        permission_of(use_case), attrgetter(queue) if isinstance(queue, str) else queue
    )


def _scaled(request: Any) -> str:
    queue: str = request.scalerMetadata.get("queue", "")
    return queue


METHODS: Final[Mapping[str, MethodPermission]] = {
    "CreateQueue": _on(Queues.create, "queue.name"),
    "GetQueue": _on(Queues.get, "name"),
    "ListQueues": _on(Queues.list),
    "UpdateQueue": _on(Queues.update, "queue.name"),
    "DeleteQueue": _on(Queues.delete, "name"),
    "PurgeQueue": _on(Queues.purge, "name"),
    "Send": _on(Sends.send, "queue"),
    "StreamSend": _on(Sends.send, "request.queue"),
    "Receive": _on(Leases.receive, "queue"),
    "StreamReceive": _on(Leases.receive, "start.queue"),
    "Delete": _on(Leases.delete, "queue"),
    "StreamDelete": _on(Leases.delete, "request.queue"),
    "ExtendLeases": _on(Leases.extend, "queue"),
    "Release": _on(Leases.release, "queue"),
    "Reject": _on(Leases.reject, "queue"),
    "GetMessage": _on(Messages.get, "queue"),
    "ListMessages": _on(Messages.list, "queue"),
    "Stage": _on(Stages.stage, "queue"),
    "Publish": _on(Stages.publish),
    "AbortStage": _on(Stages.abort),
    "GetStage": _on(Stages.get),
    "ListStages": _on(Stages.list),
    "Reserve": _on(Reservations.reserve, "queue"),
    "ExtendReservation": _on(Reservations.extend),
    "ReadReservation": _on(Reservations.read),
    "CommitReservations": _on(Reservations.commit),
    "ReleaseReservation": _on(Reservations.release),
    "GetReservation": _on(Reservations.get),
    "ListReservations": _on(Reservations.list),
    "StartRedrive": _on(Redrives.start, "queue"),
    "GetRedrive": _on(Redrives.get),
    "ListRedrives": _on(Redrives.list),
    "CancelRedrive": _on(Redrives.cancel),
    "CreateSchedule": _on(Schedules.create, "schedule.queue"),
    "GetSchedule": _on(Schedules.get, "queue"),
    "UpdateSchedule": _on(Schedules.update, "schedule.queue"),
    "ListSchedules": _on(Schedules.list),
    "PauseSchedule": _on(Schedules.pause, "queue"),
    "ResumeSchedule": _on(Schedules.pause, "queue"),
    "DeleteSchedule": _on(Schedules.delete, "queue"),
    # KEDA's, whose metadata name the queue.
    "IsActive": _on(Queues.counts, _scaled),
    "StreamIsActive": _on(Queues.counts, _scaled),
    "GetMetricSpec": _on(Queues.counts, _scaled),
    "GetMetrics": _on(Queues.counts, lambda asked: _scaled(asked.scaledObjectRef)),
}
_WRITING: Final = frozenset({"Receive", "Reserve"})


class Services:
    """The handlers of all services of one server. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        clock: Clock,
        responses: Budget,
        watch: Instrumentation | None = None,
    ) -> None:
        """`responses` bounds the bytes of messages in unsent responses."""
        receives = BoundedReceives(responses, app.access, app.leases)
        self._responses = responses
        self._streams = Streams(watch)
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
        call = self._calls.find(name)
        if call is not None:
            return _served(call)
        own: Method = getattr(self._servicers[service], name)
        return own


def _served(call: ContractCall) -> Method:
    def run(request: Any, context: Context) -> Awaitable[Any]:
        return call(current_caller(), request)

    return run
