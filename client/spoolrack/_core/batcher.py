"""Batching: items of many threads or tasks share few calls.

Up to two calls are in flight. A caller that finds a place begins a call at once. Any other waits: the
end of a call begins the next one, with as many callers as fit, and wakes its own. So a lone caller
never waits, and many callers share large batches. A few callers in a loop share one call at a time:
see `Linger`. A caller's items stay together.

It doesn't retry: each caller does that for itself.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from .._runtime import Runtime, Signal
from .._transports import BatchStream
from .._values import MAX_BATCH, MAX_BATCH_BYTES
from ..errors import SpoolrackError, Timeout, Unreachable

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
        """When a call lingers no longer; 0.0 once that has passed."""
        self.places = MAX_CALLS
        """Calls that may be in flight: one carries all if the callers are few, and came back in time at
        the last try."""
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
            self.places = MAX_CALLS
        if self._rest:
            self._rest -= 1
        elif 2 <= callers <= SMALL:
            self.expected = callers
            self.until = now + min(LONGEST, SHARE * took)

    def is_missing(self, gathered: int, now: float) -> bool:
        """Return whether a call lingers for more callers than the `gathered` ones."""
        return gathered < self.expected and now < self.until

    @property
    def keeps_together(self) -> bool:
        """Whether one call carries all callers."""
        return self.places == 1

    def begun(self, gathered: int) -> None:
        """Note the start of a call that carries `gathered` items."""
        if not self.expected:
            return
        if 2 * gathered > self.expected:
            self.places = self._pause = 1
        else:
            self.places = MAX_CALLS
            self._rest = self._pause
            self._pause = min(RAREST, 2 * self._pause)
        self.expected = 0


class ItemResult(Protocol):
    """The result of one item of a call."""

    @property
    def error(self) -> SpoolrackError | None: ...


class _Waiter(Generic[Item, Result]):
    """A caller that waits for the results of its items."""

    __slots__ = ("call", "deadline", "error", "is_done", "items", "results", "signal", "size")

    def __init__(self, items: Sequence[Item], size: int, deadline: float, signal: Signal) -> None:
        self.items = items
        self.size = size
        self.deadline = deadline
        self.signal = signal
        self.call: _SharedCall[Item, Result] | None = None
        """The call in flight that carries the items."""
        self.is_done = False
        self.results: Sequence[Result] | None = None
        self.error: BaseException | None = None


class _SharedCall(Generic[Item, Result]):
    """A call in flight."""

    __slots__ = (
        *("abandon", "began", "callers", "deadline", "is_over", "is_streamed"),
        *("items", "size", "waiting"),
    )

    def __init__(self, first: _Waiter[Item, Result], began: float) -> None:
        first.call = self
        self.began = began
        self.callers = [first]
        self.items = list(first.items)
        self.size = first.size
        self.deadline = first.deadline
        self.waiting = 1
        """Callers that have not left."""
        self.is_streamed = self.is_over = False
        self.abandon: Callable[[], object] = _nothing

    def add(self, caller: _Waiter[Item, Result]) -> None:
        caller.call = self
        self.callers.append(caller)
        self.items.extend(caller.items)
        self.size += caller.size
        self.deadline = max(self.deadline, caller.deadline)
        self.waiting += 1


class Batcher(Generic[Item, Result]):
    """Batching of calls of one kind to one queue."""

    def __init__(
        self,
        runtime: Runtime,
        call: Callable[..., Awaitable[Sequence[Result]]],
        size_of: Callable[[Item], int],
        *,
        stream: BatchStream[Item, Result] | None = None,
        max_batch: int = MAX_BATCH,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        """`call(items, timeout=seconds)` answers with a result for each item, in order: one of its
        callers makes it, or a thread or task beside them. `stream` carries smaller calls."""
        self._runtime = runtime
        self._call = call
        self._size_of = size_of
        self._stream = stream
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        self._streamed_bytes = 0 if stream is None else stream.max_bytes
        self._lock = runtime.lock()
        self._in_flight = 0
        self._linger = Linger()
        self._waiting: deque[_Waiter[Item, Result]] = deque()

    @property
    def in_flight(self) -> int:
        """Number of calls in flight."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """Number of callers that wait for a call."""
        return len(self._waiting)

    @property
    def keeps_together(self) -> bool:
        """Whether only one call at a time carries items."""
        return self._linger.keeps_together

    async def submit(self, item: Item, *, timeout: float) -> Result:
        """Return the result of one item; raise its error, or that of the call that carried it.

        Raise `Timeout` after `timeout` seconds. A caller that is cancelled before its item is in flight
        takes it back.
        """
        result = (await self._share((item,), self._size_of(item), timeout))[0]
        if result.error is not None:
            raise result.error
        return result

    async def submit_many(self, items: Sequence[Item], *, timeout: float) -> Sequence[Result]:
        """Return a result for each of `items`, which share one call: see `submit`."""
        size = sum(map(self._size_of, items))
        if len(items) > 1 and (2 * len(items) > self._max_batch or 2 * size > self._max_bytes):
            # They fill half of a call: to gather others for it would save nothing.
            return await self._call(items, timeout=timeout)
        return await self._share(items, size, timeout)

    async def _share(self, items: Sequence[Item], size: int, timeout: float) -> Sequence[Result]:
        """Return the results of a call with what else waits."""
        runtime, linger = self._runtime, self._linger
        now = runtime.monotonic()
        deadline = now + timeout
        caller: _Waiter[Item, Result] = _Waiter(items, size, deadline, runtime.signal())
        try:
            with self._lock:
                self._waiting.append(caller)
                has_place = self._in_flight < linger.places
            if has_place and not (linger.expected and linger.is_missing(len(self._waiting), now)):
                if self._stream is not None:
                    runtime.aside(self._begin_calls)
                elif (own := self._begin_calls(caller)) is not None:
                    await self._make(own)
            while not caller.is_done:
                until = deadline
                if caller.call is None and linger.expected:
                    with self._lock:
                        is_first = caller.call is None and self._waiting[0] is caller
                        if is_first and self._in_flight < linger.places and linger.until:
                            until = min(until, linger.until)
                if await caller.signal.wait(max(0.0, until - runtime.monotonic())):
                    if not caller.is_done:
                        # It was woken to begin a call that lingers. The loop checks again after this:
                        # the end of the call sets the newest signal.
                        caller.signal = runtime.signal()
                elif until == deadline:
                    break
                else:
                    with self._lock:
                        if linger.until == until:
                            linger.until = 0.0
                    runtime.aside(self._begin_calls)
        except BaseException:
            self._leave(caller)
            raise
        if not caller.is_done:
            raise self._timeout(self._leave(caller), timeout)
        if caller.error is not None:
            raise caller.error
        if caller.results is None:
            # The stream was refused.
            return await self._call(items, timeout=max(0.0, deadline - runtime.monotonic()))
        return caller.results

    def _timeout(self, is_in_flight: bool, timeout: float) -> Timeout:
        if not is_in_flight:
            return Timeout(
                "The timeout passed while earlier calls were in flight: this one was not made."
            )
        at = "" if self._stream is None else f" from {self._stream.target}"
        return Timeout(f"No answer{at} within {timeout:.3g} s: it may have taken place all the same.")

    def _leave(self, caller: _Waiter[Item, Result]) -> bool:
        """Note that a caller waits no more; return whether its items are in flight. A call that no
        caller waits for is abandoned."""
        with self._lock:
            call = caller.call
            if call is None:
                with suppress(ValueError):  # It was interrupted before it waited.
                    self._waiting.remove(caller)
            else:
                call.waiting -= 1
                if call.waiting or call.is_over or not call.is_streamed:
                    return True
                call.is_over = True
                self._in_flight -= 1
        if call is not None:
            call.abandon()
        self._runtime.aside(self._begin_next)
        return call is not None

    def _next_call(self) -> _SharedCall[Item, Result] | None:
        """Return a call with as many waiting callers as fit; None if none may begin now."""
        waiting, linger = self._waiting, self._linger
        now = self._runtime.monotonic()
        with self._lock:
            if not waiting or self._in_flight >= linger.places:
                return None
            if linger.expected and linger.is_missing(len(waiting), now):
                return None
            call = _SharedCall(waiting.popleft(), now)
            while waiting:
                caller = waiting[0]
                if (
                    len(call.items) + len(caller.items) > self._max_batch
                    or call.size + caller.size > self._max_bytes
                ):
                    break
                call.add(waiting.popleft())
            call.is_streamed = call.size < self._streamed_bytes
            self._in_flight += 1
            if linger.expected:
                linger.begun(len(call.callers))
        return call

    def _begin_calls(
        self, caller: _Waiter[Item, Result] | None = None
    ) -> _SharedCall[Item, Result] | None:
        """Begin the calls that may begin now, but for one that `caller` makes itself: return that."""
        own = None
        while self._waiting and (call := self._next_call()) is not None:
            try:
                if self._stream is not None and call.is_streamed:
                    call.abandon = self._stream.begin(call.items, partial(self._end, call))
                    if call.is_over:  # It has ended, or all callers have left meanwhile.
                        call.abandon()
                elif call.callers[-1] is caller and (self._runtime.blocks or len(call.callers) == 1):
                    own = call
                else:
                    # If a task is cancelled, the items of the other callers stay in the call.
                    self._runtime.spawn(self._make(call))
            except Exception as error:  # noqa: BLE001  # its callers raise it
                self._end(call, None, error)
        return own

    def _begin_next(self) -> None:
        """Begin the calls that may begin now. The first waiting caller begins one that lingers."""
        self._begin_calls()
        with self._lock:
            if self._waiting and self._in_flight < self._linger.places:
                self._waiting[0].signal.set()

    async def _make(self, call: _SharedCall[Item, Result]) -> None:
        try:
            results = await self._call(call.items, timeout=max(0.0, call.deadline - call.began))
        except Exception as error:  # noqa: BLE001  # its callers raise it
            self._end(call, None, error)
        except BaseException:  # Ctrl-C, a cancelled task: for this caller alone
            self._end(call, None, Unreachable("The call was interrupted; it may have taken place."))
            raise
        else:
            self._end(call, results, None)

    def _end(
        self,
        call: _SharedCall[Item, Result],
        results: Sequence[Result] | None,
        error: Exception | None,
    ) -> None:
        """Note the end of a call; let the next one begin, and wake its callers. Without results and
        without an error each of them calls by itself."""
        with self._lock:
            if call.is_over:
                return
            call.is_over = True
            self._in_flight -= 1
            now = self._runtime.monotonic()
            self._linger.answered(len(call.callers), len(self._waiting), now, now - call.began)
        if self._waiting:
            self._begin_next()
        if results is not None and len(results) != len(call.items):
            error = ValueError(f"{len(results)} results for {len(call.items)} items")
        begin = 0
        # No cycle of references is left to the garbage collector.
        callers, call.callers = call.callers, []
        for caller in callers:
            if error is not None:
                # One exception raised in many threads would mix their tracebacks.
                caller.error = copy.copy(error) if isinstance(error, SpoolrackError) else error
            elif results is not None:
                caller.results = results[begin : begin + len(caller.items)]
                begin += len(caller.items)
            caller.is_done = True
            caller.signal.set()


def _nothing() -> None:
    pass
