"""The HTTP front: for now, only whether the server serves.

Paths of ours begin with `/-/`, which no queue's name can.
"""

from __future__ import annotations

from aiohttp import web

from .health import Health


def application(health: Health) -> web.Application:
    async def tell_health(request: web.Request) -> web.Response:
        if health.why is None:
            return web.json_response({"status": "SERVING"})
        return web.json_response({"status": "NOT_SERVING", "why": health.why}, status=503)

    async def explain(request: web.Request) -> web.Response:
        return web.Response(
            status=404,
            text="There is nothing here: ask /-/health whether the server is well, "
            "and speak gRPC (spoolrack.v1.QueueService) on its own port for the queues.\n",
        )

    app = web.Application()
    app.router.add_get("/-/health", tell_health)
    app.router.add_route("*", "/{path:.*}", explain)
    return app
