"""The endpoints of queues: list, get, create, update, and delete one with all its messages.

The JSON of a queue is the contract's, with facts that only HTTP tells: what has come in and gone out,
whether others name it as their dead-letter queue, and what the caller may do with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from aiohttp import web
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, InvalidSetting, QueueExists, QueueNotFound
from spoolrack_store.model.operations import CreateQueue, Queue, UpdateQueue
from spoolrack_store.model.settings import SCHEMA, QueueSettings, SettingKind, thousandths

from ..app.bounds import queue_name
from ..app.caller import Caller, Permission
from ..http.http_context import JSON, HttpContext, answer
from ..http.request_checks import CALLER
from ..wire import convert
from ..wire.contract_calls import paging
from ..wire.json_form import rendered, span_of
from . import headers

_FIELDS: Final = frozenset(
    {*pb.Queue.DESCRIPTOR.fields_by_name, "traffic", "is_dead_letter_queue", "permissions"}
)
_WITH_PARTS: Final = frozenset({"blocking_message", "counts", "labels", "settings", "traffic"})
"""The fields that are objects of JSON."""
_DEFAULTS: Final = QueueSettings()


class QueueEndpoints:
    """The handlers of queues. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._app = context.app
        self._queues = context.app.queues

    async def list_queues(self, request: web.Request) -> web.StreamResponse:
        caller, fields = request[CALLER], _fields(request.query.get("fields", ""))
        call = await self._context.call_in(
            request, rpc.ListQueuesRequest, without=("contains", "fields")
        )
        page = await self._queues.list(
            caller,
            prefix=call.prefix,
            contains=request.query.get("contains", ""),
            **paging(call),
        )
        targets = await self._queues.dead_letter_queues()
        # A thousand queues: not in the event loop.
        render = partial(self._list_json, caller, page.items, targets, fields)
        queues = await self._app.in_thread(render)
        return answer(
            {
                "queues": queues,
                "next_page_token": page.next_token,
                "root_id": self._app.root_id,
            }
        )

    def _list_json(
        self, caller: Caller, queues: Collection[Queue], targets: Collection[str], fields: Any
    ) -> list[dict[str, Any]]:
        without = _FIELDS - fields.keys() if fields else ()
        shown = (self._rendered(caller, queue, queue.name in targets, without) for queue in queues)
        return [_pick(each, fields) if fields else each for each in shown]

    def _rendered(
        self, caller: Caller, queue: Queue, is_target: bool, without: Collection[str] = ()
    ) -> dict[str, Any]:
        return {
            **rendered(convert.queue(queue, self._context.clock.wall()), without=without),
            "traffic": {
                "entered_count": queue.traffic.entered,
                "left_count": queue.traffic.left,
                "time": self._context.clock.monotonic() / 1_000,
                "process": self._app.owner,
            },
            "is_dead_letter_queue": is_target,
            "permissions": [each.value for each in caller.permissions(queue.name)],
        }

    async def get(self, request: web.Request) -> web.StreamResponse:
        caller, name = request[CALLER], queue_of(request)
        queue = await self._queues.get(caller, name)
        sources = await self._queues.dead_letter_sources(caller, name)
        content = {
            **self._rendered(caller, queue, bool(sources)),
            "dead_letter_sources": [each for each in sources if caller.may(Permission.MONITOR, each)],
        }
        return answer(content, ETag=headers.version_tag(queue.version))

    async def put(self, request: web.Request) -> web.StreamResponse:
        caller, name = request[CALLER], queue_of(request)
        version = headers.required_version(request.headers)
        # As with softlayer/mq, another body means nothing.
        content = await self._context.json(request) if request.content_type == JSON else {}
        named, labels = _settings_and_labels(content)
        settings = _DEFAULTS.changed(named)
        if version is not None:
            replacement = UpdateQueue(
                name=name,
                changes=asdict(settings),
                labels=labels,
                replaces_labels=True,
                if_version=version,
            )
            return await self._update(caller, replacement)
        try:
            await self._queues.create(caller, CreateQueue(name=name, settings=settings, labels=labels))
        except QueueExists:
            # A request that names no settings takes the queue as it is, as with softlayer/mq.
            if content:
                raise
        return web.Response(status=201)

    async def patch(self, request: web.Request) -> web.StreamResponse:
        """Change the settings and the labels that are named. Null resets a setting, and removes a label
        or all of them."""
        version = headers.required_version(request.headers)
        content = await self._context.json(request)
        settings, labels = _settings_and_labels(content)
        changes = UpdateQueue(
            name=queue_of(request),
            changes=settings,
            labels=labels,
            replaces_labels="labels" in content and content["labels"] is None,
            if_version=version or 0,
        )
        return await self._update(request[CALLER], changes)

    async def _update(self, caller: Caller, changes: UpdateQueue) -> web.StreamResponse:
        changed = await self._queues.update(caller, changes)
        return web.Response(headers={"ETag": headers.version_tag(changed.version)})

    async def delete(self, request: web.Request) -> web.StreamResponse:
        version = headers.required_version(request.headers) or 0
        try:
            await self._queues.delete(request[CALLER], queue_of(request), if_version=version)
        except QueueNotFound:
            # The queue is gone as asked; softlayer/mq says the same.
            return web.Response()
        return web.Response()


def queue_of(request: web.Request) -> str:
    return queue_name(request.match_info["queue"])


def _fields(text: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a queue that a list shows, and the parts of each; empty: all. Raise
    `InvalidRequest`."""
    fields: dict[str, dict[str, Any]] = {}
    for path in text.split(",") if text else ():
        name, _, part = path.partition(".")
        if name not in _FIELDS or (part and name not in _WITH_PARTS):
            rule = (
                f"must be of {', '.join(sorted(_FIELDS))}; or, of {', '.join(sorted(_WITH_PARTS))}, a "
                "part such as settings.retention"
            )
            raise InvalidRequest(what="the parameter fields", value=path, rule=rule)
        fields.setdefault(name, {})
        if part:
            fields[name][part] = {}
    return fields


def _pick(content: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, parts in fields.items():
        if name in content:
            value = content[name]
            found[name] = {part: value.get(part) for part in parts} if parts and value else value
    return found


def _settings_and_labels(content: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, Any]]:
    """Return the settings that a body names, by the store's names with spans in milliseconds, and its
    labels; null is the default of a setting. Raise `InvalidSetting`."""
    labels = content.get("labels")
    if labels is None:
        labels = {}
    if not isinstance(labels, dict):
        raise InvalidSetting(name="labels", value=labels, rule="must be an object")
    settings = {
        name: _setting(name, value) if name in SCHEMA else value
        for name, value in content.items()
        if name != "labels"
    }
    return settings, labels


def _setting(name: str, value: object) -> object:
    if value is None:
        return getattr(_DEFAULTS, name)
    setting = SCHEMA[name]
    if setting.kind is SettingKind.RATE:
        return thousandths(name, value)
    return _millis(name, value) if setting.is_span else value


def _millis(name: str, seconds: object) -> Millis:
    # An infinite span, or none at all, would not come through the store's bounds as an integer.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not abs(seconds) < 1e15:
        raise InvalidSetting(name=name, value=seconds, rule="must be a number of seconds")
    return span_of(seconds)
