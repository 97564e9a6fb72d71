"""Routes of the dashboard: the one list of methods, paths and handlers.

The JSON is the dashboard's own and changes with it: programs use `/{queue}` and gRPC, and that is why
none of this is in `/-/openapi.json`.
"""

from __future__ import annotations

from collections.abc import Sequence

from spoolrack_store.model.clock import Clock

from ..app.health import Health
from ..http.context import HttpContext
from ..http.route import Route
from ..metrics.observer import Observer
from .actions import Actions
from .assets import Assets
from .monitoring import Monitoring
from .queries import DashboardViews


def dashboard_routes(
    context: HttpContext, health: Health, clock: Clock, observer: Observer
) -> Sequence[Route]:
    assets, changing = Assets(), Actions(context, clock)
    looking = DashboardViews(context.app, health, clock, observer)
    monitoring = Monitoring(context.app.queues, observer)
    # Open while the server drains, and after a failure, when an operator needs it. The page asks for a
    # token, if its data needs one; each endpoint checks permissions by queue.
    return (
        Route("GET", "/", assets.root, is_page=True, is_open=True),
        Route("HEAD", "/", assets.root, is_page=True, is_open=True),
        Route("GET", "/-/dashboard", assets.page, is_page=True, is_open=True),
        Route("HEAD", "/-/dashboard", assets.page, is_page=True, is_open=True),
        Route("GET", "/-/dashboard/", assets.redirect, is_page=True, is_open=True),
        Route("GET", "/-/dashboard/{asset:.+}", assets.asset, is_page=True, is_open=True),
        Route("HEAD", "/-/dashboard/{asset:.+}", assets.asset, is_page=True, is_open=True),
        Route("GET", "/-/api/server", looking.server, is_page=True),
        Route("GET", "/-/api/resources", monitoring.resources, is_page=True),
        Route("GET", "/-/api/trends", monitoring.trends, is_page=True, parameters=("contains",)),
        Route("GET", "/-/api/queues", looking.queues, is_page=True, parameters=("contains",)),
        Route("GET", "/-/api/ages", looking.ages, is_page=True, parameters=("contains", "first")),
        Route("GET", "/-/api/queues/{queue}", looking.queue, is_page=True),
        Route("GET", "/-/api/queues/{queue}/history", monitoring.history, is_page=True),
        Route(
            "GET",
            "/-/api/queues/{queue}/messages",
            looking.messages,
            is_page=True,
            parameters=("after", "limit", "state", "older_than", "group", "attribute"),
        ),
        Route("GET", "/-/api/queues/{queue}/messages/{id}", looking.message, is_page=True),
        Route("GET", "/-/api/stages", looking.stages, is_page=True),
        Route("GET", "/-/api/reservations", looking.reservations, is_page=True),
        Route("GET", "/-/api/redrives", looking.redrives, is_page=True),
        Route("POST", "/-/api/queues/create", changing.create_queue),
        Route("POST", "/-/api/queues/update", changing.update_queue),
        Route("POST", "/-/api/messages/send", changing.send_message),
        Route("POST", "/-/api/messages/delete", changing.delete_messages),
        Route("POST", "/-/api/queues/purge", changing.purge),
        Route("POST", "/-/api/schedules/create", changing.create_schedule),
        Route("POST", "/-/api/schedules/pause", changing.pause_schedule),
        Route("POST", "/-/api/schedules/delete", changing.delete_schedule),
        Route("POST", "/-/api/stages/abort", changing.abort_stage),
        Route("POST", "/-/api/reservations/release", changing.release_reservation),
        Route("POST", "/-/api/redrives", changing.start_redrive),
        Route("POST", "/-/api/redrives/cancel", changing.cancel_redrive),
    )
