"""The dashboard's view of the server's measurements: the last hour, and the machine.

The history of a queue takes MONITOR of that queue, as its metrics do. The disk, the memory, the
processes and the folder are shown only with MONITOR of all queues, as `/-/metrics` is.
"""

from __future__ import annotations

from aiohttp import web

from .. import convert
from ..access.permissions import Permission
from ..gateway.context import GatewayContext
from ..observability.history import EVERY
from ..observability.observer import Observer
from .queries import MOST_QUEUES, PRIVATE
from .request_permissions import RequestPermissions


class Monitoring:
    """The handlers of the last hour and the machine. Lives in one event loop."""

    def __init__(
        self, context: GatewayContext, permits: RequestPermissions, observer: Observer
    ) -> None:
        self._context = context
        self._permits = permits
        self._observer = observer

    async def history(self, request: web.Request) -> web.StreamResponse:
        name = convert.queue_name(request.match_info["queue"])
        self._permits.require(request, Permission.MONITOR, name)
        await self._context.read(self._context.store.queue, name)
        return web.json_response(await self._observer.history(name), headers=PRIVATE)

    async def trends(self, request: web.Request) -> web.StreamResponse:
        is_wanted, metrics = self._permits.queue_filter(request), self._context.store.metrics
        names = [name for name in await self._context.read(metrics.names) if is_wanted(name)]
        found = await self._observer.trends(names[:MOST_QUEUES])
        return web.json_response({"queues": found, "every": EVERY}, headers=PRIVATE)

    async def resources(self, request: web.Request) -> web.StreamResponse:
        self._permits.require_everywhere(request, Permission.MONITOR)
        return web.json_response(await self._observer.resources(), headers=PRIVATE)
