"""The HTTP gateway: the routes of its endpoints, the check of each request, its refusal.

An endpoint takes a request, asks the store and returns a response or raises. An unexpected exception is
logged with its traceback and answered with `INTERNAL_ERROR`. Starting raises `OSError` for an unusable
address.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import StoreError

from ..access.access_control import AccessControl
from ..app.application import Application
from ..app.health import Health
from ..app.memory import MemoryLimiter
from ..http.http_context import HttpContext
from ..http.http_errors import (
    MethodNotAllowed,
    NoSuchPage,
    internal_error,
    response_to,
)
from ..http.http_front import HttpFront
from ..http.http_listener import expect_nothing
from ..http.request_bodies import HttpLimits
from ..http.request_checks import check
from ..http.route import Endpoint, Route, pattern, with_heads
from ..metrics.instrumentation import Instrumentation
from ..metrics.observer import Observer
from ..system.error_log import ErrorLog
from ..system.logs import Log
from ..wire.status import LONGEST_MESSAGE
from .routes import routes

FINISHED_ANYWAY: Final = frozenset({"PUT", "PATCH", "POST", "DELETE"})
"""Methods whose work goes on when their client has gone: some never wait for the answer."""


class Gateway(HttpFront):
    """The HTTP listener of the queues. Lives in one event loop, and is started once."""

    def __init__(
        self,
        app: Application,
        health: Health,
        clock: Clock,
        log: Log,
        http_limits: HttpLimits | None = None,
        instrumentation: Instrumentation | None = None,
        observer: Observer | None = None,
        access_control: AccessControl | None = None,
        memory: MemoryLimiter | None = None,
        pages: Sequence[Route] = (),
    ) -> None:
        """`pages`: routes beside those of queues and monitoring."""
        context = HttpContext(app, clock, log, http_limits, memory)
        super().__init__(context, log, instrumentation or Instrumentation(refusals=ErrorLog(log)))
        self._access_control = access_control or AccessControl()
        self._routes: dict[tuple[str, Any], Route] = {}
        served = routes(context, health, observer or Observer(health, clock))
        for route in with_heads((*served, *pages)):
            self._application.router.add_route(
                route.method, pattern(route.path), route.endpoint, expect_handler=expect_nothing
            )
            self._routes[route.method, route.endpoint] = route

    # Each request.

    async def _serve(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        resource, route = request.match_info.route.resource, self._route_of(request)
        ends_with_client = request.method not in FINISHED_ANYWAY or (route is not None and route.leases)
        return await self._observed(
            request,
            "" if resource is None else resource.canonical,
            partial(self._answer, request, route, endpoint),
            ends_with_client=ends_with_client,
            is_read=request.method == "GET",
        )

    def _route_of(self, request: web.Request) -> Route | None:
        """Return the route of a request; None: its path isn't served."""
        return self._routes.get((request.method, request.match_info.handler))

    async def _answer(
        self, request: web.Request, route: Route | None, endpoint: Endpoint
    ) -> web.StreamResponse:
        check(request, route, self._access_control)
        if route is None or not route.is_open:
            self._listener.know(request)
        self._require_open(request, is_page=route is not None and route.is_page)
        return await endpoint(request)

    def _refusal(self, request: web.BaseRequest, error: Exception) -> web.Response:
        known: StoreError | None = None
        match error:
            case StoreError():
                known = error
            case web.HTTPMethodNotAllowed():
                known = _not_allowed(request, error)
            case web.HTTPNotFound():
                known = NoSuchPage(path=request.path)
        response = None if known is None else response_to(known)
        if response is not None and isinstance(error, StoreError):
            self._instrumentation.refusals.log(
                f"{request.method} {request.path[:200]}",
                error.reason,
                str(error)[:LONGEST_MESSAGE],
                is_fault=response.status >= 500,
            )
        if response is None:
            self._log.error(
                "a request failed by a defect of the server",
                method=request.method,
                exc_info=error,
            )
            response = internal_error()
        return response


def _not_allowed(request: web.BaseRequest, error: web.HTTPMethodNotAllowed) -> MethodNotAllowed:
    allowed = ", ".join(sorted(error.allowed_methods))
    remedy = f"use {allowed}"
    if request.method == "POST" and request.path == "/":  # As clients of SQS, which has its own port.
        remedy = "this is the HTTP port, and SQS is served at the port of serve --sqs"
    return MethodNotAllowed(method=error.method, path=request.path, allowed=allowed, remedy=remedy)
