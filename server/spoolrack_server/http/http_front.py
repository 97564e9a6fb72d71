"""What every port of HTTP does with a request: its id, its life beside its client's, its response.

The gateway and SQS say what a request asks for, and what an error looks like. Nothing of an unexpected
exception leaks: it is refused, as any other. Starting raises `OSError` for an unusable address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from aiohttp import web
from spoolrack_store.model.errors import Draining

from ..app.memory import SMALL
from ..metrics.instrumentation import Instrumentation
from ..system.logs import Log
from ..system.request_ids import HEADER, REQUEST_ID
from . import request_bodies
from .http_context import HttpContext
from .http_listener import HttpListener
from .request_checks import peer_of, require_own_shard
from .route import Endpoint


class HttpFront:
    """A port of HTTP. Lives in one event loop, and is started once."""

    id_headers: ClassVar[tuple[str, ...]] = (HEADER,)
    """By which a response says the id of its request, to be found in the log."""

    def __init__(self, context: HttpContext, log: Log, instrumentation: Instrumentation) -> None:
        self._context = context
        self._log = log
        self._instrumentation = instrumentation
        self._application = web.Application(middlewares=[self._edge])
        self._application.on_response_prepare.append(self._name_request)
        self._listener = HttpListener(self._application, context.http_limits, log, self._refuse_head)
        self.start = self._listener.start

    # Start and stop.

    def refuse(self) -> None:
        """Refuse new requests, with a retry delay."""
        self._listener.is_refusing = True
        self._context.drain()

    async def stop(self, grace: float) -> None:
        """Return once all is closed; requests that haven't ended after `grace` seconds are
        cancelled."""
        await self._listener.stop(grace)
        await self._context.app.close()

    # Of each front.

    async def _serve(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        """Return the response to a request that has its id, instrumented."""
        return await endpoint(request)

    def _refusal(self, request: web.BaseRequest, error: Exception) -> web.Response:
        """Log an error; return its response."""
        raise NotImplementedError

    # Each request.

    def _refuse_head(self, request: web.BaseRequest, error: Exception) -> web.StreamResponse:
        id = self._instrumentation.name(request)
        response = self._refusal(request, error)
        response.headers.update(dict.fromkeys(self.id_headers, id))
        return response

    @web.middleware
    async def _edge(self, request: web.Request, handler: Endpoint) -> web.StreamResponse:
        self._listener.track_current()
        self._instrumentation.name(request)
        return await self._serve(request, handler)

    async def _name_request(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(dict.fromkeys(self.id_headers, REQUEST_ID.get()))

    def _require_open(self, request: web.Request, *, is_page: bool = False) -> None:
        """Raise `Draining` or `WrongShard` for a request that this server doesn't take."""
        if self._listener.is_refusing and not is_page:
            raise Draining
        require_own_shard(request, self._context.app.shard)

    async def _observed(
        self,
        request: web.Request,
        route: str,
        answer: Callable[[], Awaitable[web.StreamResponse]],
        *,
        ends_with_client: bool,
        is_read: bool,
        operation: str | None = None,
    ) -> web.StreamResponse:
        """Return the instrumented response of `answer`, which goes on without its client unless it
        `ends_with_client`. The large response of a request that `is_read` may be refused."""

        async def lasting() -> web.StreamResponse:
            answered = self._answered(request, answer, is_read=is_read)
            if ends_with_client:
                return await answered
            return await asyncio.shield(self._listener.track(asyncio.create_task(answered)))

        response: web.StreamResponse = await self._instrumentation.http(
            request, route, lasting, operation
        )
        return response

    async def _answered(
        self,
        request: web.Request,
        answer: Callable[[], Awaitable[web.StreamResponse]],
        *,
        is_read: bool,
    ) -> web.StreamResponse:
        """Return the response, or a refusal; raise `CancelledError` if the client is gone, as aiohttp
        wants it."""
        try:
            response = await answer()
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
        return await self._handed_over(request, response, is_read=is_read)

    async def _handed_over(
        self, request: web.Request, response: web.StreamResponse, *, is_read: bool
    ) -> web.StreamResponse:
        """Write a large response, which counts until its client has taken it; refuse that of a read
        without memory for it. aiohttp itself waits for a client that doesn't read without an end."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) <= SMALL or request.method == "HEAD":
            return response
        assert isinstance(response, web.Response)
        if response.prepared:
            return response
        peer, responses = peer_of(request), self._context.app.responses
        if is_read and not responses.fits(peer, len(body)):
            return self._refusal(request, responses.full())
        taken = responses.count(peer, len(body))
        try:
            return await request_bodies.write(request, response, self._context.http_limits)
        finally:
            responses.free(peer, taken)
