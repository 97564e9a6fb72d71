"""Calls on a root on this machine: each is a request to the store, or a question of it.

Most names of fields are the store's own. All processes that have the root open work for what is started
here, such as a redrive, also this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from spoolrack_store.model import operations as ops
from spoolrack_store.model import redrive_requests, reservation_requests, stage_requests
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.reservation_requests import Page as MessagePage
from spoolrack_store.store import Store

from .. import _call_values as calls
from .._call_values import Answer, Call, ListCall
from .._values import Envelope, Page, millis_of
from ..errors import Unsupported
from . import folder_values as convert
from .folder_calls import FolderCalls
from .missing_features import NO_SCHEDULES


def _given(call: Call[Any]) -> dict[str, Any]:
    """Return the fields of a call as those of a request to the store; None leaves one out."""
    return {name: _value(name, value) for name, value in vars(call).items() if value is not None}


def _value(name: str, value: Any) -> Any:
    match value:
        case float():
            return convert.millis(value)
        case datetime():
            return Millis(millis_of(value))
        case str() if name == "id":
            return value.lower()
    return [id.lower() for id in value] if name == "message_ids" else value


def _create_queue(call: calls.CreateQueue) -> ops.CreateQueue:
    settings = convert.settings(call.settings)
    return ops.CreateQueue(name=call.name, settings=settings, labels=call.labels)


def _update_queue(call: calls.UpdateQueue) -> ops.UpdateQueue:
    changes = convert.changes(call.settings)
    return ops.UpdateQueue(name=call.name, changes=changes, labels=call.labels, if_version=call.version)


def _purge(call: calls.PurgeQueue) -> ops.Purge:
    since = None if call.sent_before is None else Millis(millis_of(call.sent_before))
    return ops.Purge(queue=call.name, sent_before=since, states=convert.states(call.states))


def _reserve(call: calls.Reserve) -> reservation_requests.Reserve:
    fields = _given(call) | {"wait": convert.wait(call.wait)}
    for name in ("max_messages", "max_bytes"):
        if not fields[name]:
            del fields[name]  # 0 is the default.
    return reservation_requests.Reserve(**fields)


_REQUESTS: Final[Mapping[type[Call[Any]], Callable[[Any], ops.Request[Any]]]] = {
    calls.CreateQueue: _create_queue,
    calls.UpdateQueue: _update_queue,
    calls.DeleteQueue: lambda call: ops.DeleteQueue(name=call.name, if_version=call.version),
    calls.PurgeQueue: _purge,
    calls.Stage: convert.stage,
    calls.Publish: lambda call: stage_requests.Publish(**_given(call)),
    calls.AbortStage: lambda call: stage_requests.Abort(**_given(call)),
    calls.Reserve: _reserve,
    calls.ExtendReservation: lambda call: reservation_requests.ExtendReservation(**_given(call)),
    calls.CommitReservations: lambda call: reservation_requests.CommitReservations(**_given(call)),
    calls.ReleaseReservation: lambda call: reservation_requests.Release(**_given(call)),
    calls.StartRedrive: lambda call: redrive_requests.StartRedrive(**_given(call)),
    calls.CancelRedrive: lambda call: redrive_requests.CancelRedrive(**_given(call)),
}
"""The calls that change something."""
_QUESTIONS: Final[Mapping[type[Call[Any]], Callable[[Store, Any], Any]]] = {
    calls.GetMessage: lambda store, call: store.message(call.queue, call.id.lower()),
    calls.GetStage: lambda store, call: store.stage(call.stage, call.queue),
    calls.GetReservation: lambda store, call: store.reservation(
        call.stream, call.sequence_number, call.queue
    ),
    calls.GetRedrive: lambda store, call: store.redrive(call.id.lower(), call.queue),
}


def _after(token: str) -> tuple[str, int]:
    stream, _, number = token.partition(".")
    return (stream, int(number)) if token else ("", -1)


_LISTS: Final[Mapping[type[Call[Any]], tuple[Callable[..., Sequence[Any]], Callable[[Any], str]]]] = {
    calls.ListQueues: (
        lambda store, call, limit: store.queues(prefix=call.prefix, after=call.page_token, limit=limit),
        lambda queue: queue.name,
    ),
    calls.ListStages: (
        lambda store, call, limit: store.stages(queue=call.queue, after=call.page_token, limit=limit),
        lambda stage: stage.name,
    ),
    calls.ListReservations: (
        lambda store, call, limit: store.reservations(
            queue=call.queue, stream=call.stream, after=_after(call.page_token), limit=limit
        ),
        lambda found: f"{found.stream}.{found.sequence_number}",
    ),
    calls.ListRedrives: (
        lambda store, call, limit: store.redrives(queue=call.queue, after=call.page_token, limit=limit),
        lambda redrive: redrive.id,
    ),
}
"""The lists: the store's listing, and the token of an item."""


class FolderOperations:
    """The calls of one client."""

    def __init__(self, folder: FolderCalls) -> None:
        self._folder = folder

    async def call(self, call: Call[Answer], timeout: float) -> Answer:
        answer: Answer = await self._called(call, timeout)
        return answer

    async def _called(self, call: Any, timeout: float) -> Any:
        kind = type(call)
        if kind in _REQUESTS:
            with convert.errors():
                request = _REQUESTS[kind](call)
            if kind is calls.Reserve:
                return self._shown(await self._folder.lease(request, timeout))
            makes = kind is calls.CreateQueue
            return self._shown(await self._folder.submit(request, timeout, make=makes))
        if kind in _QUESTIONS:
            ask = _QUESTIONS[kind]
            return self._shown(await self._folder.work(lambda store: ask(store, call), timeout))
        if kind in _LISTS:
            return await self._page(call, timeout)
        if kind is calls.GetQueue:
            return await self._queue(call, timeout)
        if kind is calls.ListMessages:
            return await self._messages(call, timeout)
        raise Unsupported(NO_SCHEDULES)

    async def _queue(self, call: calls.GetQueue, timeout: float) -> Any:
        queue, shard = await self._folder.work(
            lambda store: (store.queue(call.name), store.shard), timeout
        )
        return replace(self._shown(queue), shard="" if shard is None else str(shard))

    async def _page(self, call: ListCall[Any], timeout: float) -> Page[Any]:
        (listing, token), size = _LISTS[type(call)], convert.DEFAULT_PAGE
        found = await self._folder.work(lambda store: listing(store, call, size + 1), timeout)
        shown = [self._shown(each) for each in found[:size]]
        return Page(items=shown, next_token=token(found[size - 1]) if len(found) > size else "")

    async def _messages(self, call: calls.ListMessages, timeout: float) -> Page[Envelope]:
        page = await self._folder.work(
            lambda store: store.page(
                call.queue,
                convert.message_filter(call.wanted),
                after=call.page_token,
                limit=call.page_size or convert.DEFAULT_PAGE,
                max_body_bytes=call.max_body_bytes,
            ),
            timeout,
        )
        return Page(items=[self._shown(each) for each in page.messages], next_token=page.last)

    def _shown(self, value: Any) -> Any:
        match value:
            case ops.Queue():
                return convert.queue_info(value, self._folder.share.clock.wall())
            case ops.Message():
                return convert.envelope(value, self._folder.root)
        return convert.shown(value)


class FolderPages:
    """The store's pages of a reservation. Each is read when it is asked for."""

    def __init__(self, folder: FolderCalls, call: calls.ReadReservation) -> None:
        self._folder = folder
        self._call = call
        self._pages: Iterator[MessagePage] | None = None
        self._cancelled = False

    async def next(self) -> Sequence[Envelope]:
        page = [] if self._cancelled else await self._folder.work(self._next, None)
        return [convert.envelope(message, self._folder.root) for message in page]

    def _next(self, store: Store) -> Sequence[ops.Message]:
        if self._pages is None:
            call = self._call
            self._pages = store.read_reservation(
                call.stream,
                call.sequence_number,
                begin=call.begin_index,
                end=call.end_index,
                queue=call.queue,
            )
        page = next(self._pages, None)
        return [] if page is None else page.messages

    def cancel(self) -> None:
        self._cancelled = True
