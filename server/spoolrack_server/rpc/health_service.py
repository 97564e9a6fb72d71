"""gRPC's health service, and HTTP's `/-/health` beside it: two ways to ask for one `Health`.

The library's own servicer is not used: its `Watch` forgets the other watchers when one of them leaves,
and a watcher would delay every graceful stop.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ..app.health import Health
from ..wire.contract import SERVED

NAMES: Final = frozenset({"", *(service.full_name for service in SERVED)})
"""The names under which one may ask; the empty one means the whole server."""


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
