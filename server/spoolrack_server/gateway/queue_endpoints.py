"""The endpoints of a queue: get, create, update, and delete it with all its messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import (
    InvalidRequest,
    InvalidSetting,
    MessageTooLarge,
    QueueExists,
    QueueNotFound,
)
from spoolrack_store.model.settings import SCHEMA, QueueSettings

from .. import convert
from ..app.bounds import queue_name
from ..app.queues import QueueChanges
from . import headers
from .context import GatewayContext
from .http_errors import SettingsTooLarge
from .json_form import rendered
from .request_checks import CALLER

LARGEST_SETTINGS: Final = 64 * 1024
"""Bytes of JSON."""
_DEFAULTS: Final = QueueSettings()


class QueueEndpoints:
    """The handlers of queues. Lives in one event loop."""

    def __init__(self, context: GatewayContext, clock: Clock) -> None:
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


def object_in(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raise `InvalidRequest` for anything else."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(what="the body", value=str(error), rule="must be JSON") from error
    if not isinstance(found, dict):
        raise InvalidRequest(what="the body", value=type(found).__name__, rule="must be a JSON object")
    return found


def declared(asked: Mapping[str, Any]) -> tuple[QueueSettings, dict[str, str]]:
    """Return the settings and the labels that a body declares: settings by their names, with spans in
    seconds, and `labels`."""
    labels = asked.get("labels", {})
    if not isinstance(labels, dict):
        raise InvalidSetting(name="labels", value=labels, rule="must be an object")
    changes = changes_in({name: value for name, value in asked.items() if name != "labels"})
    return _DEFAULTS.changed(changes), labels


def changes_in(found: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings in an object of JSON by the store's names, with spans in milliseconds."""
    return {
        name: _millis(name, value) if name in SCHEMA and SCHEMA[name].is_span else value
        for name, value in found.items()
    }


def _millis(name: str, seconds: object) -> Millis:
    # An infinite span, or none at all, would not come through the store's bounds as an integer.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not abs(seconds) < 1e15:
        raise InvalidSetting(name=name, value=seconds, rule="must be a number of seconds")
    return Millis(round(seconds * 1_000))
