"""Health of this server: whether it serves, and the reason if it doesn't.

One state, which the drain and a failed store change, and two ways to ask: gRPC's health service here
and `/-/health` in `http`. The library's own servicer is not used: its `Watch` forgets the other
watchers when one of them leaves, and a watcher would delay every graceful stop.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from .contract import SERVED

NAMES: Final = frozenset({"", *(service.full_name for service in SERVED)})
"""The names under which one may ask; the empty one means the whole server."""


class Health:
    """The health of this server. Lives in one event loop, and is not thread-safe."""

    def __init__(self) -> None:
        self.why: str | None = None
        """Why the server doesn't serve; None while it does."""
        self.is_final = False
        """It will never serve again."""
        self.is_starting = False
        """It doesn't serve yet; only a probe can ask then."""
        self._changed = asyncio.Event()

    @property
    def state(self) -> str:
        """The state in a word."""
        if self.is_final:
            return "draining"
        if self.why is not None:
            return "failed"
        return "starting" if self.is_starting else "serving"

    @property
    def is_serving(self) -> bool:
        return self.state == "serving"

    def fail(self, why: str) -> None:
        """Stop serving, for `why`; the first reason stays."""
        self.why = self.why or why
        # Present waiters have this event; later ones wait for another.
        self._changed.set()
        self._changed = asyncio.Event()

    def finish(self, why: str) -> None:
        """Stop serving for good: watchers are notified, and their streams end."""
        self.is_final = True
        self.fail(why)

    async def change(self) -> None:
        """Return once something has changed after this call."""
        await self._changed.wait()


class HealthService(health_pb2_grpc.HealthServicer):
    """The service `grpc.health.v1.Health` over a `Health`."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def Check(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ],
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "This server has no such service.")
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    async def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ],
    ) -> None:
        told: int | None = None
        while True:
            status = self._status(request.service)
            if status != told:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                told = status
            elif self._health.is_final:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "The server is shutting down.")
            else:
                await self._health.change()

    def _status(self, service: str) -> int:
        if service not in NAMES:
            return int(health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        if self._health.why is None:
            return int(health_pb2.HealthCheckResponse.SERVING)
        return int(health_pb2.HealthCheckResponse.NOT_SERVING)
