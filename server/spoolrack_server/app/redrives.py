"""Redrives: dead letters that are moved back, in the background.

The store does the work, and continues it after a restart. No use case waits for the end of a redrive: a
caller polls it. A redrive of a queue without the caller's permission is not found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from spoolrack_store.model.errors import InvalidRequest, RedriveNotFound
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.redrive_requests import (
    MAX_RATE,
    MAX_SELECTED,
    CancelRedrive,
    Redrive,
    RedriveState,
    StartRedrive,
)

from . import bounds
from .caller import Caller, Permission, on_queue, on_some_queue
from .pages import Page, PagedList
from .store_access import StoreAccess


def _id(id: str) -> str:
    if not is_id(id.lower()):
        raise InvalidRequest(what="id", value=id, rule="must be an id that StartRedrive answers with")
    return id.lower()


_LIST: Final = PagedList[Redrive, str](
    method="ListRedrives",
    cursor=lambda redrive: redrive.id,
    first="",
    read=_id,
    queues=lambda redrive: (redrive.queue,),
)


def require_start(caller: Caller, queue: str, destination: str) -> None:
    """Raise `PermissionDenied` for a redrive that the caller may not start."""
    caller.require(Permission.MANAGE, queue)
    caller.require_named(Permission.SEND, destination)


class Redrives:
    """The use cases of redrives. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._store = access.store

    @on_some_queue(Permission.MANAGE)
    async def start(self, caller: Caller, request: StartRedrive) -> Redrive:
        """Start moving dead letters back."""
        require_start(caller, request.queue, request.destination)
        bounds.place(len(request.message_ids), "the number of message_ids", most=MAX_SELECTED)
        if request.source_queue:
            bounds.queue_name(request.source_queue)
        ids = [bounds.message_id(id) for id in request.message_ids]
        bounds.place(request.max_messages_per_second, "max_messages_per_second", most=MAX_RATE)
        return await self._access.submit(replace(request, message_ids=ids))

    @on_some_queue(Permission.MONITOR)
    async def get(self, caller: Caller, id: str, *, queue: str = "") -> Redrive:
        return await self._find(caller, Permission.MONITOR, id, queue)

    @on_some_queue(Permission.MANAGE)
    async def get_to_cancel(self, caller: Caller, id: str, *, queue: str = "") -> Redrive:
        """Return a redrive that the caller may cancel."""
        return await self._find(caller, Permission.MANAGE, id, queue)

    @on_some_queue(Permission.MANAGE)
    async def cancel(self, caller: Caller, id: str, *, queue: str = "") -> Redrive:
        """Cancel a redrive; a redrive that has ended keeps its state."""
        # A redrive's queue never changes, so the check of its permission stays true.
        redrive = await self.get_to_cancel(caller, id, queue=queue)
        return await self._access.submit(CancelRedrive(id=redrive.id))

    async def _find(self, caller: Caller, permission: Permission, id: str, queue: str) -> Redrive:
        caller.require_named(permission, queue)
        redrive = await self._access.read(self._store.redrive, _id(id), queue)
        if not caller.may(permission, redrive.queue):
            raise RedriveNotFound(redrive=redrive.id)
        return redrive

    @on_some_queue(Permission.MONITOR)
    async def list(
        self, caller: Caller, *, queue: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[Redrive]:
        """Return a page of the redrives, those of `queue` if it is given, the oldest first."""
        caller.require_named(Permission.MONITOR, queue)
        listing = partial(self._store.redrives, queue=queue)
        allowed = caller.queues_for(Permission.MONITOR)
        return await self._access.read(_LIST.page, listing, allowed, page_size, page_token, queue)

    @on_some_queue(Permission.MONITOR)
    async def last(self, caller: Caller, count: int, *, queue: str = "") -> Sequence[Redrive]:
        """Return the `count` redrives that began last, those of `queue` if it is given, the oldest
        first."""
        caller.require_named(Permission.MONITOR, queue)
        listing = partial(self._store.redrives, queue=queue)
        return await self._access.read(
            lambda: deque(
                (each for each in _LIST.walk(listing) if caller.may(Permission.MONITOR, each.queue)),
                maxlen=count,
            )
        )

    @on_queue(Permission.MONITOR)
    async def running(self, caller: Caller, queue: str) -> Redrive | None:
        """Return the redrive that moves messages out of `queue` now: a queue has one at a time."""
        redrives = _LIST.walk(partial(self._store.redrives, queue=queue))
        return await self._access.read(
            lambda: next((each for each in redrives if each.state is RedriveState.RUNNING), None)
        )
