"""The listener for probes: liveness and readiness only.

Without TLS and without tokens, because a prober often has neither; so an answer is a word. The operator
restricts access to the port. Starting raises `AddressUnusable`.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from ..addresses import AddressUnusable, address_text, reserve
from ..health import Health
from ..worker_processes import WorkerProcesses

LIVE: Final = "/-/health/live"
READY: Final = "/-/health/ready"
IDLE: Final = 5.0
"""Seconds that a connection is kept for another probe."""

Question = Callable[[], Awaitable[str]]
"""Answers with what is wrong, in a word; empty: nothing."""


class Probes:
    """The listener for probes of one server. Lives in one event loop, and is started once."""

    def __init__(self, host: str, port: int, *, lives: Question, is_ready: Question) -> None:
        self._host = host
        self.port = port
        """The port that is listened at, once it is started."""
        self._lives = lives
        self._is_ready = is_ready
        application = web.Application()
        application.router.add_get(LIVE, self._live)
        application.router.add_get(READY, self._ready)
        application.router.add_route("*", "/{rest:.*}", _nothing)
        self._runner = web.AppRunner(
            application, access_log=None, keepalive_timeout=IDLE, shutdown_timeout=0.1
        )

    @property
    def address(self) -> str:
        return address_text(self._host, self.port)

    async def start(self) -> None:
        reserve(self._host, self.port).close()
        await self._runner.setup()
        try:
            site: web.BaseSite = web.TCPSite(self._runner, self._host, self.port)
            if self._host == "::":
                # asyncio would take it for the addresses of IPv6 alone, which the other ports don't.
                both = socket.create_server(
                    ("::", self.port), family=socket.AF_INET6, dualstack_ipv6=True
                )
                site = web.SockSite(self._runner, both)
            await site.start()
        except OSError as error:
            raise AddressUnusable(self.address, error.strerror or str(error)) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _live(self, request: web.Request) -> web.Response:
        return _answer("LIVE", "NOT_LIVE", await self._lives())

    async def _ready(self, request: web.Request) -> web.Response:
        return _answer("READY", "NOT_READY", await self._is_ready())


def probes_of(health: Health, host: str, port: int) -> Probes:
    """Return the probes of a server of one process, which is live if it answers at all."""

    async def lives() -> str:
        return ""

    async def is_ready() -> str:
        return "" if health.is_serving else health.state

    return Probes(host, port, lives=lives, is_ready=is_ready)


def probes_of_all(
    workers: WorkerProcesses, host: str, port: int, *, is_draining: Callable[[], bool]
) -> Probes:
    """Return the probes of a supervisor: it is live if all its worker processes answer, and ready if
    all running ones serve.

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
        for state in (None, "failed", "draining"):
            if state in states:
                return state or "silent"
        return "" if "serving" in states else "starting"

    return Probes(host, port, lives=lives, is_ready=is_ready)


def _answer(well: str, ill: str, why: str) -> web.Response:
    if why:
        return web.json_response({"status": ill, "why": why}, status=503)
    return web.json_response({"status": well})


async def _nothing(request: web.Request) -> web.Response:
    return web.json_response({"status": "NO_SUCH_PAGE"}, status=404)
