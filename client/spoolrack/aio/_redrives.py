"""Redrives: dead letters that are moved back in the background. `Queue.redrive` starts them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from .. import _arguments as arguments
from .._call_values import CancelRedrive, GetRedrive, ListRedrives, StartRedrive
from .._core.client_context import ClientContext
from .._core.pagination import items
from .._core.resource import Resource
from .._redrive_values import MAX_REDRIVEN_IDS, Redrive
from .._values import Seconds
from ..errors import InvalidRequest, RedriveRunning, Unreachable


class RedriveHandle(Redrive):
    """A redrive as it was at the time of the call, with its operations."""

    __slots__ = ("_resource",)
    _resource: Any

    async def get(self, *, timeout: Seconds | None = None) -> RedriveHandle:
        """Return the redrive as it is now: see `Redrives.get`."""
        return await Redrives.get(self._resource, self.id, queue=self.queue, timeout=timeout)

    async def cancel(self, *, timeout: Seconds | None = None) -> RedriveHandle:
        """End the redrive: see `Redrives.cancel`."""
        return await Redrives.cancel(self._resource, self.id, queue=self.queue, timeout=timeout)


class Redrives(Resource[Redrive]):
    """The redrives of a server; `client.redrives` is one.

    `queue`, the dead-letter queue, tells a client of several shards which one it is on; without it the
    client asks all of them.
    """

    _handle_type = RedriveHandle

    async def get(self, id: str, *, queue: str = "", timeout: Seconds | None = None) -> RedriveHandle:
        """Return a redrive with its progress; raises `RedriveNotFound`."""
        arguments.text("id", id)
        arguments.text("queue", queue)
        found = await self._context.ask(GetRedrive(id=id, queue=queue), timeout)
        handle: RedriveHandle = self._handle(found)
        return handle

    async def cancel(
        self, id: str, *, queue: str = "", timeout: Seconds | None = None
    ) -> RedriveHandle:
        """Cancel a redrive; returns its final state. Moved messages stay moved. A redrive that has
        ended keeps its state. May be repeated. Raises `RedriveNotFound`."""
        arguments.text("id", id)
        arguments.text("queue", queue)
        ended = await self._context.ask(CancelRedrive(id=id, queue=queue), timeout)
        handle: RedriveHandle = self._handle(ended)
        return handle

    def list(self, queue: str = "", *, timeout: Seconds | None = None) -> AsyncIterator[RedriveHandle]:
        """Return the redrives of a dead-letter queue, or all, the oldest first: running ones, and those
        that ended within the last 30 days, up to 100 of a queue. `timeout` is for each page of them."""
        arguments.text("queue", queue)
        span = arguments.timeout(timeout)
        return self._handles(items(self._context, ListRedrives(queue=queue), span))


async def start_redrive(
    context: ClientContext,
    queue: str,
    *,
    destination: str,
    message_ids: Iterable[str] | None,
    source_queue: str,
    max_messages_per_second: int,
    timeout: Seconds | None,
) -> Redrive:
    """Start a redrive, or find the one that an earlier try has started, if its answer was lost."""
    selected = _selected(message_ids)
    arguments.text("destination", destination)
    arguments.text("source_queue", source_queue)
    arguments.integer("max_messages_per_second", max_messages_per_second, 0, arguments.INT32)
    start = StartRedrive(
        queue=queue,
        destination=destination,
        message_ids=selected,
        source_queue=source_queue,
        max_messages_per_second=max_messages_per_second,
    )
    in_doubt = False

    async def once(*, timeout: float) -> Redrive:
        nonlocal in_doubt
        try:
            return await context.transport.call(start, timeout=timeout)
        except Unreachable:
            in_doubt = True
            raise
        except RedriveRunning as error:
            id = error.metadata.get("redrive")
            if not in_doubt or not id:
                raise
            known = GetRedrive(id=id, queue=queue)
            found = await context.transport.call(known, timeout=timeout)
            told = (found.destination, found.source_queue, found.max_messages_per_second)
            if told != (destination, source_queue, max_messages_per_second):
                raise
            return found

    return await context.call(once, timeout)


def _selected(message_ids: Iterable[str] | None) -> list[str]:
    if message_ids is None:
        return []
    if isinstance(message_ids, str):
        message_ids = [message_ids]
    named = arguments.some("message_ids", message_ids, "ids")
    selected = [arguments.text("an id", id) for id in named]
    if not 1 <= len(selected) <= MAX_REDRIVEN_IDS:
        # An empty selection would mean all of them on the wire, and hardly ever to the program.
        raise InvalidRequest(
            f"A redrive can't have {len(selected)} ids: name 1 to {MAX_REDRIVEN_IDS} of them, or none "
            "(message_ids=None) for all messages of the queue."
        )
    return selected
