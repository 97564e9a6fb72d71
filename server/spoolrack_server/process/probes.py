"""The listener for probes: liveness and readiness only.

Without TLS and without tokens, because a prober often has neither; so an answer is a word. The operator
restricts access to the port. Starting raises `AddressUnusable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from ..app.health import Health
from ..http.http_listener import HttpListener
from ..http.request_bodies import HttpLimits
from ..siblings.worker_processes import WorkerProcesses
from ..system.addresses import AddressUnusable, address_text, reserve
from ..system.limits import PROBES, Limits
from ..system.logs import Log
from ..system.loop_thread import LoopThread

LIVE: Final = "/-/health/live"
READY: Final = "/-/health/ready"
IDLE: Final = 5.0
"""Seconds that a connection is kept for another probe."""

Question = Callable[[], Awaitable[str]]
"""Answers with what is wrong, in a word; empty: nothing."""


class Probes:
    """The listener for probes of one server. Lives in one event loop, and is started once."""

    def __init__(
        self,
        host: str,
        port: int,
        log: Log,
        *,
        lives: Question,
        is_ready: Question,
        thread: LoopThread | None = None,
    ) -> None:
        """With a `thread` it is served there, and asks there."""
        self._thread = thread
        self.loop: asyncio.AbstractEventLoop | None = None
        """That in which it was started."""
        self._host = host
        self.port = port
        """The port that is listened at, once it is started."""
        self._lives = lives
        self._is_ready = is_ready
        application = web.Application()
        application.router.add_get(LIVE, self._live)
        application.router.add_get(READY, self._ready)
        application.router.add_route("*", "/{rest:.*}", _nothing)
        self._listener = HttpListener(application, HttpLimits(idle=IDLE), log, _refuse_head)

    @property
    def address(self) -> str:
        return address_text(self._host, self.port)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        reserve(self._host, self.port).close()
        limits = Limits(connections=PROBES)
        starts = self._listener.start(self._host, self.port, limits=limits)
        try:
            self.port = await (starts if self._thread is None else self._thread.run(starts))
        except OSError as error:
            raise AddressUnusable(self.address, error.strerror or str(error)) from error

    async def stop(self) -> None:
        stops = self._listener.stop(grace=0)
        if self._thread is None:
            await stops
        else:
            await self._thread.run(stops)
            self._thread.end()

    async def _live(self, request: web.Request) -> web.Response:
        return _answer("LIVE", "NOT_LIVE", await self._lives())

    async def _ready(self, request: web.Request) -> web.Response:
        return _answer("READY", "NOT_READY", await self._is_ready())


def probes_of(health: Health, host: str, port: int, log: Log) -> Probes:
    """Return the probes of the server in this event loop."""

    async def lives() -> str:
        assert probes.loop is not None
        return "" if await health.lives(probes.loop) else "the event loop doesn't answer"

    async def is_ready() -> str:
        return "" if health.is_serving else health.state

    probes = Probes(
        host, port, log, lives=lives, is_ready=is_ready, thread=LoopThread("spoolrack-probes")
    )
    return probes


def probes_of_all(
    workers: WorkerProcesses, host: str, port: int, log: Log, *, is_draining: Callable[[], bool]
) -> Probes:
    """Return the probes of a supervisor: it is live if all its worker processes are, and ready if all
    running ones serve.

    A dead one is started again, and the kernel gives it no connection meanwhile.
    """

    async def lives() -> str:
        states = await workers.states()
        silent = sorted(number for number, state in states.items() if state is None)
        return f"no answer from {', '.join(map(str, silent))}" if silent else ""

    async def is_ready() -> str:
        if is_draining():
            return "draining"
        states = set((await workers.states()).values())
        for state in (None, "failed", "draining", "stalled"):
            if state in states:
                return state or "silent"
        return "" if "serving" in states else "starting"

    return Probes(host, port, log, lives=lives, is_ready=is_ready)


def _answer(well: str, ill: str, why: str) -> web.Response:
    if why:
        return web.json_response({"status": ill, "why": why}, status=503)
    return web.json_response({"status": well})


def _refuse_head(request: web.BaseRequest, error: Exception) -> web.StreamResponse:
    return web.json_response({"status": "NO_REQUEST", "why": str(error)}, status=400)


async def _nothing(request: web.Request) -> web.Response:
    return web.json_response({"status": "NO_SUCH_PAGE"}, status=404)
