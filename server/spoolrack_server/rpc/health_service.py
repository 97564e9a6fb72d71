"""gRPC's health service, and HTTP's `/-/health` beside it: two ways to ask for one `Health`.

The library's own servicer is not used: its `Watch` forgets the other watchers when one of them leaves,
and a watcher would delay every graceful stop.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from typing import Any, Final, cast

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from ..app.health import Health
from .authorized_calls import Context
from .calls import put
from .served import SERVED

SERVICE: Final[ServiceDescriptor] = cast(
    ServiceDescriptor, health_pb2.DESCRIPTOR.services_by_name["Health"]
)
NAMES: Final = frozenset({"", *(service.full_name for service in SERVED)})
"""The names under which one may ask; the empty one means the whole server."""


class HealthService:
    """The service `grpc.health.v1.Health` over a `Health`, for `PublicCalls`."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def Check(self, request: Any, context: Context) -> Message:
        if request.service not in NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "This server has no such service.")
        return self._response(request.service)

    async def List(self, request: Any, context: Context) -> Message:
        # Any: the stubs of gRPC lack the call.
        messages: Any = health_pb2
        listed: Message = messages.HealthListResponse(
            statuses={name: self._response(name) for name in sorted(NAMES)}
        )
        return listed

    async def Watch(self, request: Any, context: Context) -> None:
        told: int | None = None
        while True:
            status = self._status(request.service)
            if status != told:
                await put(context, self._response(request.service).SerializeToString())
                told = status
            elif self._health.is_final:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "The server is shutting down.")
            else:
                await self._health.change()

    def _response(self, service: str) -> health_pb2.HealthCheckResponse:
        return health_pb2.HealthCheckResponse(status=self._status(service))

    def _status(self, service: str) -> int:
        if service not in NAMES:
            return int(health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        if self._health.reason is None:
            return int(health_pb2.HealthCheckResponse.SERVING)
        return int(health_pb2.HealthCheckResponse.NOT_SERVING)
