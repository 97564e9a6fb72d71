"""The HTTP gateway: its start and stop, and the beginning and end of each request.

Owns the connections, and the work that is the same for all endpoints: an endpoint takes a request, asks
the store and returns a response or raises. An unexpected exception is logged with its traceback and
answered with `INTERNAL_ERROR`, and nothing of it leaks. Starting raises `OSError` for an unusable
address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import Draining, StoreError

from ..access.access_control import AccessControl
from ..app.application import Application
from ..app.health import Health
from ..app.memory import SMALL, MemoryLimiter
from ..http import request_bodies
from ..http.context import HttpContext
from ..http.http_errors import (
    MethodNotAllowed,
    NoSuchPage,
    internal_error,
    response_to,
)
from ..http.http_listener import HttpListener, expect_nothing
from ..http.request_bodies import HttpLimits
from ..http.request_checks import check, peer_of, require_own_shard
from ..http.route import Endpoint, Route, pattern, with_heads
from ..metrics.instrumentation import Instrumentation
from ..metrics.observer import Observer
from ..system.error_log import ErrorLog
from ..system.logs import Log
from ..system.request_ids import HEADER
from ..wire.status import LONGEST_MESSAGE
from .routes import routes

REQUEST: Final = web.RequestKey("spoolrack-request-id", str)

FINISHED_ANYWAY: Final = frozenset({"PUT", "PATCH", "POST", "DELETE"})
"""Methods whose work goes on when their client has gone: some never wait for the answer."""


class Gateway:
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
        self._log = log
        observer = observer or Observer(health, clock)
        self._instrumentation = instrumentation or Instrumentation(refusals=ErrorLog(log))
        self._access_control = access_control or AccessControl()
        self._routes: dict[tuple[str, Any], Route] = {}
        self._app = app
        self._context = HttpContext(app, clock, log, http_limits, memory)
        application = self._application((*routes(self._context, health, observer), *pages))
        self._listener = HttpListener(application, self._context.http_limits, log, self._refuse_head)
        self.start = self._listener.start

    def _application(self, served: Sequence[Route]) -> web.Application:
        application = web.Application(middlewares=[self._edge])
        application.on_response_prepare.append(_name_request)
        for route in with_heads(served):
            application.router.add_route(
                route.method, pattern(route.path), route.endpoint, expect_handler=expect_nothing
            )
            self._routes[route.method, route.endpoint] = route
        return application

    # Start and stop.

    def refuse(self) -> None:
        """Refuse new requests, with a retry delay."""
        self._listener.is_refusing = True
        self._context.drain()

    async def stop(self, grace: float) -> None:
        """Return once all is closed; requests that haven't ended after `grace` seconds are
        cancelled."""
        await self._listener.stop(grace)
        await self._app.close()

    # Each request.

    def _refuse_head(self, request: web.BaseRequest, error: Exception) -> web.StreamResponse:
        id = self._instrumentation.name(request)
        response = self._refusal(request, error)
        response.headers[HEADER] = id
        return response

    @web.middleware
    async def _edge(self, request: web.Request, handler: Endpoint) -> web.StreamResponse:
        self._listener.track_current()
        request[REQUEST] = self._instrumentation.name(request)
        route = request.match_info.route.resource
        response: web.StreamResponse = await self._instrumentation.http(
            request,
            "" if route is None else route.canonical,
            partial(self._answer_on, request, handler),
        )
        return response

    def _route_of(self, request: web.Request) -> Route | None:
        """Return the route of a request; None: its path isn't served."""
        return self._routes.get((request.method, request.match_info.handler))

    async def _answer_on(self, request: web.Request, handler: Endpoint) -> web.StreamResponse:
        """Return the response to a request that may outlive its connection."""
        route = self._route_of(request)
        if request.method not in FINISHED_ANYWAY or (route is not None and route.leases):
            return await self._answer(request, handler)
        return await asyncio.shield(
            self._listener.track(asyncio.create_task(self._answer(request, handler)))
        )

    async def _answer(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        """Return the response; raise `CancelledError` if the client is gone, as aiohttp wants it."""
        try:
            route = self._route_of(request)
            check(request, route, self._access_control)
            if route is None or not route.is_open:
                self._listener.know(request)
            if self._listener.is_refusing and not (route is not None and route.is_page):
                raise Draining
            require_own_shard(request, self._app.shard)
            response = await endpoint(request)
        except ConnectionError as error:
            raise asyncio.CancelledError from error
        except Exception as error:
            response = self._refusal(request, error)
            if request.writer.output_size:
                # A response has begun already: it can only be cut off.
                raise asyncio.CancelledError from error
        if self._listener.is_refusing or not request.content.is_eof():
            # The rest of a body that isn't needed is not worth waiting for.
            response.force_close()
        return await self._handed_over(request, response)

    async def _handed_over(
        self, request: web.Request, response: web.StreamResponse
    ) -> web.StreamResponse:
        """Write a large response, which counts until its client has taken it; refuse that of a read
        without memory for it. aiohttp itself waits for a client that doesn't read without an end."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) <= SMALL or request.method == "HEAD":
            return response
        assert isinstance(response, web.Response)
        if response.prepared:
            return response
        peer, responses = peer_of(request), self._app.responses
        if request.method == "GET" and not responses.fits(peer, len(body)):
            return self._refusal(request, responses.full())
        taken = responses.count(peer, len(body))
        try:
            return await request_bodies.write(request, response, self._context.http_limits)
        finally:
            responses.free(peer, taken)

    def _refusal(self, request: web.BaseRequest, error: Exception) -> web.StreamResponse:
        known: StoreError | None = None
        match error:
            case StoreError():
                known = error
            case web.HTTPMethodNotAllowed():
                known = _not_allowed(request, error)
            case web.HTTPNotFound():
                known = NoSuchPage(path=request.path)
        response: web.StreamResponse | None = None if known is None else response_to(known)
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


async def _name_request(request: web.Request, response: web.StreamResponse) -> None:
    """Say in each answer by which id its request is found in the log."""
    id = request.get(REQUEST)
    if id is not None:
        response.headers[HEADER] = id
