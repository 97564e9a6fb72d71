"""What is served under `/-/`, which no queue's name can be: health, and what else is served."""

from __future__ import annotations

from importlib import resources

from aiohttp import web

from ..health import Health


class Pages:
    def __init__(self, health: Health) -> None:
        self._health = health

    async def health(self, request: web.Request) -> web.StreamResponse:
        if self._health.why is None:
            return web.json_response({"status": "SERVING"})
        return web.json_response({"status": "NOT_SERVING", "why": self._health.why}, status=503)

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=openapi(), content_type="application/json")


def openapi() -> str:
    """The description of what is served, as OpenAPI 3.1 has it. Kept by hand."""
    return resources.files(__package__).joinpath("openapi.json").read_text()
