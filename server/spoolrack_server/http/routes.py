"""Routes of the gateway: the one list of methods, paths and handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..app.caller import Permission
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.schedules import Schedules
from .admin_endpoints import AdminEndpoints
from .message_endpoints import MessageEndpoints
from .queue_endpoints import QueueEndpoints
from .route import Route
from .schedule_endpoints import ScheduleEndpoints

SEND: Final = Permission.SEND
RECEIVE: Final = Permission.RECEIVE
MONITOR: Final = Permission.MONITOR


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
