"""Routes of the gateway: the one list of methods, paths and handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from ..app.caller import Permission, permission_of
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.schedules import Schedules
from .admin_endpoints import AdminEndpoints
from .message_endpoints import MessageEndpoints
from .queue_endpoints import QueueEndpoints
from .schedule_endpoints import ScheduleEndpoints

SEND: Final = Permission.SEND
RECEIVE: Final = Permission.RECEIVE
MONITOR: Final = Permission.MONITOR

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    """As OpenAPI writes it."""
    endpoint: Endpoint
    needs: Permission | Callable[..., Any] | None = None
    """The permission, or the use case that has one, needed for the queue in the path, or for all queues
    without one; None: none, or the endpoint checks it."""
    is_page: bool = False
    """Served also while the server drains."""
    is_open: bool = False
    """Also without credentials."""
    parameters: Collection[str] = ()
    """Names that its query may have; of one that is open, any."""
    leases: bool = False
    """A GET that isn't safe."""

    @property
    def permission(self) -> Permission | None:
        """The permission that a request needs before its body is read."""
        if self.needs is None or isinstance(self.needs, Permission):
            return self.needs
        return permission_of(self.needs)

    @property
    def changes(self) -> bool:
        """Whether the route changes anything."""
        return self.leases or self.method not in ("GET", "HEAD")


def routes(
    queues: QueueEndpoints,
    messages: MessageEndpoints,
    schedules: ScheduleEndpoints,
    pages: AdminEndpoints,
) -> Sequence[Route]:
    schedule = "/-/queues/{queue}/schedules/{schedule}"
    return (
        Route("GET", "/-/health", pages.health, is_page=True, is_open=True),
        Route("HEAD", "/-/health", pages.health, is_page=True, is_open=True),
        Route("GET", "/-/health/live", pages.live, is_page=True, is_open=True),
        Route("HEAD", "/-/health/live", pages.live, is_page=True, is_open=True),
        Route("GET", "/-/health/ready", pages.ready, is_page=True, is_open=True),
        Route("HEAD", "/-/health/ready", pages.ready, is_page=True, is_open=True),
        Route("GET", "/-/metrics", pages.metrics, MONITOR, is_page=True),
        Route("GET", "/-/openapi.json", pages.openapi, is_page=True),
        Route("HEAD", "/-/openapi.json", pages.openapi, is_page=True),
        Route("GET", "/{queue}", queues.get, Queues.get),
        Route("HEAD", "/{queue}", queues.get, Queues.get),
        Route("PUT", "/{queue}", queues.put, Queues.update),
        Route("DELETE", "/{queue}", queues.delete, Queues.delete),
        Route(
            "GET",
            "/-/queues/{queue}/messages",
            messages.list_messages,
            Messages.list,
            parameters=(
                *("states", "sent_since", "sent_before", "group", "attribute"),
                *("page_size", "page_token"),
            ),
        ),
        Route("GET", "/-/queues/{queue}/schedules", schedules.list_schedules, Schedules.list),
        Route("PUT", schedule, schedules.put, Schedules.create),
        Route("DELETE", schedule, schedules.delete, Schedules.delete),
        Route("POST", f"{schedule}/pause", schedules.pause, Schedules.pause),
        Route("POST", f"{schedule}/resume", schedules.resume, Schedules.pause),
        # No HEAD: a receive that shows no message would hide one.
        Route(
            "GET",
            "/{queue}/messages",
            messages.receive,
            RECEIVE,
            parameters=("wait", "visibility_timeout"),
            leases=True,
        ),
        Route("POST", "/{queue}/messages", messages.send, SEND, parameters=("wait",)),
        Route(
            "DELETE",
            "/{queue}/messages",
            messages.purge,
            Queues.purge,
            parameters=("sent_before", "states"),
        ),
        Route("GET", "/{queue}/messages/{id}", messages.get, Messages.open),
        Route("HEAD", "/{queue}/messages/{id}", messages.get, Messages.open),
        Route(
            "DELETE",
            "/{queue}/messages/{id}",
            messages.delete,
            Messages.delete,
            parameters=("allow_expired",),
        ),
        Route(
            "POST",
            "/{queue}/messages/{id}/release",
            messages.release,
            RECEIVE,
            parameters=("delay", "reason", "uncounted"),
        ),
        Route(
            "POST", "/{queue}/messages/{id}/reject", messages.reject, RECEIVE, parameters=("reason",)
        ),
    )


def pattern(path: str) -> str:
    """Return the path in the syntax of aiohttp's router, which excludes `/-/` from queues."""
    return path.replace("{queue}", "{queue:(?!-(?:/|$))[^/]+}")
