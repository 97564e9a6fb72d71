"""Queues: creating, looking at, changing, purging and deleting them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueNotFound
from spoolrack_store.model.operations import (
    Counts,
    CreateQueue,
    DeleteQueue,
    Purge,
    Queue,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.statistics import Ages
from spoolrack_store.model.transitions import State

from . import bounds
from .caller import Caller, Permission, on_queue, on_some_queue
from .pages import Page, PagedList
from .store_access import StoreAccess

_LIST: Final = PagedList[Queue, str](
    method="ListQueues",
    cursor=lambda queue: queue.name,
    first="",
    read=bounds.queue_name,
    queues=lambda queue: (queue.name,),
)


class Queues:
    """The use cases of queues. Lives in one event loop."""

    def __init__(
        self,
        access: StoreAccess,
        with_consumers: Callable[[Queue], Awaitable[Queue]] | None = None,
    ) -> None:
        """`with_consumers` adds the consumers of the oldest leases that other processes know."""
        self._access = access
        self._store = access.store
        self._with_consumers = with_consumers

    # Changes.

    @on_some_queue(Permission.MANAGE)
    async def create(self, caller: Caller, request: CreateQueue) -> Queue:
        """Create a queue, or find it with equal settings and these labels."""
        _require_change(caller, request.name, request.settings.dead_letter_queue)
        return await self._access.submit(request)

    @on_some_queue(Permission.MANAGE)
    async def update(self, caller: Caller, request: UpdateQueue) -> Queue:
        _require_change(caller, request.name, request.changes.get("dead_letter_queue"))
        _require_version(request.if_version)
        return await self._access.submit(request)

    @on_queue(Permission.MANAGE)
    async def delete(self, caller: Caller, name: str, *, if_version: int = 0) -> None:
        """Delete a queue with all its messages; above 0, only the queue of this version."""
        _require_version(if_version)
        await self._access.submit(DeleteQueue(name=name, if_version=if_version))

    @on_queue(Permission.MANAGE)
    async def purge(
        self,
        caller: Caller,
        name: str,
        *,
        sent_before: Millis | None = None,
        states: frozenset[State] = frozenset(),
    ) -> int:
        """Delete messages of a queue; return how many."""
        return await self._access.submit(Purge(queue=name, sent_before=sent_before, states=states))

    # Looks.

    @on_queue(Permission.MONITOR)
    async def get(self, caller: Caller, name: str) -> Queue:
        """Return a queue with its obstacles and its oldest leases."""
        queue = await self._access.read(self._store.queue, name)
        return queue if self._with_consumers is None else await self._with_consumers(queue)

    @on_queue(Permission.MONITOR)
    async def counts(self, caller: Caller, name: str) -> Counts:
        return (await self.get_unchecked(name)).counts

    def require_here(self, name: str) -> None:
        """Raise `WrongShard` for the name of a queue that belongs to another shard."""
        if (shard := self._store.shard) is not None:
            shard.require(name)

    async def get_unchecked(self, name: str) -> Queue:
        """Return a queue without its obstacles and leases, for a caller whose permission for something
        else was checked."""
        return await self._access.read(self._store.summary, name)

    async def settings(self, name: str) -> QueueSettings:
        """Return the settings of a queue as the last commit knew them, as `get_unchecked` does, but
        without a thread where this process knows the queue."""
        try:
            return self._store.settings(name)
        except QueueNotFound:  # Another process may have created it just now.
            return (await self.get_unchecked(name)).settings

    @on_queue(Permission.SEND)
    async def get_target(self, caller: Caller, name: str) -> Queue:
        """Return a queue that the caller may name as a dead-letter queue."""
        return await self.get_unchecked(name)

    @on_some_queue(Permission.MONITOR)
    async def list(
        self,
        caller: Caller,
        *,
        prefix: str = "",
        contains: str = "",
        is_wanted: Callable[[Queue], bool] | None = None,
        page_size: int = 0,
        page_token: str = "",
    ) -> Page[Queue]:
        """Return a page of the queues whose names begin with `prefix` and have `contains` in them, by
        name: all of these, or those that are wanted."""
        listing = partial(self._store.queues, prefix=prefix)
        allowed = caller.queues_for(Permission.MONITOR)

        def is_shown(queue: Queue) -> bool:
            return contains in queue.name and (is_wanted is None or is_wanted(queue))

        page = partial(_LIST.page, is_wanted=is_shown if contains or is_wanted else None)
        return await self._access.read(page, listing, allowed, page_size, page_token, prefix, contains)

    async def has(self, is_wanted: Callable[[Queue], bool]) -> bool:
        """Return whether there is such a queue, also among those that the caller may not see."""
        queues = _LIST.walk(self._store.queues)
        return await self._access.read(lambda: any(map(is_wanted, queues)))

    @on_some_queue(Permission.MONITOR)
    async def names(self, caller: Caller, contains: str) -> Sequence[str]:
        """Return the names of the queues that have `contains` in them, in order."""
        return [
            name
            for name in await self._access.read(self._store.metrics.names)
            if contains in name and caller.may(Permission.MONITOR, name)
        ]

    async def ages(self, names: Iterable[str], age_bounds: Sequence[Millis]) -> Mapping[str, Ages]:
        """Return the ready messages by age of queues that the caller was shown."""
        return await self._access.read(self._store.metrics.ages, names, age_bounds)

    async def dead_letter_queues(self) -> frozenset[str]:
        """Return the names of all dead-letter queues in settings."""
        return await self._access.read(self._store.metrics.dead_letter_queues)

    @on_queue(Permission.MONITOR)
    async def dead_letter_sources(self, caller: Caller, name: str) -> Sequence[str]:
        """Return the queues that name this one as their dead-letter queue, also those that the caller
        may not see."""
        return await self._access.read(self._store.metrics.dead_letter_sources, name)


def _require_version(version: int) -> None:
    bounds.place(version, "version", most=bounds.MAX_VERSION)


def _require_change(caller: Caller, queue: str, target: object) -> None:
    """Raise `PermissionDenied` for a caller that may not manage a queue, or send to the queue that its
    dead letters shall go to."""
    caller.require(Permission.MANAGE, queue)
    if isinstance(target, str) and target:
        caller.require(Permission.SEND, target)
