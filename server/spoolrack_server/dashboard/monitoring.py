"""The dashboard's view of the server's measurements: the last hour, and the machine.

The history of a queue takes MONITOR of that queue, as its metrics do. The disk, the memory, the
processes and the folder are shown only with MONITOR of all queues, as `/-/metrics` is.
"""

from __future__ import annotations

from aiohttp import web

from ..app.caller import Permission
from ..app.queues import Queues
from ..http.request_checks import CALLER
from ..metrics.history import EVERY
from ..metrics.observer import Observer
from .queries import MOST_QUEUES, PRIVATE, contains


class Monitoring:
    """The handlers of the last hour and the machine. Lives in one event loop."""

    def __init__(self, queues: Queues, observer: Observer) -> None:
        self._queues = queues
        self._observer = observer

    async def history(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["queue"]
        await self._queues.counts(request[CALLER], name)
        return web.json_response(await self._observer.history(name), headers=PRIVATE)

    async def trends(self, request: web.Request) -> web.StreamResponse:
        names = await self._queues.names(request[CALLER], contains(request))
        found = await self._observer.trends(names[:MOST_QUEUES])
        return web.json_response({"queues": found, "every": EVERY}, headers=PRIVATE)

    async def resources(self, request: web.Request) -> web.StreamResponse:
        request[CALLER].require_everywhere(Permission.MONITOR)
        return web.json_response(await self._observer.resources(), headers=PRIVATE)
