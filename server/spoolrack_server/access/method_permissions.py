"""The permission that each method of the contract needs, and the queues that its request names.

The permission is that of the method's use case. A call is refused before its request is read if its
caller has the permission on no queue, and before its handler runs if it hasn't it on each queue that is
named here. Further queues the use case checks: those that only the store knows, and those that messages
are sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..app.caller import Caller, Permission, permission_of
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.redrives import Redrives
from ..app.reservations import Reservations
from ..app.schedules import Schedules
from ..app.stages import Stages

SEND: Final = Permission.SEND
RECEIVE: Final = Permission.RECEIVE


@dataclass(frozen=True, slots=True)
class MethodPermission:
    """The permission that a method needs on some queue, and on those that its request names."""

    permission: Permission
    queues: Callable[[Any], Iterable[str]]

    def require(self, caller: Caller, request: Any) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make."""
        for queue in self.queues(request):
            caller.require(self.permission, queue)

    def require_somewhere(self, caller: Caller) -> None:
        """Raise `PermissionDenied` for a call that the caller may not make on any queue."""
        caller.require_somewhere(self.permission)


def _on(
    needed: Permission | Callable[..., Any], queues: Callable[[Any], Iterable[str]]
) -> MethodPermission:
    permission = needed if isinstance(needed, Permission) else permission_of(needed)
    return MethodPermission(permission, queues)


def _queue(request: Any) -> Iterable[str]:
    return (request.queue,)


def _name(request: Any) -> Iterable[str]:
    return (request.name,)


def _queue_name(request: Any) -> Iterable[str]:
    return (request.queue.name,)


def _inner_queue(request: Any) -> Iterable[str]:
    """Return the queue named in the inner request of each request of a stream."""
    return (request.request.queue,)


def _first_queue(request: Any) -> Iterable[str]:
    """Return the queue named in the first request of a stream; the handler refuses others."""
    return (request.queue,) if request.queue else ()


def _none(request: Any) -> Iterable[str]:
    return ()


METHODS: Final[Mapping[str, MethodPermission]] = {
    "CreateQueue": _on(Queues.create, _queue_name),
    "GetQueue": _on(Queues.get, _name),
    "ListQueues": _on(Queues.list, _none),
    "UpdateQueue": _on(Queues.update, _queue_name),
    "DeleteQueue": _on(Queues.delete, _name),
    "PurgeQueue": _on(Queues.purge, _name),
    "Send": _on(SEND, _queue),
    "StreamSend": _on(SEND, _inner_queue),
    "Receive": _on(RECEIVE, _queue),
    "StreamReceive": _on(RECEIVE, _first_queue),
    "Delete": _on(RECEIVE, _queue),
    "StreamDelete": _on(RECEIVE, _inner_queue),
    "ChangeVisibility": _on(RECEIVE, _queue),
    "Release": _on(RECEIVE, _queue),
    "Reject": _on(RECEIVE, _queue),
    "GetMessage": _on(Messages.get, _queue),
    "ListMessages": _on(Messages.list, _queue),
    "Stage": _on(SEND, _queue),
    "Publish": _on(Stages.publish, _none),
    "AbortStage": _on(Stages.abort, _none),
    "ListStages": _on(Stages.list, _none),
    "Reserve": _on(Reservations.reserve, _queue),
    "ExtendReservation": _on(Reservations.extend, _none),
    "ReadReservation": _on(Reservations.read, _none),
    "CommitReservations": _on(Reservations.commit, _none),
    "ReleaseReservation": _on(Reservations.release, _none),
    "ListReservations": _on(Reservations.list, _none),
    "StartRedrive": _on(Redrives.start, _queue),
    "GetRedrive": _on(Redrives.get, _none),
    "ListRedrives": _on(Redrives.list, _none),
    "CancelRedrive": _on(Redrives.cancel, _none),
    "CreateSchedule": _on(Schedules.create, lambda request: (request.schedule.queue,)),
    "ListSchedules": _on(Schedules.list, _none),
    "PauseSchedule": _on(Schedules.pause, _queue),
    "ResumeSchedule": _on(Schedules.pause, _queue),
    "DeleteSchedule": _on(Schedules.delete, _queue),
}


def _scaled(request: Any) -> Iterable[str]:
    return (request.scalerMetadata.get("queue", ""),)


SERVED_METHODS: Final[Mapping[str, MethodPermission]] = {
    **METHODS,
    # KEDA's, whose metadata name the queue.
    "IsActive": _on(Queues.counts, _scaled),
    "StreamIsActive": _on(Queues.counts, _scaled),
    "GetMetricSpec": _on(Queues.counts, _scaled),
    "GetMetrics": _on(Queues.counts, lambda request: _scaled(request.scaledObjectRef)),
}
