"""HTTP listener: its start and stop, and the tasks that a stop waits for.

aiohttp serves the connections; `listen_sockets` bounds them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from spoolrack_store.model.errors import StoreError

from ..system.limits import LINE, Limits
from ..system.logs import Log
from .listen_sockets import Acceptor, listen
from .request_bodies import HttpLimits
from .request_checks import require_sane_head

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

SERVER: Final = "spoolrack"
"""The header `Server` of each response: aiohttp would tell its version and Python's."""
NO_REQUEST: Final = (
    "This is no request of HTTP/1.1: a line of its head can't be read. A header may have no control "
    "characters, such as the CR at the end of a token from a file with CRLF.\n"
)
TOO_LONG: Final = f"A line of the request's head has over {LINE} bytes.\n"
CLEANUP: Final = 1.0
"""Seconds for what is left of a connection when its requests have ended."""


class HttpListener:
    """An HTTP listener. Lives in one event loop, and is started once."""

    def __init__(
        self,
        application: web.Application,
        http_limits: HttpLimits,
        log: Log,
        refuse_head: Callable[[web.BaseRequest, Exception], web.StreamResponse],
    ) -> None:
        """`refuse_head` makes the response to a request whose head isn't sane."""
        self.is_refusing = False
        """Whether no new request may do anything."""
        self._refuse_head = refuse_head
        self._log = log
        self._running: set[asyncio.Task[Any]] = set()
        self._acceptor: Acceptor | None = None
        self._options: dict[str, Any] = {
            "access_log": None,
            "logger": _library_log(),
            # A body must be stored as it was sent, and a few bytes must not become a gigabyte.
            "auto_decompress": False,
            "max_line_size": LINE,
            "max_field_size": LINE,
            "keepalive_timeout": http_limits.idle,
        }
        application.on_response_prepare.append(_name_server)
        # A receive whose client has gone must lease nothing: hence the cancellation.
        self._runner = web.AppRunner(
            application, handler_cancellation=True, shutdown_timeout=CLEANUP, **self._options
        )

    async def start(
        self,
        host: str,
        port: int,
        *,
        shares_port: bool = False,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> int:
        """Start serving; return the port.

        With `shares_port` other processes may listen at it, too, and the kernel deals out connections.
        Raise `OSError` if the address is no good.
        """
        limits = limits or Limits()
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        server.request_handler = partial(self._begin, server.request_handler)
        listening = listen(host, port, shares_port=shares_port)
        self._acceptor = Acceptor(
            listening,
            partial(_HttpProtocol, server, loop=asyncio.get_running_loop(), **self._options),
            self._log,
            connections=limits.connections,
            handshake=limits.handshake,
            tls=tls,
        )
        listened: int = listening[0].getsockname()[1]
        self._acceptor.start()
        return listened

    async def stop(self, grace: float) -> None:
        """Return once all is closed; requests that haven't ended after `grace` seconds are
        cancelled."""
        self.is_refusing = True
        if self._acceptor is not None:
            self._acceptor.close()
        if self._running and grace > 0:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in self._running:
            task.cancel()
        await self._runner.cleanup()
        while self._running:
            await asyncio.wait(set(self._running))

    def track(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        """Make a stop wait for a task."""
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def know(self, request: web.BaseRequest) -> None:
        """Note that a request is of a known caller."""
        if self._acceptor is not None and request.transport is not None:
            self._acceptor.know(request.transport)

    def track_current(self) -> None:
        """Make a stop wait for the current task."""
        task = asyncio.current_task()
        assert task is not None
        self.track(task)

    async def _begin(self, route: _Handler, request: web.BaseRequest) -> web.StreamResponse:
        """Refuse a head that isn't sane before aiohttp looks for its route, and acts on it."""
        try:
            require_sane_head(request)
        except StoreError as error:
            response = self._refuse_head(request, error)
            response.headers[hdrs.SERVER] = SERVER
            response.force_close()
            return response
        return await route(request)


class _HttpProtocol(web.RequestHandler):
    """The protocol of one connection."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to what is no request of HTTP. It repeats none of it, as aiohttp's own
        text does: the header that can't be read may be a credential."""
        told = TOO_LONG if isinstance(exc, LineTooLong) else NO_REQUEST
        response = super().handle_error(request, status, exc, told)
        response.headers[hdrs.SERVER] = SERVER
        return response


async def _name_server(request: web.Request, response: web.StreamResponse) -> None:
    """Name no version of what serves."""
    response.headers[hdrs.SERVER] = SERVER


async def expect_nothing(request: web.Request) -> None:
    """Send nothing yet: the reader of the body sends "100 Continue"."""


class _OurMistakes(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is more than a client that doesn't speak HTTP, or has hung up."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


_OUR_MISTAKES: Final = _OurMistakes()


def _library_log() -> logging.Logger:
    log = logging.getLogger("spoolrack_server.http")
    log.addFilter(_OUR_MISTAKES)
    return log
