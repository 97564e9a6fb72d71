"""Leases: their begin for receives and reservations, and what ends or extends a lease.

A receive whose client is gone before the store answers leases nothing, or releases its messages. The
same goes for a reservation, unless another call has asked for its name meanwhile and was answered. A
front releases the leases that no transport took with `give_back`: those messages are ready again, and
the receive isn't counted.

The store takes the leases together that are changed alike: a request becomes as many of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    GiveBack,
    LastReceive,
    RejectMessages,
    ReleaseMessages,
    Request,
)
from spoolrack_store.model.reservation_requests import Reservation, UndoReservation, undo_of

from ..system.logs import Log
from .caller import Caller, Permission, on_some_queue
from .store_access import StoreAccess, Submitted, answer

T = TypeVar("T")
Change = TypeVar("Change", bound=Hashable)
Changes = Sequence[tuple[str, Change] | StoreError]
"""A receipt and what is asked for it; or the error that refuses it."""
Ends = Submitted[list[Millis | StoreError]]
"""For each lease its new end, or the time at which its message is ready again, in Unix time."""


@dataclass(frozen=True, slots=True)
class ReleaseTerms:
    """How a lease is released: see `ReleaseMessages`."""

    delay: Millis | None = None
    reason: str = ""
    uncounted: bool = False


class Leases:
    """The use cases of leases. Lives in one event loop."""

    def __init__(self, access: StoreAccess, log: Log) -> None:
        self._access = access
        self._store = access.store
        self._log = log
        self._returns: set[asyncio.Task[None]] = set()

    # Receives and reservations, for their own use cases.

    async def lease(self, request: Request[T]) -> T:
        """Receive or reserve, for a caller whose permission was checked; when the caller is cancelled
        before, nothing new stays leased."""
        fetching = self._access.workers.fetching
        if fetching is not None:
            at_once: Request[T] = replace(cast(Any, request), wait=Millis(0))
            async with fetching:
                leased = await self._answer(at_once)
            if leased or at_once == request:
                return leased
        # A receive that waits keeps no worker busy.
        return await self._answer(request)

    async def _answer(self, request: Request[T]) -> T:
        begun = self._access.begin(request)
        if not begun.futures:
            return begun.result()
        (future,) = begun.futures
        try:
            return await answer(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._run(self._undo(future))
            raise

    def retry_receives(self) -> None:
        """Retry waiting receives, after a cause that held them back has changed."""
        self._store.retry_receives()

    # What no client has seen.

    def give_back(self, queue: str, receipts: Sequence[str]) -> None:
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

    # Ends and extensions.

    @on_some_queue(Permission.RECEIVE)
    def delete(self, caller: Caller, delete: Delete) -> Submitted[list[StoreError | None]]:
        """Delete messages; the result has the error of each receipt and then of each id, or None."""
        caller.require(Permission.RECEIVE, delete.queue)
        return self._access.begin(delete)

    @on_some_queue(Permission.RECEIVE)
    def extend(
        self,
        caller: Caller,
        queue: str,
        changes: Changes[Millis],
        last_receives: Mapping[int, LastReceive] = {},
    ) -> Ends:
        """Change visibility timeouts; `last_receives` is by position, see `ChangeVisibility`."""

        def request_of(visibility: Millis, receipts: Mapping[int, str]) -> ChangeVisibility:
            return ChangeVisibility(
                queue=queue,
                receipts=list(receipts.values()),
                visibility_timeout=visibility,
                last_receives={
                    place: last_receives[position]
                    for place, position in enumerate(receipts)
                    if position in last_receives
                },
            )

        return self._change(caller, queue, changes, request_of)

    @on_some_queue(Permission.RECEIVE)
    def release(self, caller: Caller, queue: str, changes: Changes[ReleaseTerms]) -> Ends:
        """Release leases."""

        def request_of(terms: ReleaseTerms, receipts: Mapping[int, str]) -> ReleaseMessages:
            return ReleaseMessages(
                queue=queue,
                receipts=list(receipts.values()),
                delay=terms.delay,
                reason=terms.reason,
                uncounted=terms.uncounted,
            )

        return self._change(caller, queue, changes, request_of)

    @on_some_queue(Permission.RECEIVE)
    def reject(
        self, caller: Caller, queue: str, changes: Changes[str]
    ) -> Submitted[list[StoreError | None]]:
        """Move leased messages to the dead-letter queue, each with a reason."""

        def request_of(reason: str, receipts: Mapping[int, str]) -> RejectMessages:
            return RejectMessages(queue=queue, receipts=list(receipts.values()), reason=reason)

        return self._change(caller, queue, changes, request_of)

    def _change(
        self,
        caller: Caller,
        queue: str,
        changes: Changes[Change],
        request_of: Callable[[Change, Mapping[int, str]], Request[list[T]]],
    ) -> Submitted[list[T | StoreError]]:
        """Submit a request for all receipts of the same change, which are given by position."""
        caller.require(Permission.RECEIVE, queue)
        alike: dict[Change, dict[int, str]] = {}
        refused: dict[int, StoreError] = {}
        for position, wanted in enumerate(changes):
            if isinstance(wanted, StoreError):
                refused[position] = wanted
            else:
                receipt, change = wanted
                alike.setdefault(change, {})[position] = receipt
        submitted = [
            (receipts, self._store.submit(request_of(change, receipts)))
            for change, receipts in alike.items()
        ]

        def result() -> list[T | StoreError]:
            results: dict[int, T | StoreError] = dict(refused)
            for receipts, future in submitted:
                results.update(zip(receipts, future.result(), strict=True))
            return [results[position] for position in range(len(changes))]

        return Submitted([future for _, future in submitted], result)


def receipts_of(deliveries: Sequence[Delivery]) -> list[str]:
    return [receipt for delivery in deliveries for receipt in delivery.receipts]
