"""Streams of requests: many on their way at a time, answered in their order.

A stream costs a task that reads and one that writes, and a request neither: that which writes is woken
once for all that a commit answers. Owns the window, which bounds what one stream may have on its way,
and the drain, after which all that was taken is answered and nothing more is taken. Knows nothing of
what is asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol

from spoolrack_store.model.errors import Draining, StoreError

from .encoding import failed
from .loop_answers import on_answer
from .observability import instrumentation
from .observability.instrumentation import Instrumentation
from .rpc import Context, Requests, put
from .status import INTERNAL, failure_of

WINDOW_REQUESTS: Final = 32
WINDOW_BYTES: Final = 8 * 1024 * 1024


class ObservedRequest(Protocol):
    """A request that the store works on."""

    @property
    def future(self) -> Future[Any]: ...

    def response(self, correlation_id: int) -> bytes:
        """Return the response, once the store has answered; raise the `StoreError` of the whole
        request."""


class Streams:
    """Those of one server that carry requests. Lives in one event loop."""

    def __init__(self, watch: Instrumentation | None = None) -> None:
        self._watch = watch or Instrumentation()
        self._draining = False
        self._lines: set[_Line] = set()

    def drain(self) -> None:
        """Take nothing more, and end each stream when all it took is answered."""
        self._draining = True
        for line in list(self._lines):
            line.refuse(Draining())

    async def serve(
        self,
        requests: Requests,
        context: Context,
        begin: Callable[[Any], Awaitable[ObservedRequest]],
        operation: str,
    ) -> None:
        """Serve a stream until it ends: hand the `request` of each to the store with `begin`, and write
        a response to each in their order. The `StoreError` that a request meets is in its response."""
        line = _Line(requests)
        inflow = asyncio.create_task(self._take(requests, line, begin, operation))
        line.inflow = inflow
        inflow.add_done_callback(line.end)
        self._lines.add(line)
        requests.on_refusal = line.refuse
        if self._draining:
            line.refuse(Draining())
        try:
            while (turn := await line.first()) is not None:
                await put(context, turn.response())
                line.leave(turn)
            if line.refused is not None:
                raise line.refused
            inflow.result()
        finally:
            self._lines.discard(line)
            # A read ends with the call: cancelled, it would never free what has come of a request.
            if not requests.is_reading:
                inflow.cancel()
                await asyncio.gather(inflow, return_exceptions=True)

    async def _take(
        self,
        requests: Requests,
        line: _Line,
        begin: Callable[[Any], Awaitable[ObservedRequest]],
        operation: str,
    ) -> None:
        window = line.window
        await window.room()
        # No request is held here while the next is awaited.
        while await self._begin(await requests.next(), requests, line, begin, operation):
            if not window.has_room:
                await window.room()

    async def _begin(
        self,
        request: Any | None,
        requests: Requests,
        line: _Line,
        begin: Callable[[Any], Awaitable[ObservedRequest]],
        operation: str,
    ) -> bool:
        """Hand a request to the store; False if it is none, but the end."""
        if request is None or line.refused is not None:
            return False
        watched = self._watch.begin(operation, request.request)
        begun: ObservedRequest | StoreError
        taken = 0
        try:
            taken = requests.check(request)
            begun = await begin(request.request)
        except StoreError as error:
            begun = error
        line.enter(_Turn(request.correlation_id, request.ByteSize(), taken, begun, watched))
        return True


class _Turn:
    """One request on its way, or why it never went."""

    __slots__ = ("begun", "correlation_id", "size", "taken", "watched")

    def __init__(
        self,
        correlation_id: int,
        size: int,
        taken: int,
        begun: ObservedRequest | StoreError,
        watched: instrumentation.ObservedRequest,
    ) -> None:
        self.correlation_id = correlation_id
        self.size = size
        self.taken = taken
        self.begun = begun
        self.watched = watched

    @property
    def is_answered(self) -> bool:
        return isinstance(self.begun, StoreError) or self.begun.future.done()

    def response(self) -> bytes:
        try:
            if isinstance(self.begun, StoreError):
                raise self.begun
            response = self.begun.response(self.correlation_id)
            self.watched.end()
        except StoreError as error:
            failure = failure_of(error) or INTERNAL
            self.watched.refused(failure.number, failure.reason, failure.message)
            response = failed(self.correlation_id, failure.status())
        return response


class _Line:
    """The requests of one stream, from the reading task to the writing one, in their order."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.window = Window()
        self.inflow: asyncio.Task[None] | None = None
        """The task that reads the requests."""
        self.refused: StoreError | None = None
        """Why nothing enters any more, though there may be requests."""
        self._turns: deque[_Turn] = deque()
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None

    def enter(self, turn: _Turn) -> None:
        self.window.enter(turn.size)
        self._turns.append(turn)
        if isinstance(turn.begun, StoreError):
            self._look()
        else:
            on_answer(turn.begun.future, self._look)

    def leave(self, turn: _Turn) -> None:
        self.window.leave(turn.size)
        self._requests.leave(turn.taken)

    def refuse(self, error: StoreError) -> None:
        """Take nothing more, and end when all is answered that was taken."""
        if self.refused is None:
            self.refused = error
        if self._requests.is_reading:
            self.end()
        elif self.inflow is not None:
            self.inflow.cancel()

    def end(self, inflow: asyncio.Task[None] | None = None) -> None:
        """Nothing enters any more."""
        self._has_ended = True
        if inflow is not None and not inflow.cancelled():
            inflow.exception()  # Of a call that is over nobody else may ask for it.
        self._look()

    async def first(self) -> _Turn | None:
        """The first in the line, once it is answered; None when the line has ended."""
        while True:
            if self._turns:
                if self._turns[0].is_answered:
                    return self._turns.popleft()
            elif self._has_ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _look(self) -> None:
        """Let `first` look again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Window:
    """How much of one stream may be on its way: so many requests, and no more once so many bytes are.

    One that reads, one that writes, in one event loop.
    """

    def __init__(self, requests: int = WINDOW_REQUESTS, bytes: int = WINDOW_BYTES) -> None:
        self._requests = requests
        self._bytes = bytes
        self._moved = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return self._requests > 0 and self._bytes > 0

    async def room(self) -> None:
        """Return once another request may be read."""
        while not self.has_room:
            self._moved.clear()
            await self._moved.wait()

    def enter(self, size: int) -> None:
        self._requests -= 1
        self._bytes -= size

    def leave(self, size: int) -> None:
        self._requests += 1
        self._bytes += size
        self._moved.set()
