"""The gateway as a whole: how it starts, how each request begins and ends, how it stops.

Owns the connections, and what is the same for all endpoints, so that an endpoint only takes a request,
asks the store and answers or raises. An exception that nobody foresaw is logged with its traceback and
answered with `INTERNAL_ERROR`, and nothing of it leaks. Starting raises `OSError` if the address is no
good.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import Draining, StoreError
from spoolrack_store.store import Store

from ..health import Health
from ..logs import Log
from .asking import Asking
from .bodies import Patience
from .errors import GatewayError, MethodNotAllowed, NoSuchPage, answer_to, mistake
from .messages import MessageEndpoints
from .pages import Pages
from .queues import QueueEndpoints
from .routes import Endpoint, pattern, routes

FINISHED_ANYWAY: Final = frozenset({"PUT", "POST", "DELETE"})
"""Methods whose work goes on when their client has gone: some never wait for the answer."""

CLEANUP: Final = 1.0
"""Seconds for what is left of a connection when its requests have ended."""


class Gateway:
    """Lives in one event loop, and is started once."""

    def __init__(
        self, store: Store, health: Health, clock: Clock, log: Log, patience: Patience | None = None
    ) -> None:
        self._log = log
        self._patience = patience or Patience()
        self._asking = Asking(store, log, self._patience)
        self._running: set[asyncio.Task[Any]] = set()
        self._refusing = False
        self._pages: set[Endpoint] = set()
        self._runner = web.AppRunner(
            self._application(
                QueueEndpoints(self._asking, clock), MessageEndpoints(self._asking), Pages(health)
            ),
            access_log=None,
            logger=_library_log(),
            # A receive whose client has gone must lease nothing.
            handler_cancellation=True,
            # What comes back must be what was sent, and a few bytes must not become a gigabyte.
            auto_decompress=False,
            keepalive_timeout=self._patience.idle,
            shutdown_timeout=CLEANUP,
        )

    def _application(
        self, queues: QueueEndpoints, messages: MessageEndpoints, pages: Pages
    ) -> web.Application:
        application = web.Application(middlewares=[self._edge])
        for route in routes(queues, messages, pages):
            application.router.add_route(
                route.method, pattern(route.path), route.endpoint, expect_handler=_expect_nothing
            )
            if route.is_page:
                self._pages.add(route.endpoint)
        return application

    # Start and stop.

    async def start(self, host: str, port: int) -> int:
        """Return the port that is listened at, once requests are served."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        listened: int = self._runner.addresses[0][1]
        return listened

    def refuse(self) -> None:
        """Let no new request do anything: it is told to try again."""
        self._refusing = True

    async def stop(self, grace: float) -> None:
        """Return once all is closed; requests that haven't ended after `grace` seconds are cut off."""
        self.refuse()
        if self._running and grace > 0:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in self._running:
            task.cancel()
        await self._runner.cleanup()
        while self._running:
            await asyncio.wait(set(self._running))
        await self._asking.close()

    # Each request.

    @web.middleware
    async def _edge(self, request: web.Request, handler: Endpoint) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is not None:
            self._keep(task)
        if request.method not in FINISHED_ANYWAY:
            return await self._answer(request, handler)
        return await asyncio.shield(self._keep(asyncio.create_task(self._answer(request, handler))))

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _answer(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        """The response; `CancelledError` where nobody is left who could get it, as aiohttp wants it."""
        try:
            if self._refusing and request.match_info.handler not in self._pages:
                raise Draining
            response = await endpoint(request)
        except ConnectionError as error:
            raise asyncio.CancelledError from error
        except Exception as error:
            response = self._refusal(request, error)
            if request.writer.output_size:
                # An answer is under way already: it can only be cut off.
                raise asyncio.CancelledError from error
        if self._refusing or not request.content.is_eof():
            # What is left of a body that nobody wants is not worth waiting for.
            response.force_close()
        return response

    def _refusal(self, request: web.Request, error: Exception) -> web.StreamResponse:
        response: web.StreamResponse | None = None
        match error:
            case StoreError() | GatewayError():
                response = answer_to(error)
            case web.HTTPMethodNotAllowed():
                response = answer_to(MethodNotAllowed(error.method, error.allowed_methods))
            case web.HTTPNotFound():
                response = answer_to(NoSuchPage())
        if response is None:
            self._log.error(
                "a request failed by a mistake of the server", method=request.method, exc_info=error
            )
            response = mistake()
        return response


async def _expect_nothing(request: web.Request) -> None:
    """Who waits for "100 Continue" before he sends a body is told when somebody reads it."""


class _OurMistakes(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is more than that somebody doesn't speak HTTP."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


def _library_log() -> logging.Logger:
    log = logging.getLogger("spoolrack_server.gateway")
    log.addFilter(_OUR_MISTAKES)
    return log


_OUR_MISTAKES: Final = _OurMistakes()
