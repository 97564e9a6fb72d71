"""Endpoints under `/-/`, which can't be a queue's name: health, metrics, and others."""

from __future__ import annotations

from importlib import resources
from typing import Final

from aiohttp import web

from ..app.health import Health
from ..metrics.observer import Observer

WORTH_PACKING: Final = 16 * 1024
"""Bytes of metrics."""


class AdminEndpoints:
    def __init__(self, health: Health, observer: Observer) -> None:
        self._health = health
        self._observer = observer

    async def health(self, request: web.Request) -> web.StreamResponse:
        if self._health.why is None:
            return web.json_response({"status": "SERVING", **await self._refusals()})
        return web.json_response({"status": "NOT_SERVING", "why": self._health.why}, status=503)

    async def live(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "LIVE"})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        if self._health.is_serving:
            return web.json_response({"status": "READY", **await self._refusals()})
        return web.json_response({"status": "NOT_READY", "why": self._health.state}, status=503)

    async def _refusals(self) -> dict[str, list[str]]:
        """Return why sends are refused, if they are. The server is ready: receives and deletes go
        on."""
        found = await self._observer.refusals()
        return {"refuses_sends": found} if found else {}

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        page, content_type = await self._observer.page(request.headers.get("Accept", ""))
        response = web.Response(body=page, headers={"Content-Type": content_type})
        if len(page) >= WORTH_PACKING:
            response.enable_compression()
        return response

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=openapi(), content_type="application/json")


def openapi() -> str:
    """Return the OpenAPI 3.1 description of the endpoints, which is maintained by hand."""
    return resources.files(__package__).joinpath("openapi.json").read_text()
