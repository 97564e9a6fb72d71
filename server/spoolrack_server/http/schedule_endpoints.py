"""The endpoints of a queue's schedules: list them, create, pause, resume and delete one."""

from __future__ import annotations

from aiohttp import web

from ..app.bounds import MAX_COUNT
from ..app.schedules import Schedules
from ..wire import convert
from ..wire.json_form import rendered
from .json_requests import content_of
from .queue_endpoints import QueueEndpoints, queue_of
from .request_checks import CALLER


class ScheduleEndpoints:
    """The handlers of schedules. Lives in one event loop."""

    def __init__(self, schedules: Schedules, queues: QueueEndpoints) -> None:
        self._schedules = schedules
        self._queues = queues

    async def list_schedules(self, request: web.Request) -> web.StreamResponse:
        # One page: a queue can't have more.
        page = await self._schedules.list(request[CALLER], queue=queue_of(request), page_size=MAX_COUNT)
        return web.json_response(
            {"schedules": [rendered(convert.schedule(each)) for each in page.items]}
        )

    async def put(self, request: web.Request) -> web.StreamResponse:
        queue = queue_of(request)
        content = content_of(await self._queues.json_object(request, queue))
        made = await self._schedules.create(
            request[CALLER], queue, request.match_info["schedule"], **content
        )
        return web.json_response(rendered(convert.schedule(made)), status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        await self._schedules.delete(request[CALLER], queue_of(request), request.match_info["schedule"])
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=True)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=False)

    async def _set_paused(self, request: web.Request, *, is_paused: bool) -> web.StreamResponse:
        paused = await self._schedules.pause(
            request[CALLER],
            queue_of(request),
            request.match_info["schedule"],
            is_paused=is_paused,
        )
        return web.json_response(rendered(convert.schedule(paused)))
