"""The dashboard's changes: queues, their settings and messages, stages, reservations, redrives.

Each change names its object in its body, and is the same use case as over gRPC. It is answered once it
is on stable media.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import InvalidMessage, InvalidRequest, StoreError
from spoolrack_store.model.operations import Send
from spoolrack_store.model.redrive_requests import MAX_SELECTED
from spoolrack_store.model.reservation_requests import MAX_SEQUENCE_NUMBER
from spoolrack_store.model.settings import MAX_ATTRIBUTES, MAX_DELAY, QueueSettings

from ..app.bounds import MAX_COUNT, place
from ..app.caller import Permission
from ..app.queues import QueueChanges
from ..http import headers
from ..http.context import HttpContext
from ..http.json_requests import changes_in, content_of
from ..http.request_checks import CALLER
from ..wire import convert
from ..wire.json_form import rendered
from ..wire.status import INTERNAL, failure_of
from .change_requests import change, text, texts, whole
from .queries import MAX_AGE, PRIVATE


class Actions:
    """The handlers of changes. Lives in one event loop."""

    def __init__(self, context: HttpContext, clock: Clock) -> None:
        self._context = context
        self._app = context.app
        self._clock = clock

    async def delete_messages(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        ids = texts(asked, "ids", most=MAX_COUNT)
        results = await self._app.messages.delete(request[CALLER], text(asked, "queue"), ids)
        failures = [
            {"id": id, "message": (failure_of(error) or INTERNAL).message}
            for id, error in zip(ids, results, strict=True)
            if error is not None
        ]
        return _answer({"deleted": len(ids) - len(failures), "failures": failures})

    async def create_queue(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        settings = QueueSettings().changed(_settings(asked))
        await self._app.queues.create(request[CALLER], text(asked, "queue"), settings)
        return _answer({})

    async def update_queue(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        changes = QueueChanges(settings=_settings(asked))
        await self._app.queues.update(request[CALLER], text(asked, "queue"), changes)
        return _answer({})

    async def send_message(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        queue = text(asked, "queue")
        request[CALLER].require(Permission.SEND, queue)
        delays = {}  # the queue's own
        if asked.get("delay") is not None:
            delays = {0: Millis(place(whole(asked, "delay"), "delay", most=MAX_DELAY))}
        body, attributes = _body(text(asked, "body")), _attributes(asked)
        send = Send(
            queue=queue, bodies=[body], attributes={0: attributes} if attributes else {}, delays=delays
        )
        async with self._app.access.workers.saving():
            stored = await self._app.access.submit(send)
        (id,) = stored.results
        if isinstance(id, StoreError):
            raise id
        return _answer({"id": id})

    async def purge(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        queue = text(asked, "queue")
        if text(asked, "confirm", "") != queue:
            raise InvalidRequest(
                what="confirm", value=asked.get("confirm"), rule=f"must be the queue's name, {queue}"
            )
        age = Millis(place(whole(asked, "older_than"), "older_than", most=MAX_AGE))
        states = texts(asked, "states", most=len(headers.STATES))
        if not headers.STATES.keys() >= set(states):
            raise InvalidRequest(
                what="states", value=states, rule=f"must be some of {', '.join(headers.STATES)}"
            )
        purged = await self._app.queues.purge(
            request[CALLER],
            queue,
            sent_before=Millis(self._clock.wall() - age) if age else None,
            states=frozenset(headers.STATES[state] for state in states),
        )
        return _answer({"deleted": purged})

    async def create_schedule(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        content = asked.get("content")
        if not isinstance(content, dict):
            raise InvalidRequest(
                what="content", value=type(content).__name__, rule="must be a JSON object"
            )
        await self._app.schedules.create(
            request[CALLER], text(asked, "queue"), text(asked, "schedule"), **content_of(content)
        )
        return _answer({})

    async def pause_schedule(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        is_paused = asked.get("is_paused")
        if not isinstance(is_paused, bool):
            raise InvalidRequest(what="is_paused", value=is_paused, rule="must be true or false")
        await self._app.schedules.pause(
            request[CALLER], text(asked, "queue"), text(asked, "schedule"), is_paused=is_paused
        )
        return _answer({})

    async def delete_schedule(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        await self._app.schedules.delete(request[CALLER], text(asked, "queue"), text(asked, "schedule"))
        return _answer({})

    async def abort_stage(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        dropped = await self._app.stages.abort(request[CALLER], text(asked, "stage"))
        return _answer({"deleted": dropped})

    async def release_reservation(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        await self._app.reservations.release(
            request[CALLER], text(asked, "stream"), _seq(text(asked, "sequence_number"))
        )
        return _answer({})

    async def start_redrive(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        started = await self._app.redrives.start(
            request[CALLER],
            text(asked, "queue"),
            destination=text(asked, "destination", ""),
            source_queue=text(asked, "source_queue", ""),
            ids=texts(asked, "ids", most=MAX_SELECTED),
            rate=whole(asked, "rate"),
        )
        return _answer({"redrive": rendered(convert.redrive(started))})

    async def cancel_redrive(self, request: web.Request) -> web.StreamResponse:
        asked = await change(self._context, request)
        ended = await self._app.redrives.cancel(request[CALLER], text(asked, "id"))
        return _answer({"redrive": rendered(convert.redrive(ended))})


def _settings(asked: Mapping[str, Any]) -> dict[str, object]:
    given = asked.get("settings", {})
    if not isinstance(given, dict):
        raise InvalidRequest(what="settings", value=type(given).__name__, rule="must be a JSON object")
    return changes_in(given)


def _seq(text: str) -> int:
    if not (
        text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_SEQUENCE_NUMBER
    ):
        raise InvalidRequest(
            what="sequence_number", value=text, rule=f"must be from 0 to {MAX_SEQUENCE_NUMBER}"
        )
    return int(text)


def _body(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(why="its body is not valid Unicode") from error


def _attributes(asked: Mapping[str, Any]) -> dict[str, str | bytes]:
    """Return attributes that are text, from a list of names and texts."""
    given = asked.get("attributes", [])
    if not isinstance(given, list) or len(given) > MAX_ATTRIBUTES:
        raise InvalidRequest(
            what="attributes",
            value=type(given).__name__,
            rule=f"must be a list of {MAX_ATTRIBUTES} entries at most",
        )
    attributes: dict[str, str | bytes] = {}
    for each in given:
        if not isinstance(each, dict):
            raise InvalidRequest(
                what="attributes", value=type(each).__name__, rule="must be objects of name and text"
            )
        name, value = text(each, "name"), text(each, "text")
        if name in attributes:
            raise InvalidMessage(why=f"the attribute {name[:100]!r} is there twice")
        attributes[name] = value
    return attributes


def _answer(content: dict[str, object]) -> web.Response:
    return web.json_response(content, headers=PRIVATE)
