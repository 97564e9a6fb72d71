"""The dashboard's queries: queues, ages, messages, dead letters, stages, reservations, the server.

Owns the bounds of each answer: a page, and never more work than a page's, so that an open tab costs the
same with ten messages and with a million. A queue without the caller's permission is left out of lists,
and refused by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import DAY, Clock, Millis
from spoolrack_store.model.errors import (
    DiskError,
    InvalidRequest,
    MessageDamaged,
    MessageNotFound,
    StoreError,
)
from spoolrack_store.model.operations import Message, MessageFilter, OpenMessage, Queue
from spoolrack_store.model.redrive_requests import Redrive, RedriveState
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

from .. import convert
from ..access.list_filter import LOOK, shown
from ..access.permissions import Permission
from ..gateway import headers
from ..gateway.context import GatewayContext
from ..gateway.queue_endpoints import written
from ..gateway.schedule_endpoints import described
from ..health import Health
from ..observability.observer import Observer
from . import serializers
from .request_permissions import RequestPermissions

MOST_QUEUES: Final = 1_000
"""In one answer; the page has a filter for more."""
QUEUES_AT_ONCE: Final = 100
"""Queues that are looked at in one go: commits wait meanwhile."""
MOST_MESSAGES: Final = 100
USUAL_MESSAGES: Final = 25
MAX_AGE: Final = 36_500 * DAY
"""Milliseconds of the age that a list or a purge names."""
MOST_THINGS: Final = 200
"""Stages, reservations or redrives in one answer."""
SMALL: Final = 64 * 1024
"""A list shows the beginning of bodies up to this many bytes: to read a body, all of it is checked."""
BUCKETS: Final = 11
"""Bounds of ages, each twice the one before."""
FIRST_BOUNDS: Final[Mapping[str, Millis]] = {
    "1s": Millis(1_000),
    "15s": Millis(15_000),
    "5m": Millis(300_000),
}
"""How fine the ages are; qshape's are five minutes."""


class DashboardViews:
    """The handlers of the views. Lives in one event loop."""

    def __init__(
        self,
        context: GatewayContext,
        permits: RequestPermissions,
        health: Health,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._context = context
        self._permits = permits
        self._health = health
        self._clock = clock
        self._observer = observer

    async def server(self, request: web.Request) -> web.StreamResponse:
        store, permits = self._context.store, self._permits
        found: dict[str, Any] = {
            "now": self._clock.wall(),
            "status": "SERVING" if self._health.why is None else "NOT_SERVING",
            "why": self._health.why,
            "identity": permits.identity(request).name,
            "version": version("spoolrack"),
            "uptime": self._observer.uptime,
            "sees_all": permits.allows(request, Permission.MONITOR, "*"),
        }
        if found["sees_all"]:
            owners = await self._context.read(store.metrics.owners)
            found |= {
                "owners": [serializers.owner(each) for each in owners],
                "quarantined": store.quarantined,
            }
        return _answer(found)

    async def queues(self, request: web.Request) -> web.StreamResponse:
        visible = await self._visible(request)
        now = self._clock.wall()
        named = await self._context.read(self._context.store.metrics.dead_letter_queues)
        rows = [
            {
                **serializers.row(queue, now, self._permits.permissions(request, queue.name)),
                "is_dead_letter_queue": queue.name in named,
            }
            for queue in visible[:MOST_QUEUES]
        ]
        return _answer(
            {
                "queues": rows,
                "are_all": len(visible) <= MOST_QUEUES,
                "defaults": written(QueueSettings()),
                "may_create": self._permits.may_somewhere(request, Permission.MANAGE),
                "at": self._clock.monotonic(),
                "by": self._context.store.metrics.owner,
            }
        )

    async def ages(self, request: web.Request) -> web.StreamResponse:
        first = FIRST_BOUNDS.get(request.query.get("first", "15s"))
        if first is None:
            raise InvalidRequest(
                what="first", value=request.query["first"], rule=f"must be of {', '.join(FIRST_BOUNDS)}"
            )
        bounds = [Millis(first << n) for n in range(BUCKETS)]
        # By name alone: to count a queue's bytes, a store with peers may have to list folders.
        is_wanted, metrics = self._permits.queue_filter(request), self._context.store.metrics
        names = [name for name in await self._context.read(metrics.names) if is_wanted(name)]
        found = await self._context.read(metrics.ages, names[:MOST_QUEUES], bounds)
        return _answer(
            {
                "bounds": bounds,
                "queues": [{"name": name, "counts": ages.counts} for name, ages in found.items()],
                "are_all": len(names) <= MOST_QUEUES,
            }
        )

    async def _visible(self, request: web.Request) -> list[Queue]:
        """Return the queues that the caller may see and that pass the filter; up to one more than the
        limit."""
        is_wanted = self._permits.queue_filter(request)
        look = partial(_some, self._context.store, lambda queue: is_wanted(queue.name))
        return await self._context.read(look)

    async def queue(self, request: web.Request) -> web.StreamResponse:
        name = self._queue_of(request, Permission.MONITOR)
        store = self._context.store
        queue = await self._context.read(store.queue, name)
        queue = await self._observer.with_consumers(queue)
        bounds = [Millis(FIRST_BOUNDS["15s"] << n) for n in range(BUCKETS)]
        ages = (await self._context.read(store.metrics.ages, [name], bounds)).get(name)
        found = serializers.page(queue, self._clock.wall(), self._permits.permissions(request, name))
        found |= {"at": self._clock.monotonic(), "by": store.metrics.owner, "bounds": bounds}
        if ages is not None:
            found["ages"] = {"counts": ages.counts}
        sources = await self._context.read(store.metrics.dead_letter_sources, name)
        # A caller without permission on the source queues sees none of them, but that this is a
        # dead-letter queue.
        found["is_dead_letter_queue"] = bool(sources)
        found["sources"] = [each for each in sources if self._may(request, Permission.MONITOR, each)]
        found["schedules"] = None
        if self._may(request, Permission.MANAGE, name):
            look = partial(store.schedules, queue=name, limit=MOST_THINGS)
            found["schedules"] = [described(each) for each in await self._context.read(look)]
        found["redrive"] = None
        if sources:
            running = await self._context.read(_running_redrive, store, name)
            found["redrive"] = running and serializers.redrive(running)
        target = queue.settings.dead_letter_queue
        found["dead_letter_queue_is_missing"] = bool(target) and not await self._is_there(target)
        return _answer(found)

    async def _is_there(self, queue: str) -> bool:
        try:
            await self._context.read(self._context.store.queue, queue)
        except StoreError:
            return False
        return True

    async def messages(self, request: web.Request) -> web.StreamResponse:
        name = self._queue_of(request, Permission.RECEIVE)
        query = request.query
        after = query.get("after", "")
        limit = _number(query.get("limit", str(USUAL_MESSAGES)), "limit", least=1, most=MOST_MESSAGES)
        now = self._clock.wall()
        age = _number(query.get("older_than", "0"), "older_than", least=0, most=MAX_AGE)
        wanted = MessageFilter(
            states=_states(query.get("state", "")),
            sent_before=Millis(now - age) if age else None,
            group=query.get("group", ""),
            attributes=headers.attribute(query),
        )
        look = partial(
            self._context.store.page,
            name,
            wanted,
            after=after and convert.message_id(after),
            limit=limit,
            max_body_bytes=0,
        )
        page = await self._context.read(look)
        bodies = await self._context.read(_glimpses, self._context.store, page.messages)
        return _answer(
            {
                "now": now,
                "messages": [
                    serializers.message(each, body=body)
                    for each, body in zip(page.messages, bodies, strict=True)
                ],
                "next": page.last,
            }
        )

    async def message(self, request: web.Request) -> web.StreamResponse:
        name = self._queue_of(request, Permission.RECEIVE)
        id = convert.message_id(request.match_info["id"])
        opened = await self._context.open(name, id)
        try:
            body = await self._context.read(_beginning, opened)
        finally:
            self._context.close_message(opened)
        found = serializers.message(opened.message, body=body)
        return _answer({"now": self._clock.wall(), "message": found})

    async def stages(self, request: web.Request) -> web.StreamResponse:
        look = partial(
            shown,
            self._context.store.stages,
            lambda stage: stage.name,
            lambda stage: stage.messages,
            self._permits.queues_for(request, Permission.MONITOR),
            after="",
            limit=MOST_THINGS + 1,
        )
        found = await self._context.read(look)
        stages = [
            {
                **serializers.stage(each),
                "may_abort": self._may(request, Permission.SEND, *each.messages),
            }
            for each in found[:MOST_THINGS]
        ]
        return self._list(stages=stages, are_all=len(found) <= MOST_THINGS)

    async def reservations(self, request: web.Request) -> web.StreamResponse:
        look = partial(
            shown,
            self._context.store.reservations,
            lambda found: (found.stream, found.sequence_number),
            lambda found: (found.queue,),
            self._permits.queues_for(request, Permission.MONITOR),
            after=("", -1),
            limit=MOST_THINGS + 1,
        )
        found = await self._context.read(look)
        reservations = [
            {
                **serializers.reservation(each),
                "may_release": self._may(request, Permission.RECEIVE, each.queue),
            }
            for each in found[:MOST_THINGS]
        ]
        return self._list(reservations=reservations, are_all=len(found) <= MOST_THINGS)

    async def redrives(self, request: web.Request) -> web.StreamResponse:
        found = await self._context.read(_last_redrives, self._context.store)
        redrives = [
            {
                **serializers.redrive(each),
                "may_cancel": self._may(request, Permission.MANAGE, each.queue),
            }
            for each in found
            if self._may(request, Permission.MONITOR, each.queue)
        ]
        return self._list(redrives=redrives)

    def _may(self, request: web.Request, permission: Permission, *queues: str) -> bool:
        return all(self._permits.allows(request, permission, queue) for queue in queues)

    def _list(self, **content: object) -> web.Response:
        return _answer({"now": self._clock.wall(), **content})

    def _queue_of(self, request: web.Request, permission: Permission) -> str:
        name = convert.queue_name(request.match_info["queue"])
        self._permits.require(request, permission, name)
        return name


def _some(store: Store, is_wanted: Callable[[Queue], bool]) -> list[Queue]:
    found: list[Queue] = []
    for queue in _all_queues(store):
        if is_wanted(queue):
            found.append(queue)
            if len(found) > MOST_QUEUES:
                break
    return found


def _all_queues(store: Store) -> Iterator[Queue]:
    after = ""
    while queues := store.queues(after=after, limit=QUEUES_AT_ONCE):
        yield from queues
        after = queues[-1].name


def _beginning(opened: OpenMessage) -> bytes:
    opened.file.seek(opened.offset)
    return opened.file.read(min(serializers.PREVIEW, opened.message.size))


def _last_redrives(store: Store) -> list[Redrive]:
    """Return the redrives that began last; a store lists the first ones first."""
    last: deque[Redrive] = deque(maxlen=MOST_THINGS)
    after = ""
    while redrives := store.redrives(after=after, limit=LOOK):
        last.extend(redrives)
        after = redrives[-1].id
    return list(last)


def _running_redrive(store: Store, queue: str) -> Redrive | None:
    """Return the redrive that moves messages out of `queue` now: a queue has one at a time."""
    after = ""
    while redrives := store.redrives(queue=queue, after=after, limit=LOOK):
        for redrive in redrives:
            if redrive.state is RedriveState.RUNNING:
                return redrive
        after = redrives[-1].id
    return None


def _glimpses(store: Store, messages: Sequence[Message]) -> list[bytes | None]:
    """Return the beginning of each body that can be read cheaply."""
    return [_glimpse(store, message) for message in messages]


def _glimpse(store: Store, message: Message) -> bytes | None:
    if message.size > SMALL:
        return None
    try:
        return store.message(message.queue, message.id).body[: serializers.GLIMPSE]
    except (MessageNotFound, MessageDamaged, DiskError):
        return None  # It has gone since, or its own page says what is wrong with it.


def _states(word: str) -> frozenset[State]:
    states = {"": frozenset[State](), **{each.value: frozenset({each}) for each in _SHOWN}}
    if word not in states:
        raise InvalidRequest(
            what="state", value=word, rule=f"must be of {', '.join(each.value for each in _SHOWN)}"
        )
    return states[word]


_SHOWN: Final = (State.READY, State.LEASED, State.DELAYED)


def _number(text: str, what: str, *, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise InvalidRequest(what=what, value=text, rule=f"must be from {least} to {most}")
    return int(text)


def _answer(content: Mapping[str, Any]) -> web.Response:
    return web.json_response(content, headers=PRIVATE)


PRIVATE: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
