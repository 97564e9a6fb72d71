"""The dashboard's changes: queues, their settings and messages, stages, reservations, redrives.

Each change names its object in its body, goes through `RequestPermissions.change`, and takes the
permission that the same change takes over gRPC. It is answered once it is on stable media.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model import redrive_requests
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import InvalidMessage, InvalidRequest, RedriveNotFound, StoreError
from spoolrack_store.model.operations import CreateQueue, Delete, Purge, Send, UpdateQueue
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import MAX_SEQUENCE_NUMBER, Release
from spoolrack_store.model.schedule_requests import DeleteSchedule, PauseSchedule
from spoolrack_store.model.settings import MAX_ATTRIBUTES, MAX_DELAY, QueueSettings
from spoolrack_store.model.stage_requests import Abort

from .. import convert
from ..access.permissions import Permission
from ..gateway import headers
from ..gateway.context import GatewayContext
from ..gateway.queue_endpoints import changes_in
from ..gateway.schedule_endpoints import creation_of
from ..status import INTERNAL, failure_of
from . import serializers
from .queries import MAX_AGE, PRIVATE
from .request_permissions import RequestPermissions, text, texts, whole

MAX_NAME: Final = 80
"""Characters of a stage's or a stream's name."""
MOST_DELETED: Final = 1_000


class Actions:
    """The handlers of changes. Lives in one event loop."""

    def __init__(self, context: GatewayContext, permits: RequestPermissions, clock: Clock) -> None:
        self._context = context
        self._clock = clock
        self._permits = permits

    async def delete_messages(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue = convert.queue_name(text(asked, "queue"))
        self._permits.require(request, Permission.RECEIVE, queue)
        ids = [convert.message_id(id) for id in texts(asked, "ids", most=MOST_DELETED)]
        results = await self._context.submit(Delete(queue=queue, ids=ids))
        failures = [
            {"id": id, "message": (failure_of(error) or INTERNAL).message}
            for id, error in zip(ids, results, strict=True)
            if error is not None
        ]
        return _answer({"deleted": len(ids) - len(failures), "failures": failures})

    async def create_queue(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue, changes = self._settings(request, asked)
        settings = QueueSettings().changed(changes)
        await self._context.submit(CreateQueue(name=queue, settings=settings))
        return _answer({})

    async def update_queue(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue, changes = self._settings(request, asked)
        await self._context.submit(UpdateQueue(name=queue, changes=changes))
        return _answer({})

    def _settings(
        self, request: web.Request, asked: Mapping[str, Any]
    ) -> tuple[str, dict[str, object]]:
        """Return the queue and the settings that are asked for, as far as the caller may set them."""
        queue = convert.queue_name(text(asked, "queue"))
        self._permits.require(request, Permission.MANAGE, queue)
        given = asked.get("settings", {})
        if not isinstance(given, dict):
            raise InvalidRequest(
                what="settings", value=type(given).__name__, rule="must be a JSON object"
            )
        changes = changes_in(given)
        target = changes.get("dead_letter_queue")
        if isinstance(target, str) and target:
            # Dead letters are sent there.
            self._permits.require(request, Permission.SEND, target)
        return queue, changes

    async def send_message(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue = convert.queue_name(text(asked, "queue"))
        self._permits.require(request, Permission.SEND, queue)
        delays = {}  # the queue's own
        if asked.get("delay") is not None:
            delays = {0: Millis(convert.place(whole(asked, "delay"), "delay", most=MAX_DELAY))}
        body, attributes = _body(text(asked, "body")), _attributes(asked)
        send = Send(
            queue=queue, bodies=[body], attributes={0: attributes} if attributes else {}, delays=delays
        )
        async with self._context.workers.saving():
            stored = await self._context.submit(send)
        (id,) = stored.results
        if isinstance(id, StoreError):
            raise id
        return _answer({"id": id})

    async def purge(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue = convert.queue_name(text(asked, "queue"))
        self._permits.require(request, Permission.MANAGE, queue)
        if text(asked, "confirm", "") != queue:
            raise InvalidRequest(
                what="confirm", value=asked.get("confirm"), rule=f"must be the queue's name, {queue}"
            )
        age = Millis(convert.place(whole(asked, "older_than"), "older_than", most=MAX_AGE))
        states = texts(asked, "states", most=len(headers.STATES))
        if not headers.STATES.keys() >= set(states):
            raise InvalidRequest(
                what="states", value=states, rule=f"must be some of {', '.join(headers.STATES)}"
            )
        purge = Purge(
            queue=queue,
            sent_before=Millis(self._clock.wall() - age) if age else None,
            states=frozenset(headers.STATES[state] for state in states),
        )
        return _answer({"deleted": await self._context.submit(purge)})

    async def create_schedule(self, request: web.Request) -> web.StreamResponse:
        asked, queue, name = await self._schedule(request)
        # A schedule sends messages to its queue.
        self._permits.require(request, Permission.SEND, queue)
        content = asked.get("content")
        if not isinstance(content, dict):
            raise InvalidRequest(
                what="content", value=type(content).__name__, rule="must be a JSON object"
            )
        await self._context.submit(creation_of(self._clock, queue, name, content))
        return _answer({})

    async def pause_schedule(self, request: web.Request) -> web.StreamResponse:
        asked, queue, name = await self._schedule(request)
        is_paused = asked.get("is_paused")
        if not isinstance(is_paused, bool):
            raise InvalidRequest(what="is_paused", value=is_paused, rule="must be true or false")
        await self._context.submit(PauseSchedule(queue=queue, name=name, is_paused=is_paused))
        return _answer({})

    async def delete_schedule(self, request: web.Request) -> web.StreamResponse:
        _, queue, name = await self._schedule(request)
        await self._context.submit(DeleteSchedule(queue=queue, name=name))
        return _answer({})

    async def _schedule(self, request: web.Request) -> tuple[Mapping[str, Any], str, str]:
        """Return the request, and the queue and the name of a schedule that the caller may change."""
        asked = await self._permits.change(request)
        queue = convert.queue_name(text(asked, "queue"))
        self._permits.require(request, Permission.MANAGE, queue)
        return asked, queue, text(asked, "schedule")

    async def abort_stage(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        name = convert.word(text(asked, "stage"), "stage", most=MAX_NAME)
        allowed = self._permits.queues_for(request, Permission.SEND)
        return _answer({"deleted": await self._context.submit(Abort(stage=name, allowed=allowed))})

    async def release_reservation(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        stream = convert.word(text(asked, "stream"), "stream", most=MAX_NAME)
        sequence_number = _seq(text(asked, "sequence_number"))
        allowed = self._permits.queues_for(request, Permission.RECEIVE)
        await self._context.submit(
            Release(stream=stream, sequence_number=sequence_number, allowed=allowed)
        )
        return _answer({})

    async def start_redrive(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        queue = convert.queue_name(text(asked, "queue"))
        destination, source = text(asked, "destination", ""), text(asked, "source_queue", "")
        self._permits.require(request, Permission.MANAGE, queue)
        if destination:
            self._permits.require(request, Permission.SEND, convert.queue_name(destination))
        started = await self._context.submit(
            StartRedrive(
                queue=queue,
                destination=destination,
                source_queue=source and convert.queue_name(source),
                ids=[
                    convert.message_id(id)
                    for id in texts(asked, "ids", most=redrive_requests.MAX_SELECTED)
                ],
                rate=convert.place(whole(asked, "rate"), "rate", most=redrive_requests.MAX_RATE),
            )
        )
        return _answer({"redrive": serializers.redrive(started)})

    async def cancel_redrive(self, request: web.Request) -> web.StreamResponse:
        asked = await self._permits.change(request)
        id = convert.message_id(text(asked, "id"))
        redrive = await self._context.read(self._context.store.redrive, id)
        if not self._permits.allows(request, Permission.MANAGE, redrive.queue):
            raise RedriveNotFound(redrive=id)
        return _answer(
            {"redrive": serializers.redrive(await self._context.submit(CancelRedrive(id=id)))}
        )


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
