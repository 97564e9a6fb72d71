"""Routes of HTTP: the one list of methods, paths and handlers, but for the dashboard's files."""

from __future__ import annotations

from collections.abc import Sequence

from ..app.caller import Permission
from ..app.health import Health
from ..app.leases import Leases
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.receives import Receives
from ..app.redrives import Redrives
from ..app.reservations import Reservations
from ..app.schedules import Schedules
from ..app.sends import Sends
from ..http.http_context import HttpContext
from ..http.route import Route
from ..metrics.observer import Observer
from ..wire.contract_calls import ContractCalls
from .contract_endpoints import ContractEndpoints
from .headers import ATTRIBUTE_FILTERS
from .message_endpoints import MessageEndpoints
from .monitoring_endpoints import MonitoringEndpoints
from .queue_endpoints import QueueEndpoints

PAGE = ("page_size", "page_token")


def routes(context: HttpContext, health: Health, observer: Observer) -> Sequence[Route]:
    queues, monitoring = QueueEndpoints(context), MonitoringEndpoints(context, health, observer)
    messages = MessageEndpoints(context)
    contract = ContractEndpoints(context, ContractCalls(context.app, context.clock))
    queue = "/-/queues/{queue}"
    schedule = f"{queue}/schedules/{{name}}"
    reservation = "/-/reservations/{stream}/{sequence_number}"
    monitor = Permission.MONITOR
    # A page is served, too, while the server drains and after a failure, when an operator needs it.
    return (
        Route("GET", "/-/health", monitoring.health, is_page=True, is_open=True),
        Route("GET", "/-/health/live", monitoring.live, is_page=True, is_open=True),
        Route("GET", "/-/health/ready", monitoring.ready, is_page=True, is_open=True),
        Route("GET", "/-/metrics", monitoring.metrics, monitor, is_page=True),
        Route("GET", "/-/openapi.json", monitoring.openapi, is_page=True),
        # Queues.
        Route(
            "GET",
            "/-/queues",
            queues.list_queues,
            Queues.list,
            is_page=True,
            parameters=("prefix", "contains", "fields", *PAGE),
        ),
        Route("GET", "/{queue}", queues.get, Queues.get, is_page=True),
        Route("PUT", "/{queue}", queues.put, Queues.update),
        Route("PATCH", "/{queue}", queues.patch, Queues.update),
        Route("DELETE", "/{queue}", queues.delete, Queues.delete),
        # Messages.
        Route(
            "GET",
            "/{queue}/messages",
            messages.receive,
            Receives.receive,
            parameters=("wait", "visibility_timeout"),
            leases=True,
        ),
        Route("POST", "/{queue}/messages", messages.send, Sends.send, parameters=("wait",)),
        Route(
            "DELETE",
            "/{queue}/messages",
            messages.purge,
            Queues.purge,
            parameters=("sent_before", "states"),
        ),
        Route("GET", "/{queue}/messages/{id}", messages.get, Messages.open),
        Route(
            "DELETE",
            "/{queue}/messages/{id}",
            messages.delete,
            Messages.delete,
            parameters=("allow_expired",),
        ),
        Route(
            "POST",
            "/{queue}/messages/{id}/extend",
            messages.extend,
            Leases.extend,
            parameters=("visibility_timeout", "allow_expired"),
        ),
        Route(
            "POST",
            "/{queue}/messages/{id}/release",
            messages.release,
            Leases.release,
            parameters=("delay", "reason", "uncounted"),
        ),
        Route(
            "POST",
            "/{queue}/messages/{id}/reject",
            messages.reject,
            Leases.reject,
            parameters=("reason",),
        ),
        Route(
            "GET",
            f"{queue}/messages",
            messages.list_messages,
            Messages.list,
            is_page=True,
            parameters=(
                "states",
                "sent_since",
                "sent_before",
                "group",
                *ATTRIBUTE_FILTERS,
                "max_body_bytes",
                *PAGE,
            ),
            repeatable=ATTRIBUTE_FILTERS,
        ),
        Route(
            "GET",
            f"{queue}/messages/{{id}}",
            messages.show,
            Messages.open,
            is_page=True,
            parameters=("max_body_bytes",),
        ),
        # Schedules, stages, reservations and redrives.
        contract.route("GET", "/-/schedules", "ListSchedules", is_page=True),
        contract.route("GET", f"{queue}/schedules", "ListSchedules", is_page=True),
        contract.route("GET", schedule, "GetSchedule", is_page=True),
        Route("PUT", schedule, contract.put_schedule, Schedules.create),
        Route("PATCH", schedule, contract.patch_schedule, Schedules.update),
        contract.route("DELETE", schedule, "DeleteSchedule"),
        contract.route("POST", f"{schedule}/pause", "PauseSchedule"),
        contract.route("POST", f"{schedule}/resume", "ResumeSchedule"),
        contract.route("GET", "/-/stages", "ListStages", is_page=True),
        contract.route("POST", "/-/publish", "Publish"),
        contract.route("GET", "/-/stages/{stage}", "GetStage", is_page=True),
        contract.route("DELETE", "/-/stages/{stage}", "AbortStage"),
        contract.route("GET", "/-/reservations", "ListReservations", is_page=True),
        Route("POST", f"{queue}/reservations", contract.reserve, Reservations.reserve, leases=True),
        contract.route("GET", reservation, "GetReservation", is_page=True),
        contract.route("POST", f"{reservation}/extend", "ExtendReservation"),
        Route(
            "GET",
            f"{reservation}/messages",
            contract.read_reservation,
            Reservations.read,
            parameters=("begin_index", "end_index", "mark_read", "queue"),
        ),
        contract.route("POST", "/-/reservations/{stream}/commit", "CommitReservations"),
        contract.route("DELETE", reservation, "ReleaseReservation"),
        Route(
            "GET",
            "/-/redrives",
            contract.list_redrives,
            Redrives.list,
            is_page=True,
            parameters=("queue", "last", *PAGE),
        ),
        contract.route("POST", f"{queue}/redrives", "StartRedrive", status=201),
        contract.route("GET", "/-/redrives/{id}", "GetRedrive", is_page=True),
        contract.route("POST", "/-/redrives/{id}/cancel", "CancelRedrive", parameters=("queue",)),
        # Measurements.
        Route("GET", "/-/server", monitoring.server, is_page=True),
        Route("GET", "/-/server/resources", monitoring.resources, monitor, is_page=True),
        Route(
            "GET", "/-/trends", monitoring.trends, Queues.names, is_page=True, parameters=("contains",)
        ),
        Route(
            "GET",
            "/-/ages",
            monitoring.ages,
            Queues.names,
            is_page=True,
            parameters=("contains", "first"),
        ),
        Route(
            "GET",
            f"{queue}/ages",
            monitoring.queue_ages,
            Queues.counts,
            is_page=True,
            parameters=("first",),
        ),
        Route("GET", f"{queue}/history", monitoring.history, Queues.counts, is_page=True),
    )
