"""Streams of requests: many on their way at a time, answered in their order.

A stream costs a task that reads and one that writes, and a request neither: that which writes is woken
once for all that a commit answers. Owns the window, which bounds what one stream may have on its way,
and the drain, after which all that was taken is answered and nothing more is taken. Knows nothing of
what is asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Protocol

from spoolrack_store.model.errors import Draining, StoreError

from .encoding import SEND_TAGS, ResponseTags, correlated, failed
from .loop_answers import on_answer
from .observability import instrumentation
from .observability.instrumentation import Instrumentation
from .rpc import Context, Requests, put
from .status import INTERNAL, failure_of

WINDOW_REQUESTS: Final = 32
WINDOW_BYTES: Final = 8 * 1024 * 1024


class SubmittedRequest(Protocol):
    """A request that the store works on."""

    @property
    def futures(self) -> Sequence[Future[Any]]: ...

    def encoded(self) -> bytes:
        """Return the response of a unary call, once the store has answered; raise the `StoreError` of
        the whole request."""


@dataclass(frozen=True, slots=True)
class StreamOperation:
    """A kind of stream: how its requests are read, handed to the store and answered."""

    name: str
    begin: Callable[[Any], Awaitable[SubmittedRequest]]
    """Hands the content of a request to the store; raises the `StoreError` of the whole request."""
    content_of: Callable[[Any], Any] = attrgetter("request")
    """Returns what a request asks for, as in the unary call."""
    tags_of: Callable[[Any], ResponseTags] = lambda _: SEND_TAGS
    """Returns the fields of the response to a request."""
    write: Callable[[Context, bytes], Awaitable[None]] = put


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
        operation: StreamOperation,
    ) -> None:
        """Serve a stream until it ends: hand each request to the store, and write a response to each in
        their order. The `StoreError` that a request meets is in its response."""
        requests.tell(None)
        line = _Line(requests)
        inflow = asyncio.create_task(self._take(requests, line, operation))
        line.inflow = inflow
        inflow.add_done_callback(line.end)
        self._lines.add(line)
        requests.on_refusal = line.refuse
        if self._draining:
            line.refuse(Draining())
        try:
            while (turn := await line.first()) is not None:
                await operation.write(context, turn.response())
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

    async def _take(self, requests: Requests, line: _Line, operation: StreamOperation) -> None:
        window = line.window
        await window.room()
        # No request is held here while the next is awaited.
        while await self._begin(await requests.next(), requests, line, operation):
            if not window.has_room:
                await window.room()

    async def _begin(
        self,
        request: Any | None,
        requests: Requests,
        line: _Line,
        operation: StreamOperation,
    ) -> bool:
        """Hand a request to the store; False if it is none, but the end."""
        if request is None or line.refused is not None:
            return False
        content = operation.content_of(request)
        watched = self._watch.begin(operation.name, content)
        begun: SubmittedRequest | StoreError
        taken = 0
        try:
            taken = requests.check(request)
            begun = await operation.begin(content)
        except StoreError as error:
            begun = error
        tags = operation.tags_of(request)
        line.enter(_Turn(request.correlation_id, tags, request.ByteSize(), taken, begun, watched))
        return True


class _Turn:
    """One request on its way, or why it never went."""

    __slots__ = ("begun", "correlation_id", "size", "tags", "taken", "watched")

    def __init__(
        self,
        correlation_id: int,
        tags: ResponseTags,
        size: int,
        taken: int,
        begun: SubmittedRequest | StoreError,
        watched: instrumentation.ObservedRequest,
    ) -> None:
        self.correlation_id = correlation_id
        self.tags = tags
        self.size = size
        self.taken = taken
        self.begun = begun
        self.watched = watched

    @property
    def is_answered(self) -> bool:
        return isinstance(self.begun, StoreError) or all(map(Future.done, self.begun.futures))

    def response(self) -> bytes:
        try:
            if isinstance(self.begun, StoreError):
                raise self.begun
            response = correlated(self.correlation_id, self.begun.encoded(), self.tags)
            self.watched.end()
        except StoreError as error:
            failure = failure_of(error) or INTERNAL
            self.watched.refused(failure.number, failure.reason, failure.message)
            response = failed(self.correlation_id, failure.status(), self.tags)
        return response


class _Line:
    """The requests of one stream, from the reading task to the writing one, in their order."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.window = FlowWindow()
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
        if not isinstance(turn.begun, StoreError):
            for future in turn.begun.futures:
                on_answer(future, self._look)
        if turn.is_answered:
            self._look()

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
        """Close the line: no request enters any more."""
        self._has_ended = True
        if inflow is not None and not inflow.cancelled():
            inflow.exception()  # Of a call that is over nobody else may ask for it.
        self._look()

    async def first(self) -> _Turn | None:
        """Return the first request in the line, once it is answered; None when the line has ended."""
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


class FlowWindow:
    """Flow control of one stream: so many requests in flight, and no more once so many bytes are.

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
