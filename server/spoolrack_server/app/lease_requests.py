"""Leases of messages for a transport; a lease that no transport took is released at once.

A receive whose client is gone before the store answers leases nothing, or releases its messages. A
message that couldn't be written to its client is ready again, and the receive isn't counted. The same
goes for a reservation, unless another call has asked for its name meanwhile and was answered. Knows
nothing of gRPC or HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Delivery, GiveBack, Request
from spoolrack_store.model.reservation_requests import Reservation, UndoReservation, undo_of
from spoolrack_store.store import Store

from ..system.logs import Log
from .concurrency import ConcurrencyLimit
from .loop_answers import answer

T = TypeVar("T")


class LeaseRequests:
    """The leases and releases of one server. Lives in one event loop."""

    def __init__(self, store: Store, log: Log, workers: ConcurrencyLimit) -> None:
        self._store = store
        self._workers = workers
        self._log = log
        self._returns: set[asyncio.Task[None]] = set()

    async def lease(self, request: Request[T]) -> T:
        """Receive or reserve; when the caller is cancelled before, nothing new stays leased."""
        if self._workers.is_bounded:
            at_once: Request[T] = replace(cast(Any, request), wait=Millis(0))
            async with self._workers.fetching():
                leased = await self._answer(at_once)
            if leased or at_once == request:
                return leased
        # A receive that waits keeps no worker busy.
        return await self._answer(request)

    async def _answer(self, request: Request[T]) -> T:
        future = self._store.submit(request)
        try:
            return await answer(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._run(self._undo(future))
            raise

    def release(self, queue: str, receipts: Sequence[str]) -> None:
        """Undo leases that no client has seen. Returns at once: the call they were for is over."""
        self._run(self._take_back(GiveBack(queue=queue, receipts=receipts)))

    def unreserve(self, reservation: Reservation | None) -> None:
        """Undo a reservation that no transport took."""
        self._run(self._take_back(undo_of(reservation)))

    async def close(self) -> None:
        """Return once every release in flight is done. No lease may begin any more."""
        while self._returns:
            await asyncio.wait(set(self._returns))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        # By itself: the task of the call is cancelled.
        task = asyncio.create_task(work)
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _undo(self, future: Future[Any]) -> None:
        with suppress(StoreError):  # Nothing was leased.
            await self._take_back(undo_of(await answer(future)))

    async def _take_back(self, undo: GiveBack | UndoReservation | None) -> None:
        if undo is None:
            return
        try:
            await answer(self._store.submit(undo))
        except StoreError as error:
            # Leases come back when they are due; a reservation is found by its name, or its hold ends.
            facts: dict[str, object] = (
                {"leases": len(undo.receipts)}
                if isinstance(undo, GiveBack)
                else {"stream": undo.stream, "sequence_number": undo.sequence_number}
            )
            self._log.warning("leases could not be released", why=str(error), **facts)


def receipts_of(deliveries: Sequence[Delivery]) -> list[str]:
    return [receipt for delivery in deliveries for receipt in delivery.receipts]
