"""The permissions that each method of the contract needs: the one table, as data.

Most name their queues in the request, and are refused before they reach the store. Others name a stage,
a reservation or a redrive, whose queues only the store knows: these require the permission on any
queue, and the handler passes on for which queues the caller has it. A stage or a stream of other queues
is a `NameTaken`, a redrive is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .access_control import AccessControl
from .permissions import Identity, Permission

Need = tuple[Permission, str]
"""A permission, and the queue for which it is needed."""
SEND: Final = Permission.SEND
RECEIVE: Final = Permission.RECEIVE
MANAGE: Final = Permission.MANAGE
MONITOR: Final = Permission.MONITOR


@dataclass(frozen=True, slots=True)
class RequestQueues:
    """A method whose request names the queues. Its caller must have the permission on some queue."""

    permission: Permission
    needs: Callable[[Any], Iterable[Need]]


@dataclass(frozen=True, slots=True)
class HandlerQueues:
    """A method whose handler finds the queues, and checks each."""

    permission: Permission
    needs: Callable[[Any], Iterable[Need]] = lambda _: ()
    """For what the request names all the same."""


def _in_field(permission: Permission, field: str = "queue") -> RequestQueues:
    return RequestQueues(permission, lambda request: ((permission, getattr(request, field)),))


def _in_request(permission: Permission) -> RequestQueues:
    """Require the permission on the queue named in the inner request of each request of a stream."""
    return RequestQueues(permission, lambda request: ((permission, request.request.queue),))


def _in_first_request(permission: Permission) -> RequestQueues:
    """Require the permission on the queue named in the first request of a stream; the handler refuses
    others."""
    return RequestQueues(
        permission, lambda request: ((permission, request.queue),) if request.queue else ()
    )


def _where_named(permission: Permission) -> HandlerQueues:
    return HandlerQueues(
        permission, lambda request: ((permission, request.queue),) if request.queue else ()
    )


def _settings(request: Any) -> Iterable[Need]:
    """Dead letters are sent to the queue that is named for them."""
    yield MANAGE, request.queue.name
    if request.queue.settings.dead_letter_queue:
        yield SEND, request.queue.settings.dead_letter_queue


def _redrive(request: Any) -> Iterable[Need]:
    yield MANAGE, request.queue
    if request.destination:
        yield SEND, request.destination


def _schedule(request: Any) -> Iterable[Need]:
    """Require the permission on the queue that a schedule sends to."""
    yield MANAGE, request.schedule.queue
    yield SEND, request.schedule.queue


METHODS: Final[Mapping[str, RequestQueues | HandlerQueues]] = {
    "CreateQueue": RequestQueues(MANAGE, _settings),
    "GetQueue": _in_field(MONITOR, "name"),
    "ListQueues": HandlerQueues(MONITOR),
    "UpdateQueue": RequestQueues(MANAGE, _settings),
    "DeleteQueue": _in_field(MANAGE, "name"),
    "PurgeQueue": _in_field(MANAGE, "name"),
    "Send": _in_field(SEND),
    "StreamSend": _in_request(SEND),
    "Receive": _in_field(RECEIVE),
    "StreamReceive": _in_first_request(RECEIVE),
    "Delete": _in_field(RECEIVE),
    "StreamDelete": _in_request(RECEIVE),
    "ChangeVisibility": _in_field(RECEIVE),
    "Release": _in_field(RECEIVE),
    "Reject": _in_field(RECEIVE),
    "GetMessage": _in_field(RECEIVE),
    "ListMessages": _in_field(RECEIVE),
    "Stage": _in_field(SEND),
    "Publish": HandlerQueues(SEND),
    "AbortStage": HandlerQueues(SEND),
    "ListStages": HandlerQueues(MONITOR),
    "Reserve": _in_field(RECEIVE),
    "ExtendReservation": HandlerQueues(RECEIVE),
    "ReadReservation": HandlerQueues(RECEIVE),
    "CommitReservations": HandlerQueues(RECEIVE),
    "ReleaseReservation": HandlerQueues(RECEIVE),
    "ListReservations": _where_named(MONITOR),
    "StartRedrive": RequestQueues(MANAGE, _redrive),
    "GetRedrive": HandlerQueues(MONITOR),
    "ListRedrives": _where_named(MONITOR),
    "CancelRedrive": HandlerQueues(MANAGE),
    "CreateSchedule": RequestQueues(MANAGE, _schedule),
    "ListSchedules": _where_named(MANAGE),
    "PauseSchedule": _in_field(MANAGE),
    "ResumeSchedule": _in_field(MANAGE),
    "DeleteSchedule": _in_field(MANAGE),
}
_SCALED: Final = RequestQueues(
    MONITOR, lambda request: ((MONITOR, request.scalerMetadata.get("queue", "")),)
)
SERVED_METHODS: Final[Mapping[str, RequestQueues | HandlerQueues]] = {
    **METHODS,
    # KEDA's, whose metadata name the queue.
    "IsActive": _SCALED,
    "StreamIsActive": _SCALED,
    "GetMetricSpec": _SCALED,
    "GetMetrics": RequestQueues(MONITOR, lambda request: _SCALED.needs(request.scaledObjectRef)),
}


@dataclass(frozen=True, slots=True)
class CallerPermissions:
    """The caller of a call, and its permissions."""

    guard: AccessControl
    identity: Identity

    def require(self, method: str, request: Any) -> None:
        """Raise `PermissionDenied` for a request that isn't allowed."""
        for permission, queue in SERVED_METHODS[method].needs(request):
            self.guard.require(self.identity, permission, queue)

    def require_somewhere(self, method: str) -> None:
        """Raise `PermissionDenied` for a call that isn't allowed on any queue."""
        self.guard.require_somewhere(self.identity, SERVED_METHODS[method].permission)

    def queues_for(self, permission: Permission) -> Callable[[str], bool] | None:
        """Return a predicate of queues on which the caller has the permission; None: all."""
        return self.guard.queues_for(self.identity, permission)
