"""Batching: items of many threads or tasks share few calls.

Up to two calls are in flight. A caller that finds a place makes its call at once; any other waits, and
the first waiter makes the next call with as many others as fit. So a lone caller never waits, and many
callers share large batches. A few callers in a loop share one call at a time: see `Linger`. A caller's
items stay together. With threads, there is no thread but the callers'.

It doesn't retry: each caller does that for itself.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Final, Generic, Protocol, TypeVar

from ._runtime import Runtime, Signal
from ._values import MAX_BATCH, MAX_BATCH_BYTES
from .errors import SpoolrackError, Timeout, Unreachable

Item = TypeVar("Item")
Result = TypeVar("Result", bound="ItemResult")

MAX_CALLS = 2
"""In flight at one time: one is on the wire while the other one's answer is read."""


SMALL: Final = 16
"""Callers at most that a call lingers for: with more of them calls are full anyway."""
LONGEST: Final = 0.002
"""Seconds that a call lingers at most, ..."""
SHARE: Final = 0.25
"""... and what part of the time that the last call took."""
RAREST: Final = 64
"""Calls at most between two tries to linger."""


class Linger:
    """The time for which a call lingers for returning callers. Pure: the time is an argument.

    A few callers in a loop would else split into those answered a moment ago and those that come a
    moment later, with a call for each. Where callers don't come back in time, calls linger ever less
    often. Not thread-safe.
    """

    def __init__(self) -> None:
        self.until = 0.0
        """When a call lingers no longer."""
        self.keeps_together = False
        """Whether the callers are few, and came back in time at the last try: then one call carries
        all."""
        self.expected = 0
        """Callers for whom a call lingers, before it begins."""
        self._rest = 0
        self._pause = 1

    def answered(self, carried: int, waiting: int, now: float, took: float) -> None:
        """Note the answer to a call of `carried` items that took `took` seconds, while `waiting`
        callers wait."""
        self.expected = 0
        callers = carried + waiting
        if callers > SMALL:
            self.keeps_together = False
        if self._rest:
            self._rest -= 1
        elif 2 <= callers <= SMALL:
            self.expected = callers
            self.until = now + min(LONGEST, SHARE * took)

    def is_missing(self, gathered: int, now: float) -> bool:
        """Return whether a call lingers for more callers than the `gathered` ones."""
        return gathered < self.expected and now < self.until

    def begun(self, gathered: int) -> None:
        """Note the start of a call that carries `gathered` items."""
        if not self.expected:
            return
        self.keeps_together = 2 * gathered > self.expected
        if self.keeps_together:
            self._pause = 1
        else:
            self._rest = self._pause
            self._pause = min(RAREST, 2 * self._pause)
        self.expected = 0


class ItemResult(Protocol):
    """The result of one item of a call."""

    @property
    def error(self) -> SpoolrackError | None: ...


class _WaiterState(Enum):
    WAITING = auto()
    LINGERING = auto()
    """First of those that wait for a call that lingers."""
    LEADING = auto()
    """Makes the next call."""
    IN_FLIGHT = auto()
    DONE = auto()


class _Waiter(Generic[Item, Result]):
    __slots__ = ("deadline", "error", "items", "results", "signal", "size", "state")

    def __init__(self, items: Sequence[Item], size: int, deadline: float) -> None:
        self.items = items
        self.size = size
        self.deadline = deadline
        self.state = _WaiterState.IN_FLIGHT
        self.signal: Signal | None = None
        self.results: Sequence[Result] = ()
        self.error: BaseException | None = None


class Batcher(Generic[Item, Result]):
    """Batching of calls of one kind to one queue."""

    def __init__(
        self,
        runtime: Runtime,
        call: Callable[..., Awaitable[Sequence[Result]]],
        size_of: Callable[[Item], int],
        *,
        max_batch: int = MAX_BATCH,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        """`call(items, timeout=seconds)` answers with a result for each item, in order."""
        self._runtime = runtime
        self._call = call
        self._size_of = size_of
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        self._lock = runtime.lock()
        self._in_flight = 0
        self._linger = Linger()
        self._waiters: deque[_Waiter[Item, Result]] = deque()

    @property
    def in_flight(self) -> int:
        """Number of calls in flight."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """Number of callers that wait for a call."""
        return len(self._waiters)

    @property
    def keeps_together(self) -> bool:
        """Whether only one call at a time carries items."""
        return self._linger.keeps_together

    async def submit(self, item: Item, *, timeout: float) -> Result:
        """Return the result of one item; raise its error, or that of the call that carried it.

        Raise `Timeout` after `timeout` seconds. A caller that is cancelled before its item is in flight
        takes it back.
        """
        began = self._runtime.monotonic()
        with self._lock:
            is_alone = not (self._in_flight or self._waiters or self._linger.expected)
            self._in_flight += is_alone
        if is_alone:
            try:
                results = await self._call((item,), timeout=timeout)
            finally:
                self._landed(1, began)
            result = _checked(results, 1)[0]
        else:
            result = (await self._share([item], self._size_of(item), began + timeout))[0]
        if result.error is not None:
            raise result.error
        return result

    async def submit_many(self, items: Sequence[Item], *, timeout: float) -> Sequence[Result]:
        """Return a result for each of `items`, which share one call: see `submit`."""
        size = sum(map(self._size_of, items))
        if len(items) > 1 and (2 * len(items) > self._max_batch or 2 * size > self._max_bytes):
            # They fill half of a call: to gather others for it would save nothing.
            return await self._call(items, timeout=timeout)
        return await self._share(items, size, self._runtime.monotonic() + timeout)

    async def _share(self, items: Sequence[Item], size: int, deadline: float) -> Sequence[Result]:
        """Make a call with what else waits, or wait for one."""
        waiter: _Waiter[Item, Result] = _Waiter(items, size, deadline)
        with self._lock:
            leads = self._may_lead(len(self._waiters) + 1)
            if leads:
                self._in_flight += 1
            else:
                waiter.state = _WaiterState.WAITING
                waiter.signal = self._runtime.signal()
                self._waiters.append(waiter)
                if len(self._waiters) == 1 and self._has_place():
                    waiter.state = _WaiterState.LINGERING
        if not leads:
            leads = await self._wait(waiter)
        if leads:
            batch = self._collect(waiter)
            if len(batch) == 1:
                await self._make_call(batch)
            else:
                # In a task of its own, where there are tasks: if this caller is cancelled, the
                # others' items stay in the call.
                await self._runtime.finish(self._make_call(batch))
        if waiter.error is not None:
            raise waiter.error
        return waiter.results

    def _has_place(self) -> bool:
        """Return whether another call may be in flight. With the lock held."""
        return self._in_flight < (1 if self._linger.keeps_together else MAX_CALLS)

    def _may_lead(self, gathered: int) -> bool:
        """Return whether a call with `gathered` items may begin now. With the lock held."""
        return self._has_place() and not self._linger.is_missing(gathered, self._runtime.monotonic())

    async def _wait(self, waiter: _Waiter[Item, Result]) -> bool:
        """Wait until the item is done (False), or leads the next call (True)."""
        try:
            while True:
                with self._lock:
                    if waiter.state is _WaiterState.DONE:
                        return False
                    if waiter.state is _WaiterState.LINGERING and self._may_lead(len(self._waiters)):
                        self._waiters.remove(waiter)
                        self._in_flight += 1
                        waiter.state = _WaiterState.LEADING
                    if waiter.state is _WaiterState.LEADING:
                        return True
                    until = waiter.deadline
                    if waiter.state is _WaiterState.LINGERING:
                        if self._has_place():
                            until = min(until, self._linger.until)
                        else:
                            waiter.state = _WaiterState.WAITING  # For a call to end.
                    signal = waiter.signal = self._runtime.signal()
                left = until - self._runtime.monotonic()
                if not await signal.wait(max(0.0, left)) and until == waiter.deadline:
                    break
        except BaseException:
            self._leave(waiter)
            raise
        state = self._leave(waiter)
        if state is _WaiterState.DONE:
            return False
        raise Timeout(
            "The timeout passed while the call was in flight: it may have taken place."
            if state is _WaiterState.IN_FLIGHT
            else "The timeout passed while earlier calls were in flight: this one was not made."
        )

    def _leave(self, waiter: _Waiter[Item, Result]) -> _WaiterState:
        """Take a waiter out of the queue; return its state."""
        successor = None
        with self._lock:
            state = waiter.state
            if state in (_WaiterState.WAITING, _WaiterState.LINGERING):
                self._waiters.remove(waiter)
                successor = self._next_leader()
            elif state is _WaiterState.LEADING:
                self._in_flight -= 1
                successor = self._next_leader()
        if successor is not None and successor.signal is not None:
            successor.signal.set()
        return state

    def _next_leader(self) -> _Waiter[Item, Result] | None:
        """Pick the next waiter to lead a call or to linger; None if there is no place for a call. With
        the lock held; the caller sets its signal."""
        if not self._waiters:
            return None
        if self._may_lead(len(self._waiters)):
            self._in_flight += 1
            successor = self._waiters.popleft()
            successor.state = _WaiterState.LEADING
            return successor
        first = self._waiters[0]
        if first.state is _WaiterState.LINGERING or not self._has_place():
            return None
        first.state = _WaiterState.LINGERING
        return first

    def _collect(self, leader: _Waiter[Item, Result]) -> list[_Waiter[Item, Result]]:
        batch = [leader]
        count, size = len(leader.items), leader.size
        with self._lock:
            leader.state = _WaiterState.IN_FLIGHT
            while self._waiters:
                count += len(self._waiters[0].items)
                size += self._waiters[0].size
                if count > self._max_batch or size > self._max_bytes:
                    break
                waiter = self._waiters.popleft()
                waiter.state = _WaiterState.IN_FLIGHT
                batch.append(waiter)
            self._linger.begun(len(batch))
            # Another place may be free, and some may not have fitted in here.
            successor = self._next_leader()
        if successor is not None and successor.signal is not None:
            successor.signal.set()
        return batch

    async def _make_call(self, batch: list[_Waiter[Item, Result]]) -> None:
        interruption: BaseException | None = None
        began = self._runtime.monotonic()
        try:
            latest = max(waiter.deadline for waiter in batch)
            left = max(0.0, latest - began)
            items = [item for waiter in batch for item in waiter.items]
            results = _checked(await self._call(items, timeout=left), len(items))
            begin = 0
            for waiter in batch:
                waiter.results = results[begin : begin + len(waiter.items)]
                begin += len(waiter.items)
        except SpoolrackError as error:
            for waiter in batch:
                # One exception raised in many threads would mix their tracebacks.
                waiter.error = copy.copy(error)
        except Exception as error:  # noqa: BLE001  # a defect: every waiter raises it
            for waiter in batch:
                waiter.error = error
        except BaseException as error:  # noqa: BLE001  # Ctrl-C, a cancelled task: for the leader alone
            interruption = error
            for waiter in batch:
                waiter.error = Unreachable("The call was interrupted; it may have taken place.")
        for waiter in batch:
            waiter.state = _WaiterState.DONE
        self._landed(len(batch), began)
        for waiter in batch:
            if waiter.signal is not None:
                waiter.signal.set()
        if interruption is not None:
            raise interruption

    def _landed(self, carried: int, began: float) -> None:
        """Note the end of a call of `carried` callers; let the next one begin."""
        with self._lock:
            now = self._runtime.monotonic()
            self._in_flight -= 1
            self._linger.answered(carried, len(self._waiters), now, now - began)
            successor = self._next_leader() if self._waiters else None
        if successor is not None and successor.signal is not None:
            successor.signal.set()


def _checked(results: Sequence[Result], count: int) -> Sequence[Result]:
    if len(results) != count:
        raise ValueError(f"{len(results)} results for {count} items")
    return results
