"""The endpoints of monitoring: health, metrics, the server, its machine, and queues over time.

Owns the bounds of each answer, so that an open page costs the same with ten messages and with a
million. A queue that the caller may not monitor is left out of lists, and refused by name.
"""

from __future__ import annotations

from importlib import resources
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest

from ..app.caller import ALL_QUEUES, Permission
from ..app.health import Health
from ..http.http_context import HttpContext, answer
from ..http.request_checks import CALLER
from ..metrics.history import EVERY
from ..metrics.observer import Observer
from ..wire.json_form import time_text

WORTH_PACKING: Final = 16 * 1024
"""Bytes of metrics."""
MOST_QUEUES: Final = 1_000
"""In one answer; `contains` finds others."""
BUCKETS: Final = 11
"""Bounds of ages, each twice the one before; qshape's are five minutes."""


class MonitoringEndpoints:
    """The handlers of monitoring. Lives in one event loop."""

    def __init__(self, context: HttpContext, health: Health, observer: Observer) -> None:
        self._context = context
        self._queues = context.app.queues
        self._health = health
        self._observer = observer

    # Health, metrics and the description.

    async def health(self, request: web.Request) -> web.StreamResponse:
        why = self._health.reason
        if why is None:
            return web.json_response({"status": "SERVING", **self._shard(), **await self._faults()})
        return web.json_response({"status": "NOT_SERVING", "why": why}, status=503)

    async def live(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "LIVE"})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        if self._health.is_serving:
            return web.json_response({"status": "READY", **self._shard(), **await self._faults()})
        return web.json_response({"status": "NOT_READY", "why": self._health.state}, status=503)

    def _shard(self) -> dict[str, str]:
        """Return which shard the server is, if it is one."""
        shard = self._context.app.shard
        return {} if shard is None else {"shard": str(shard)}

    async def _faults(self) -> dict[str, list[str]]:
        """Return why sends are refused, if they are, and which background tasks fail. The server is
        ready: receives and deletes go on."""
        refusals, failing = await self._observer.refusals(), self._health.failing
        return {
            **({"refuses_sends": refusals} if refusals else {}),
            **({"failing": failing} if failing else {}),
        }

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        page, content_type = await self._observer.page(request.headers.get("Accept", ""))
        response = web.Response(body=page, headers={"Content-Type": content_type})
        if len(page) >= WORTH_PACKING:
            response.enable_compression()
        return response

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=openapi(), content_type="application/json")

    # Measurements.

    async def server(self, request: web.Request) -> web.StreamResponse:
        caller, why = request[CALLER], self._health.why
        everywhere = caller.permissions(ALL_QUEUES)
        somewhere = [each for each in Permission if caller.may_somewhere(each)]
        return answer(
            {
                "status": "SERVING" if why is None else "NOT_SERVING",
                "why": why,
                **({} if self._health.doubt is None else {"doubt": self._health.doubt}),
                "version": version("spoolrack"),
                "time": time_text(self._context.clock.wall()),
                "uptime": self._observer.uptime / 1_000,
                **self._shard(),
                "identity": caller.name,
                "permissions": {
                    "all_queues": [each.value for each in everywhere],
                    "some_queues": [each.value for each in somewhere],
                },
            }
        )

    async def resources(self, request: web.Request) -> web.StreamResponse:
        return answer(await self._observer.resources())

    async def history(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["queue"]
        await self._queues.counts(request[CALLER], name)
        return answer(await self._observer.history(name))

    async def trends(self, request: web.Request) -> web.StreamResponse:
        names = await self._queues.names(request[CALLER], request.query.get("contains", ""))
        found = await self._observer.trends(names[:MOST_QUEUES])
        return answer({"queues": found, "every": EVERY})

    async def ages(self, request: web.Request) -> web.StreamResponse:
        bounds = _bounds(request.query.get("first", "15"))
        names = await self._queues.names(request[CALLER], request.query.get("contains", ""))
        return answer(
            {**await self._aged(names[:MOST_QUEUES], bounds), "are_all": len(names) <= MOST_QUEUES}
        )

    async def queue_ages(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["queue"]
        await self._queues.counts(request[CALLER], name)
        return answer(await self._aged([name], _bounds(request.query.get("first", "15"))))

    async def _aged(self, names: Any, bounds: list[Millis]) -> dict[str, Any]:
        found = await self._queues.ages(names, bounds)
        return {
            "bounds": [bound / 1_000 for bound in bounds],
            "queues": [{"name": name, "counts": ages.counts} for name, ages in found.items()],
        }


def _bounds(first: str) -> list[Millis]:
    if first not in ("1", "15", "300"):
        raise InvalidRequest(what="first", value=first, rule="must be 1, 15 or 300 seconds")
    return [Millis(int(first) * 1_000 << n) for n in range(BUCKETS)]


def openapi() -> str:
    """Return the OpenAPI 3.1 description of the endpoints, which is maintained by hand."""
    return resources.files(__package__).joinpath("openapi.json").read_text()
