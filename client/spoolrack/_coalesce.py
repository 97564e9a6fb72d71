"""Merges what many threads or tasks ask for at one time into few calls.

A first caller makes its call at once, and so does a second beside it. Whoever comes while two calls
are under way waits, and when one of them lands, the first of those who wait takes along as many
others as fit. So a lone caller never waits for company, and a crowd travels in large batches. A few
who come back as soon as they are answered keep together, in one call at a time: see `company`. With
threads, there is no thread but the callers'.

It knows nothing of what it carries. It doesn't retry: each caller does that for itself.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Generic, TypeVar

from ._company import Company
from ._runtime import Runtime, Signal
from ._values import MAX_BATCH, MAX_BATCH_BYTES
from .errors import SpoolrackError, Timeout, Unreachable

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_CALLS = 2
"""Under way at one time: one is on the wire while the other one's answer is read."""


class _Place(Enum):
    WAITS = auto()
    GATHERS = auto()
    """Waits, and sets off with whoever is there when the rest are late."""
    LEADS = auto()
    """Is to make the next call."""
    TRAVELS = auto()
    ARRIVED = auto()


class _Passenger(Generic[Item, Result]):
    __slots__ = ("deadline", "error", "item", "place", "result", "signal", "size")

    def __init__(self, item: Item, size: int, deadline: float) -> None:
        self.item = item
        self.size = size
        self.deadline = deadline
        self.place = _Place.TRAVELS
        self.signal: Signal | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None


class Coalescer(Generic[Item, Result]):
    """Calls of one kind to one queue."""

    def __init__(
        self,
        runtime: Runtime,
        call: Callable[[Sequence[Item], float], Awaitable[Sequence[Result]]],
        size_of: Callable[[Item], int],
        *,
        max_batch: int = MAX_BATCH,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        """`call(items, timeout)` answers with a result for each item, in order."""
        self._runtime = runtime
        self._call = call
        self._size_of = size_of
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        self._lock = runtime.lock()
        self._under_way = 0
        self._company = Company()
        self._waiting: deque[_Passenger[Item, Result]] = deque()

    @property
    def under_way(self) -> int:
        """Calls that have a place now."""
        return self._under_way

    @property
    def waiting(self) -> int:
        """Callers who wait for a place."""
        return len(self._waiting)

    @property
    def keeps_together(self) -> bool:
        """Whether one call at a time carries all."""
        return self._company.keeps_together

    async def submit(self, item: Item, deadline: float) -> Result:
        """The result of one item; raises the error of the call that carried it.

        Raises `Timeout` at `deadline` (of the runtime's monotonic clock). A caller that is cancelled
        before its item is under way takes it back.
        """
        passenger: _Passenger[Item, Result] = _Passenger(item, self._size_of(item), deadline)
        with self._lock:
            leads = self._may_lead(len(self._waiting) + 1)
            if leads:
                self._under_way += 1
            else:
                passenger.place = _Place.WAITS
                passenger.signal = self._runtime.signal()
                self._waiting.append(passenger)
                if len(self._waiting) == 1 and self._has_place():
                    passenger.place = _Place.GATHERS
        if not leads:
            leads = await self._wait(passenger)
        if leads:
            batch = self._board(passenger)
            if len(batch) == 1:
                await self._travel(batch)
            else:
                # In a task of its own, where there are tasks: if this caller is cancelled, the
                # others' items must travel on.
                await self._runtime.finish(self._travel(batch))
        if passenger.error is not None:
            raise passenger.error
        return passenger.result  # type: ignore[return-value]  # None only if Result allows it

    def _has_place(self) -> bool:
        """Whether another call may be under way. With the lock held."""
        return self._under_way < (1 if self._company.keeps_together else MAX_CALLS)

    def _may_lead(self, gathered: int) -> bool:
        """Whether a call for so many may begin now. With the lock held."""
        return self._has_place() and not self._company.is_missing(gathered, self._runtime.monotonic())

    async def _wait(self, passenger: _Passenger[Item, Result]) -> bool:
        """Wait until the item has arrived (False), or is to lead the next call (True)."""
        try:
            while True:
                with self._lock:
                    if passenger.place is _Place.ARRIVED:
                        return False
                    if passenger.place is _Place.GATHERS and self._may_lead(len(self._waiting)):
                        self._waiting.remove(passenger)
                        self._under_way += 1
                        passenger.place = _Place.LEADS
                    if passenger.place is _Place.LEADS:
                        return True
                    until = passenger.deadline
                    if passenger.place is _Place.GATHERS:
                        if self._has_place():
                            until = min(until, self._company.until)
                        else:
                            passenger.place = _Place.WAITS  # For a call to land.
                    signal = passenger.signal = self._runtime.signal()
                left = until - self._runtime.monotonic()
                if not await signal.wait(max(0.0, left)) and until == passenger.deadline:
                    break
        except BaseException:
            self._leave(passenger)
            raise
        place = self._leave(passenger)
        if place is _Place.ARRIVED:
            return False
        raise Timeout(
            "The timeout passed while the call was under way: it may have taken place."
            if place is _Place.TRAVELS
            else "The timeout passed while earlier calls were under way: this one was not made."
        )

    def _leave(self, passenger: _Passenger[Item, Result]) -> _Place:
        """Take a caller out of the queue; answers where it was."""
        heir = None
        with self._lock:
            place = passenger.place
            if place in (_Place.WAITS, _Place.GATHERS):
                self._waiting.remove(passenger)
                heir = self._heir()
            elif place is _Place.LEADS:
                self._under_way -= 1
                heir = self._heir()
        if heir is not None and heir.signal is not None:
            heir.signal.set()
        return place

    def _heir(self) -> _Passenger[Item, Result] | None:
        """Who of those that wait is to lead, or to mind the time, if there is a place. With the lock
        held; its signal is to be set."""
        if not self._waiting:
            return None
        if self._may_lead(len(self._waiting)):
            self._under_way += 1
            heir = self._waiting.popleft()
            heir.place = _Place.LEADS
            return heir
        first = self._waiting[0]
        if first.place is _Place.GATHERS or not self._has_place():
            return None
        first.place = _Place.GATHERS
        return first

    def _board(self, leader: _Passenger[Item, Result]) -> list[_Passenger[Item, Result]]:
        batch = [leader]
        size = leader.size
        with self._lock:
            leader.place = _Place.TRAVELS
            while self._waiting and len(batch) < self._max_batch:
                size += self._waiting[0].size
                if size > self._max_bytes:
                    break
                passenger = self._waiting.popleft()
                passenger.place = _Place.TRAVELS
                batch.append(passenger)
            self._company.sets_off(len(batch))
            # There may be a place more than before, and some who didn't fit in here.
            heir = self._heir()
        if heir is not None and heir.signal is not None:
            heir.signal.set()
        return batch

    async def _travel(self, batch: list[_Passenger[Item, Result]]) -> None:
        interruption: BaseException | None = None
        began = self._runtime.monotonic()
        try:
            latest = max(passenger.deadline for passenger in batch)
            left = max(0.0, latest - began)
            results = await self._call([passenger.item for passenger in batch], left)
            for passenger, result in zip(batch, results, strict=True):
                passenger.result = result
        except SpoolrackError as error:
            for passenger in batch:
                # One exception raised in many threads would mix their tracebacks.
                passenger.error = copy.copy(error)
        except Exception as error:  # noqa: BLE001  # a defect: all who wait must hear of it
            for passenger in batch:
                passenger.error = error
        except BaseException as error:  # noqa: BLE001  # Ctrl-C, a cancelled task: for the leader alone
            interruption = error
            for passenger in batch:
                passenger.error = Unreachable("The call was interrupted; it may have taken place.")
        with self._lock:
            now = self._runtime.monotonic()
            self._under_way -= 1
            self._company.landed(len(batch), len(self._waiting), now, now - began)
            heir = self._heir()
            for passenger in batch:
                passenger.place = _Place.ARRIVED
        if heir is not None and heir.signal is not None:
            heir.signal.set()
        for passenger in batch:
            if passenger.signal is not None:
                passenger.signal.set()
        if interruption is not None:
            raise interruption
