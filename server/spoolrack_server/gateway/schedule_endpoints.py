"""The endpoints of a queue's schedules: list them, create, pause, resume and delete one."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.errors import InvalidRequest

from .. import convert
from ..app.bounds import MAX_COUNT
from ..app.schedules import Schedules
from .json_form import rendered
from .queue_endpoints import QueueEndpoints, queue_of
from .request_checks import CALLER

FIELDS: Final = frozenset(
    {"cron", "time_zone", "body", "binary_body", "attributes", "binary_attributes", "group"}
)


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


def content_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the schedule that JSON declares, by the names of `Schedules.create`; raise
    `InvalidRequest`."""
    unknown = sorted(asked.keys() - FIELDS)
    if unknown:
        known = ", ".join(sorted(FIELDS))
        raise InvalidRequest(
            what="the schedule's field", value=unknown[0], rule=f"must be one of {known}"
        )
    if "body" in asked and "binary_body" in asked:
        raise InvalidRequest(what="body", value="twice", rule="goes without binary_body")
    body = _bytes("binary_body", asked["binary_body"]) if "binary_body" in asked else b""
    attributes: dict[str, str | bytes] = dict(_texts(asked, "attributes"))
    for attribute, text in _texts(asked, "binary_attributes").items():
        if attribute in attributes:
            raise InvalidRequest(what="binary_attributes", value=attribute, rule="is an attribute, too")
        attributes[attribute] = _bytes("binary_attributes", text)
    return {
        "cron_text": _text(asked, "cron"),
        "time_zone": _text(asked, "time_zone"),
        "body": _text(asked, "body").encode(errors="replace") or body,
        "attributes": attributes,
        "group": _text(asked, "group"),
    }


def _text(asked: dict[str, Any], name: str) -> str:
    text = asked.get(name, "")
    if not isinstance(text, str):
        raise InvalidRequest(what=name, value=type(text).__name__, rule="must be a text")
    return text


def _texts(asked: dict[str, Any], name: str) -> dict[str, str]:
    found = asked.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidRequest(what=name, value=type(found).__name__, rule="must be an object of texts")
    return found


def _bytes(name: str, text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(what=name, value=text, rule="must be base64") from error
