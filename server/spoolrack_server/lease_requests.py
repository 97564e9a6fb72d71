"""Leases of messages for a transport; a lease that no transport took is released at once.

A receive whose client is gone before the store answers leases nothing, or releases its messages. A
message that couldn't be written to its client is ready again, and the receive isn't counted. The same
goes for a reservation, unless another call has asked for its name meanwhile and was answered. Knows
nothing of gRPC or HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Delivery, GiveBack, Receive, Request
from spoolrack_store.model.reservation_requests import Reservation, Reserve, UndoReservation
from spoolrack_store.store import Store

from .concurrency import ConcurrencyLimit
from .logs import Log
from .loop_answers import answer

T = TypeVar("T")
Undo = Callable[[T], Coroutine[Any, Any, None]]


class LeaseRequests:
    """The leases and releases of one server. Lives in one event loop."""

    def __init__(self, store: Store, log: Log, workers: ConcurrencyLimit) -> None:
        self._store = store
        self._workers = workers
        self._log = log
        self._returns: set[asyncio.Task[None]] = set()

    async def lease(self, request: Receive) -> list[Delivery]:
        """Lease messages; when the caller is cancelled before, nothing stays leased."""
        at_once = replace(request, wait=Millis(0)) if self._workers.is_bounded else None
        return await self._await_leases(request, at_once, self._undo_receive)

    async def reserve(self, request: Reserve) -> Reservation | None:
        """Reserve messages; when the caller is cancelled before, nothing new stays reserved."""
        at_once = replace(request, wait=Millis(0)) if self._workers.is_bounded else None
        return await self._await_leases(request, at_once, self._unreserve)

    async def _await_leases(self, request: Request[T], at_once: Request[T] | None, undo: Undo[T]) -> T:
        if at_once is not None:
            async with self._workers.fetching():
                taken = await self._answer(at_once, undo)
            if taken or at_once == request:
                return taken
        # A receive that waits keeps no worker busy.
        return await self._answer(request, undo)

    async def _answer(self, request: Request[T], undo: Undo[T]) -> T:
        future = self._store.submit(request)
        try:
            return await answer(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._run(self._undo(future, undo))
            raise

    def release(self, queue: str, receipts: Sequence[str]) -> None:
        """Undo leases that no client has seen. Returns at once: the call is over."""
        self._run(self._give_back(queue, receipts))

    def unreserve(self, reservation: Reservation | None) -> None:
        """Release a reservation that no transport took."""
        self._run(self._unreserve(reservation))

    async def close(self) -> None:
        """Return once every release in flight is done. No lease may begin any more."""
        while self._returns:
            await asyncio.wait(set(self._returns))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        # By itself: the task of the call is cancelled.
        task = asyncio.create_task(work)
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _undo(self, future: Future[T], undo: Undo[T]) -> None:
        try:
            taken = await answer(future)
        except StoreError:
            return  # Nothing was leased.
        await undo(taken)

    async def _undo_receive(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            await self._give_back(deliveries[0].queue, receipts_of(deliveries))

    async def _give_back(self, queue: str, receipts: Sequence[str]) -> None:
        try:
            await answer(self._store.submit(GiveBack(queue=queue, receipts=receipts)))
        except StoreError as error:
            # They come back when they are due.
            self._log.warning("leases could not be released", why=str(error), leases=len(receipts))

    async def _unreserve(self, reservation: Reservation | None) -> None:
        # One that was there before is its first asker's.
        if reservation is None or not reservation.is_new:
            return
        request = UndoReservation(
            stream=reservation.stream, sequence_number=reservation.sequence_number
        )
        try:
            await answer(self._store.submit(request))
        except StoreError as error:
            # It is found by its name, or its hold ends.
            self._log.warning(
                "a reservation could not be undone",
                why=str(error),
                stream=reservation.stream,
                sequence_number=reservation.sequence_number,
            )


def receipts_of(deliveries: Sequence[Delivery]) -> list[str]:
    return [receipt for delivery in deliveries for receipt in delivery.receipts]
