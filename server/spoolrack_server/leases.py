"""Leases between the store and a transport: one that no transport took goes back at once.

A receive whose client is gone before the store answers leases nothing, or gives back what it leased;
a message that couldn't be written to its client is ready again, and the receive isn't counted. Knows
nothing of gRPC or HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import GiveBack, Message, Receive
from spoolrack_store.store import Store

from .answers import answer
from .logs import Log
from .workers import Workers


class Leases:
    """Lives in one event loop."""

    def __init__(self, store: Store, log: Log, workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._log = log
        self._returns: set[asyncio.Task[None]] = set()

    async def lease(self, request: Receive) -> list[Message]:
        """What the store leases; when the caller is cancelled before, nothing stays leased."""
        if self._workers.is_bounded:
            async with self._workers.fetching():
                messages = await self._lease(replace(request, wait=Millis(0)))
            if messages or request.wait == 0:
                return messages
        # Who waits keeps no worker busy.
        return await self._lease(request)

    async def _lease(self, request: Receive) -> list[Message]:
        future = self._store.submit(request)
        try:
            return await answer(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._run(self._give_back_leased(future))
            raise

    def give_back(self, messages: Sequence[Message]) -> None:
        """Undo leases that no client ever saw. Returns at once: the call they were for is over."""
        self._run(self._give_back(messages))

    async def close(self) -> None:
        """Return once every lease that goes back is back. Nobody may lease any more."""
        while self._returns:
            await asyncio.wait(set(self._returns))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        # By itself: the task of the call is cancelled.
        task = asyncio.create_task(work)
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _give_back_leased(self, future: Future[list[Message]]) -> None:
        try:
            messages = await answer(future)
        except StoreError:
            return  # Nothing was leased.
        await self._give_back(messages)

    async def _give_back(self, messages: Sequence[Message]) -> None:
        receipts = [message.receipt for message in messages if message.receipt is not None]
        if not receipts:
            return
        request = GiveBack(queue=messages[0].queue, receipts=receipts)
        try:
            await answer(self._store.submit(request))
        except StoreError as error:
            # They come back when they are due.
            self._log.warning("leases could not be given back", why=str(error), leases=len(receipts))
