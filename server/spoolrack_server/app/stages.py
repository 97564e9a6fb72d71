"""Stages: messages that are invisible before they are published.

A stage of other queues than the caller's is a `NameTaken`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from spoolrack_store.model.errors import StageNotFound
from spoolrack_store.model.stage_requests import (
    Abort,
    Publish,
    Published,
    Stage,
    Staged,
    StageInfo,
)

from .caller import Caller, Permission, on_some_queue
from .pages import Page, PagedList
from .store_access import StoreAccess, answer

_LIST: Final = PagedList[StageInfo, str](
    method="ListStages",
    cursor=lambda stage: stage.name,
    first="",
    read=str,
    queues=lambda stage: stage.message_counts,
)


class Stages:
    """The use cases of stages. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    @on_some_queue(Permission.SEND)
    async def stage(self, caller: Caller, chunk: Stage) -> Staged:
        """Store a chunk of a stage, whole or not at all, in its turn."""
        caller.require(Permission.SEND, chunk.queue)
        chunk = replace(chunk, allowed=caller.queues_for(Permission.SEND))
        return await answer(await self._access.save(chunk))

    @on_some_queue(Permission.SEND)
    async def publish(self, caller: Caller, request: Publish) -> Published:
        """Make the messages of stages visible, all at once and once for each epoch of a writer."""
        caller.require_named(Permission.SEND, request.queue)
        allowed = caller.queues_for(Permission.SEND)
        return await self._access.submit(replace(request, allowed=allowed, owner=caller.owner))

    @on_some_queue(Permission.SEND)
    async def abort(self, caller: Caller, request: Abort) -> int:
        """Delete a stage; return the number of its messages."""
        caller.require_named(Permission.SEND, request.queue)
        allowed = caller.queues_for(Permission.SEND)
        return await self._access.submit(replace(request, allowed=allowed))

    @on_some_queue(Permission.MONITOR)
    async def get(self, caller: Caller, stage: str, *, queue: str = "") -> StageInfo:
        caller.require_named(Permission.MONITOR, queue)
        found = await self._access.read(self._access.store.stage, stage, queue)
        if not caller.may(Permission.MONITOR, *found.message_counts):
            raise StageNotFound(stage=stage)
        return found

    @on_some_queue(Permission.MONITOR)
    async def list(
        self, caller: Caller, *, queue: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[StageInfo]:
        """Return a page of the stages, those with messages for `queue` if it is given, by name."""
        caller.require_named(Permission.MONITOR, queue)
        allowed = caller.queues_for(Permission.MONITOR)
        listing = partial(self._access.store.stages, queue=queue)
        filters = (queue,) if queue else ()
        return await self._access.read(_LIST.page, listing, allowed, page_size, page_token, *filters)
