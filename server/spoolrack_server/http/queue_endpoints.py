"""The endpoints of a queue: get, create, update, and delete it with all its messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import (
    MessageTooLarge,
    QueueExists,
    QueueNotFound,
)

from ..app.bounds import queue_name
from ..app.queues import QueueChanges
from ..wire import convert
from ..wire.json_form import rendered
from . import headers
from .context import HttpContext
from .http_errors import SettingsTooLarge
from .json_requests import declared, object_in
from .request_checks import CALLER

LARGEST_SETTINGS: Final = 64 * 1024
"""Bytes of JSON."""


class QueueEndpoints:
    """The handlers of queues. Lives in one event loop."""

    def __init__(self, context: HttpContext, clock: Clock) -> None:
        self._context = context
        self._queues = context.app.queues
        self._clock = clock

    async def get(self, request: web.Request) -> web.StreamResponse:
        queue = await self._queues.get(request[CALLER], queue_of(request))
        content = rendered(convert.queue(queue, self._clock.wall()))
        kept = {"Cache-Control": "no-store", "ETag": headers.version_tag(queue.version)}
        return web.json_response(content, headers=kept)

    async def put(self, request: web.Request) -> web.StreamResponse:
        caller, name = request[CALLER], queue_of(request)
        version = headers.required_version(request.headers)
        asked = await self.json_object(request, name)
        settings, labels = declared(asked)
        if version is not None:
            replacement = QueueChanges(
                settings=asdict(settings), labels=labels, replaces_labels=True, if_version=version
            )
            changed = await self._queues.update(caller, name, replacement)
            return web.Response(headers={"ETag": headers.version_tag(changed.version)})
        try:
            await self._queues.create(caller, name, settings, labels)
        except QueueExists:
            # A request that names no settings takes the queue as it is, as with softlayer/mq.
            if asked:
                raise
        return web.Response(status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        version = headers.required_version(request.headers) or 0
        try:
            await self._queues.delete(request[CALLER], queue_of(request), if_version=version)
        except QueueNotFound:
            # The queue exists as asked; softlayer/mq says the same.
            return web.Response()
        return web.Response()

    async def json_object(self, request: web.Request, name: str) -> dict[str, Any]:
        """Return the object in the body; an empty one if there is none, or it isn't JSON at all."""
        if request.content_type != "application/json" or not request.can_read_body:
            return {}
        try:
            raw = await self._context.body(request, LARGEST_SETTINGS, name)
        except MessageTooLarge as error:
            raise SettingsTooLarge(LARGEST_SETTINGS) from error
        return object_in(raw) if raw.strip() else {}


def queue_of(request: web.Request) -> str:
    return queue_name(request.match_info["queue"])
