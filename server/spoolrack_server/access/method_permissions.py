"""The permission that each method of the contract needs, and the queues that its request names.

The permission is that of the method's use case. A call is refused before its request is read if its
caller has the permission on no queue, and before its handler runs if it hasn't it on each queue that is
named here. Further queues the use case checks: those that only the store knows, and those that messages
are sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
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
    """The permission that a method needs on some queue, and on the one that its request names."""

    permission: Permission
    queue: Callable[[Any], str]
    """Returns the queue that a request names; empty: it names none, or the handler refuses it."""

    def require(self, caller: Caller, request: Any) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make."""
        if queue := self.queue(request):
            caller.require(self.permission, queue)

    def require_somewhere(self, caller: Caller) -> None:
        """Raise `PermissionDenied` for a call that the caller may not make on any queue."""
        caller.require_somewhere(self.permission)


def _on(needed: Permission | Callable[..., Any], field: str = "") -> MethodPermission:
    """Return the permission, or that of a use case, with the path of the field that names the queue."""
    return MethodPermission(permission_of(needed), attrgetter(field) if field else lambda _: "")


METHODS: Final[Mapping[str, MethodPermission]] = {
    "CreateQueue": _on(Queues.create, "queue.name"),
    "GetQueue": _on(Queues.get, "name"),
    "ListQueues": _on(Queues.list),
    "UpdateQueue": _on(Queues.update, "queue.name"),
    "DeleteQueue": _on(Queues.delete, "name"),
    "PurgeQueue": _on(Queues.purge, "name"),
    "Send": _on(SEND, "queue"),
    "StreamSend": _on(SEND, "request.queue"),
    "Receive": _on(RECEIVE, "queue"),
    "StreamReceive": _on(RECEIVE, "start.queue"),
    "Delete": _on(RECEIVE, "queue"),
    "StreamDelete": _on(RECEIVE, "request.queue"),
    "ExtendLeases": _on(RECEIVE, "queue"),
    "Release": _on(RECEIVE, "queue"),
    "Reject": _on(RECEIVE, "queue"),
    "GetMessage": _on(Messages.get, "queue"),
    "ListMessages": _on(Messages.list, "queue"),
    "Stage": _on(SEND, "queue"),
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
}
_SCALED: Final = MethodPermission(
    permission_of(Queues.counts), lambda request: request.scalerMetadata.get("queue", "")
)
SERVED_METHODS: Final[Mapping[str, MethodPermission]] = {
    **METHODS,
    # KEDA's, whose metadata name the queue.
    "IsActive": _SCALED,
    "StreamIsActive": _SCALED,
    "GetMetricSpec": _SCALED,
    "GetMetrics": MethodPermission(
        _SCALED.permission, lambda request: _SCALED.queue(request.scaledObjectRef)
    ),
}
