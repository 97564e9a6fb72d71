"""The endpoints of a queue's schedules: list them, create, pause, resume and delete one."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    PauseSchedule,
    QueuedSchedule,
)

from ..access.permissions import Permission
from ..schedule_service import creation
from ..scheduler import next_tick
from . import headers
from .context import GatewayContext
from .queue_endpoints import QueueEndpoints, name_of
from .request_checks import IDENTITY

MOST: Final = 1_000
"""Schedules in one answer: more than a queue can have."""
FIELDS: Final = frozenset(
    {"cron", "time_zone", "body", "binary_body", "attributes", "binary_attributes", "group"}
)


class ScheduleEndpoints:
    """The handlers of schedules. Lives in one event loop."""

    def __init__(self, context: GatewayContext, queues: QueueEndpoints, clock: Clock) -> None:
        self._context = context
        self._queues = queues
        self._clock = clock

    async def list_schedules(self, request: web.Request) -> web.StreamResponse:
        queue = name_of(request)
        found = await self._context.read(lambda: self._context.store.schedules(queue=queue, limit=MOST))
        return web.json_response({"schedules": [described(each) for each in found]})

    async def put(self, request: web.Request) -> web.StreamResponse:
        queue = name_of(request)
        # A schedule sends messages to its queue.
        self._context.guard.require(request[IDENTITY], Permission.SEND, queue)
        asked = await self._queues.json_object(request, queue)
        made = await self._context.submit(
            creation_of(self._clock, queue, request.match_info["schedule"], asked)
        )
        return web.json_response(described(made), status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["schedule"]
        await self._context.submit(DeleteSchedule(queue=name_of(request), name=name))
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=True)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=False)

    async def _set_paused(self, request: web.Request, *, is_paused: bool) -> web.StreamResponse:
        queue, name = name_of(request), request.match_info["schedule"]
        asked = PauseSchedule(queue=queue, name=name, is_paused=is_paused)
        return web.json_response(described(await self._context.submit(asked)))


def creation_of(clock: Clock, queue: str, name: str, asked: dict[str, Any]) -> CreateSchedule:
    """Return the schedule that JSON declares; raise `InvalidRequest`."""
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
    return creation(
        clock,
        queue=queue,
        name=name,
        cron_text=_text(asked, "cron"),
        time_zone=_text(asked, "time_zone"),
        body=_text(asked, "body").encode(errors="replace") or body,
        attributes=attributes,
        group=_text(asked, "group"),
    )


def described(each: QueuedSchedule) -> dict[str, Any]:
    """Return a schedule as JSON."""
    schedule, following = each.schedule, next_tick(each)
    found: dict[str, Any] = {
        "queue": each.queue,
        "name": each.name,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "group": schedule.group,
        "paused": schedule.is_paused,
        "create_time": headers.time_text(schedule.created_at),
        **body_as_json(schedule.body),
        **attributes_as_json(schedule.attributes),
    }
    for name, tick in (("last_tick_time", each.last_tick), ("next_tick_time", following)):
        if tick is not None:
            found[name] = headers.time_text(Millis(tick * 1_000))
    return found


def body_as_json(body: bytes) -> dict[str, str]:
    """Return a body as `body` if it is text, and else in base64 as `binary_body`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"binary_body": base64.b64encode(body).decode()}


def attributes_as_json(attributes: Attributes) -> dict[str, dict[str, str]]:
    """Return attributes as `attributes` and `binary_attributes`, these in base64."""
    found: dict[str, dict[str, str]] = {"attributes": {}, "binary_attributes": {}}
    for name, value in attributes.items():
        if isinstance(value, str):
            found["attributes"][name] = value
        else:
            found["binary_attributes"][name] = base64.b64encode(value).decode()
    return found


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
