"""The dashboard's queries: queues, ages, messages, dead letters, stages, reservations, the server.

Owns the bounds of each answer: a page, and never more work than a page's, so that an open tab costs the
same with ten messages and with a million. A queue without the caller's permission is left out of lists,
and refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import DAY, Clock, Millis
from spoolrack_store.model.errors import InvalidRequest, StoreError
from spoolrack_store.model.operations import MessageFilter, OpenMessage
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from ..app.application import Application
from ..app.caller import ALL_QUEUES, Permission
from ..app.health import Health
from ..http import headers
from ..http.request_checks import CALLER
from ..metrics.observer import Observer
from ..wire import convert
from ..wire.json_form import rendered
from . import serializers

MOST_QUEUES: Final = 1_000
"""In one answer; the page has a filter for more."""
MOST_MESSAGES: Final = 100
USUAL_MESSAGES: Final = 25
MAX_AGE: Final = 36_500 * DAY
"""Milliseconds of the age that a list or a purge names."""
MOST_THINGS: Final = 200
"""Stages, reservations or redrives in one answer."""
LONGEST_FILTER: Final = 80
"""Characters."""
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

    def __init__(self, app: Application, health: Health, clock: Clock, observer: Observer) -> None:
        self._app = app
        self._store = app.access.store
        self._health = health
        self._clock = clock
        self._observer = observer

    async def server(self, request: web.Request) -> web.StreamResponse:
        caller = request[CALLER]
        found: dict[str, Any] = {
            "now": self._clock.wall(),
            "status": "SERVING" if self._health.why is None else "NOT_SERVING",
            "why": self._health.why,
            "identity": caller.name,
            "version": version("spoolrack"),
            "uptime": self._observer.uptime,
            "sees_all": caller.may(Permission.MONITOR, ALL_QUEUES),
        }
        if found["sees_all"]:
            owners = await self._app.access.read(self._store.metrics.owners)
            found |= {
                "owners": [serializers.owner(each) for each in owners],
                "quarantined": self._store.quarantined,
            }
        return _answer(found)

    async def queues(self, request: web.Request) -> web.StreamResponse:
        caller, is_wanted = request[CALLER], contains(request)
        visible = await self._app.queues.select(
            caller, lambda queue: is_wanted(queue.name), limit=MOST_QUEUES + 1
        )
        now = self._clock.wall()
        named = await self._app.queues.dead_letter_queues()
        rows = [
            {
                **serializers.row(queue, now, caller.permissions(queue.name)),
                "is_dead_letter_queue": queue.name in named,
            }
            for queue in visible[:MOST_QUEUES]
        ]
        return _answer(
            {
                "queues": rows,
                "are_all": len(visible) <= MOST_QUEUES,
                "defaults": rendered(convert.queue_settings(QueueSettings())),
                "may_create": caller.may_somewhere(Permission.MANAGE),
                "at": self._clock.monotonic(),
                "by": self._store.metrics.owner,
            }
        )

    async def ages(self, request: web.Request) -> web.StreamResponse:
        first = FIRST_BOUNDS.get(request.query.get("first", "15s"))
        if first is None:
            raise InvalidRequest(
                what="first", value=request.query["first"], rule=f"must be of {', '.join(FIRST_BOUNDS)}"
            )
        bounds = [Millis(first << n) for n in range(BUCKETS)]
        names = await self._app.queues.names(request[CALLER], contains(request))
        found = await self._app.queues.ages(names[:MOST_QUEUES], bounds)
        return _answer(
            {
                "bounds": bounds,
                "queues": [{"name": name, "counts": ages.counts} for name, ages in found.items()],
                "are_all": len(names) <= MOST_QUEUES,
            }
        )

    async def queue(self, request: web.Request) -> web.StreamResponse:
        caller, name, queues = request[CALLER], request.match_info["queue"], self._app.queues
        queue = await queues.get(caller, name)
        bounds = [Millis(FIRST_BOUNDS["15s"] << n) for n in range(BUCKETS)]
        ages = (await queues.ages([name], bounds)).get(name)
        found = serializers.page(queue, self._clock.wall(), caller.permissions(name))
        found |= {
            "at": self._clock.monotonic(),
            "by": self._store.metrics.owner,
            "bounds": bounds,
        }
        if ages is not None:
            found["ages"] = {"counts": ages.counts}
        sources = await queues.dead_letter_sources(caller, name)
        # A caller without permission on the source queues sees none of them, but that this is a
        # dead-letter queue.
        found["is_dead_letter_queue"] = bool(sources)
        found["sources"] = [each for each in sources if caller.may(Permission.MONITOR, each)]
        found["schedules"] = None
        if caller.may(Permission.MANAGE, name):
            schedules = await self._app.schedules.list(caller, queue=name, page_size=MOST_THINGS)
            found["schedules"] = [rendered(convert.schedule(each)) for each in schedules.items]
        found["redrive"] = None
        if sources:
            running = await self._app.redrives.running(caller, name)
            found["redrive"] = running and rendered(convert.redrive(running))
        target = queue.settings.dead_letter_queue
        found["dead_letter_queue_is_missing"] = bool(target) and not await self._is_there(target)
        return _answer(found)

    async def _is_there(self, queue: str) -> bool:
        try:
            await self._app.queues.find(queue)
        except StoreError:
            return False
        return True

    async def messages(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        limit = _number(query.get("limit", str(USUAL_MESSAGES)), "limit", least=1, most=MOST_MESSAGES)
        now = self._clock.wall()
        age = _number(query.get("older_than", "0"), "older_than", least=0, most=MAX_AGE)
        wanted = MessageFilter(
            states=_states(query.get("state", "")),
            sent_before=Millis(now - age) if age else None,
            group=query.get("group", ""),
            attributes=headers.attribute(query),
        )
        page = await self._app.messages.after(
            request[CALLER], request.match_info["queue"], wanted, query.get("after", ""), limit
        )
        bodies = await self._app.messages.beginnings(page.messages, serializers.GLIMPSE)
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
        queue, id = request.match_info["queue"], request.match_info["id"]
        opened = await self._app.messages.open(request[CALLER], queue, id)
        try:
            body = await self._app.access.read(_beginning, opened)
        finally:
            self._app.messages.close(opened)
        found = serializers.message(opened.message, body=body)
        return _answer({"now": self._clock.wall(), "message": found})

    async def stages(self, request: web.Request) -> web.StreamResponse:
        caller = request[CALLER]
        page = await self._app.stages.list(caller, page_size=MOST_THINGS)
        stages = [
            {
                **rendered(convert.stage(each)),
                "may_abort": caller.may(Permission.SEND, *each.messages),
            }
            for each in page.items
        ]
        return self._list(stages=stages, are_all=not page.next_token)

    async def reservations(self, request: web.Request) -> web.StreamResponse:
        caller = request[CALLER]
        page = await self._app.reservations.list(caller, page_size=MOST_THINGS)
        reservations = [
            {
                **rendered(convert.reservation(each, self._store.root_id)),
                "may_release": caller.may(Permission.RECEIVE, each.queue),
            }
            for each in page.items
        ]
        return self._list(reservations=reservations, are_all=not page.next_token)

    async def redrives(self, request: web.Request) -> web.StreamResponse:
        caller = request[CALLER]
        redrives = [
            {
                **rendered(convert.redrive(each)),
                "may_cancel": caller.may(Permission.MANAGE, each.queue),
            }
            for each in await self._app.redrives.last(caller, MOST_THINGS)
        ]
        return self._list(redrives=redrives)

    def _list(self, **content: object) -> web.Response:
        return _answer({"now": self._clock.wall(), **content})


def contains(request: web.Request) -> Callable[[str], bool]:
    """Return a filter of names by the request's search words; raise `InvalidRequest`."""
    words = request.query.get("contains", "")
    if len(words) > LONGEST_FILTER:
        raise InvalidRequest(
            what="contains", value=words, rule=f"has {LONGEST_FILTER} characters at most"
        )
    return lambda name: words in name


def _beginning(opened: OpenMessage) -> bytes:
    opened.file.seek(opened.offset)
    return opened.file.read(min(serializers.PREVIEW, opened.message.size))


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
