"""Request streams: many requests in flight at a time, answered in their order.

A stream costs a task that reads and one that writes, and a request neither. The task that reads writes
the response to a lone request that is answered at once; the other one is woken once for all requests
that a commit answers. Owns a stream's flow window, and the drain, after which
the requests in flight are answered and no others are read. Knows nothing of the requests' content.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from spoolrack_store.model.errors import Draining, InvalidRequest, StoreError

from ..app.store_access import Submitted, on_answer
from ..metrics import instrumentation
from ..metrics.instrumentation import Instrumentation
from ..wire.encoding import (
    ACCEPTS_MORE,
    MORE_RESPONSES,
    SEND_TAGS,
    ResponseTags,
    correlated,
    failed,
    field,
)
from ..wire.status import INTERNAL, failure_of
from .authorized_calls import Context
from .calls import Requests, put

WINDOW_REQUESTS: Final = 32
WINDOW_BYTES: Final = 8 * 1024 * 1024
JOINED_BYTES: Final = 64 * 1024
"""Of responses in one message, at most, and one more: a client may take no more than 4 MiB."""


@dataclass(frozen=True, slots=True)
class StreamOperation:
    """A kind of stream: how its requests are read, handed to the store and answered."""

    name: str
    begin: Callable[[Any], Awaitable[Submitted[bytes]]]
    """Hands the content of a request to the store; raises the `StoreError` of the whole request."""
    content_of: Callable[[Any], Any] = attrgetter("request")
    """Returns what a request asks for, as in the unary call."""
    tags_of: Callable[[Any], ResponseTags] | None = None
    """Returns the fields of the response to a request; None: `SEND_TAGS`."""
    write: Callable[[Context, bytes], Awaitable[None]] = put
    note: Callable[[Any], bool] | None = None
    """Takes in what a request tells; returns whether it asks for nothing, and gets no response."""
    joins: bool = True
    """Whether requests and responses may hold those that follow them, as `more`."""


class Streams:
    """The request streams of one server. Lives in one event loop."""

    def __init__(
        self,
        instrumentation: Instrumentation | None = None,
        arrive: Callable[[int, str, int], object] = lambda *_: None,
    ) -> None:
        """`arrive` is called with the number of requests that a message brings, the kind of its stream
        and the stream's number, before they are submitted."""
        self._arrive = arrive
        self._instrumentation = instrumentation or Instrumentation()
        self._draining = False
        self._open: set[_ResponseQueue] = set()

    def drain(self) -> None:
        """Read no more requests, and end each stream when those in flight are answered."""
        self._draining = True
        for responses in list(self._open):
            responses.refuse(Draining())

    def begin(self, name: str, content: Any, stream: int) -> instrumentation.ObservedRequest:
        """Begin the observation of a lone request of a stream."""
        self._arrive(1, name, stream)
        return self._instrumentation.begin(name, content)

    async def serve(
        self,
        requests: Requests,
        context: Context,
        operation: StreamOperation,
    ) -> None:
        """Serve a stream until it ends: submit each request to the store, and write the responses in
        their order. A request's `StoreError` is in its response."""
        requests.announce(None)
        responses = _ResponseQueue(requests)
        reading = asyncio.create_task(self._read(requests, responses, operation, context))
        responses.reading = reading
        reading.add_done_callback(responses.end)
        self._open.add(responses)
        requests.on_refusal = responses.refuse
        if self._draining:
            responses.refuse(Draining())
        try:
            while (item := await responses.first()) is not None:
                items, response = [item], item.response()
                while len(response) < JOINED_BYTES and (more := responses.more()) is not None:
                    items.append(more)
                    response += field(MORE_RESPONSES, more.response())
                await operation.write(context, response)
                for item in items:
                    responses.leave(item)
            if responses.refusal is not None:
                raise responses.refusal
            reading.result()
        finally:
            self._open.discard(responses)
            requests.on_refusal = None  # Else the two are garbage that only a collection frees.
            # A read ends with the call: cancelled, it would never free the received part of a request.
            if not requests.is_reading:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _read(
        self,
        requests: Requests,
        responses: _ResponseQueue,
        operation: StreamOperation,
        context: Context,
    ) -> None:
        window = responses.window
        await window.wait()
        # No request is held here while the next is awaited.
        while await self._begin(await requests.next(), requests, responses, operation):
            if (item := responses.lone()) is not None:
                try:
                    await operation.write(context, item.response())
                finally:
                    responses.lone_is_written(item)
                del item
            if not window.has_room:
                await window.wait()

    async def _begin(
        self,
        request: Any | None,
        requests: Requests,
        responses: _ResponseQueue,
        operation: StreamOperation,
    ) -> bool:
        """Hand a request to the store; return False at the end of the stream."""
        if request is None or responses.refusal is not None:
            return False
        if operation.note is not None and operation.note(request):
            return True
        joined = [request]
        if operation.joins:
            joined += _more_of(request)
            responses.joins |= request.accepts_more
        refused: StoreError | None = None
        reserved_bytes = 0
        try:
            reserved_bytes = requests.reserve()
        except StoreError as error:
            refused = error
        self._arrive(len(joined), operation.name, id(requests))
        for each in joined:
            content = operation.content_of(each)
            observed = self._instrumentation.begin(operation.name, content)
            submitted: Submitted[bytes] | StoreError
            try:
                if refused is not None:
                    raise refused
                submitted = await operation.begin(content)
            except StoreError as error:
                submitted = error
            tags = SEND_TAGS if operation.tags_of is None else operation.tags_of(each)
            announces = operation.joins and each.accepts_more
            item = _StreamedRequest(each.correlation_id, tags, submitted, observed, announces)
            if each is joined[-1]:
                item.size, item.reserved_bytes = requests.size, reserved_bytes
            responses.enter(item)
        return True


def _more_of(request: Any) -> Sequence[Any]:
    """Return the requests that a message joins; raise `InvalidRequest`."""
    more: Sequence[Any] = request.more
    if len(more) >= WINDOW_REQUESTS or any(each.more for each in more):
        rule = f"must be at most {WINDOW_REQUESTS - 1} requests that have none themselves"
        raise InvalidRequest(what="more", value=len(more), rule=rule)
    return more


@dataclass(slots=True, eq=False)
class _StreamedRequest:
    """One request in flight, or the error that refused it."""

    correlation_id: int
    tags: ResponseTags
    submitted: Submitted[bytes] | StoreError
    observed: instrumentation.ObservedRequest
    announces: bool
    """Whether the response says that requests may be joined."""
    size: int = 0
    reserved_bytes: int = 0
    """Bytes of the message that it ends, and their share of the memory."""
    unanswered: int = 0
    """How many of its futures aren't done."""

    def response(self) -> bytes:
        try:
            if isinstance(self.submitted, StoreError):
                raise self.submitted
            response = correlated(self.correlation_id, self.submitted.result(), self.tags)
            self.observed.end()
        except StoreError as error:
            failure = failure_of(error) or INTERNAL
            self.observed.end_refused(failure.number, failure.reason, failure.message)
            response = failed(self.correlation_id, failure.status(), self.tags)
        return response + ACCEPTS_MORE if self.announces else response


class _ResponseQueue:
    """The requests in flight of one stream, in order, between its reading and its writing task."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.window = FlowWindow()
        self.reading: asyncio.Task[None] | None = None
        """The task that reads the requests."""
        self.refusal: StoreError | None = None
        """The error with which the stream ends, though the client may send more."""
        self.joins = False
        """Whether the client takes several responses in one."""
        self._items: deque[_StreamedRequest] = deque()
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None
        self._is_writing = False
        """Whether the task that reads writes a response."""

    def enter(self, item: _StreamedRequest) -> None:
        def answered() -> None:
            item.unanswered -= 1
            if not item.unanswered:
                self._wake()

        self.window.enter(item.size)
        self._items.append(item)
        futures = () if isinstance(item.submitted, StoreError) else item.submitted.futures
        item.unanswered = len(futures)
        for future in futures:
            on_answer(future, answered)

    def lone(self) -> _StreamedRequest | None:
        """Return the only request in flight, if it is answered, for the task that reads to write its
        response; None: the task that writes does it."""
        if not self._items or self._items[0].unanswered:
            return None
        if len(self._items) > 1 or self._waiting is None or self._waiting.done():
            self._wake()
            return None
        self._is_writing = True
        return self._items.popleft()

    def lone_is_written(self, item: _StreamedRequest) -> None:
        self._is_writing = False
        self.leave(item)
        if self._has_ended:
            self._wake()

    def leave(self, item: _StreamedRequest) -> None:
        self.window.leave(item.size)
        if item.reserved_bytes:
            self._requests.leave(item.reserved_bytes)

    def refuse(self, error: StoreError) -> None:
        """Read no more requests, and end with `error` when those in flight are answered."""
        if self.refusal is None:
            self.refusal = error
        if self._requests.is_reading or self._is_writing:
            self.end()
        elif self.reading is not None:
            self.reading.cancel()

    def end(self, reading: asyncio.Task[None] | None = None) -> None:
        """End after the requests in flight."""
        self._has_ended = True
        if reading is not None and not reading.cancelled():
            reading.exception()  # Else asyncio logs it as never retrieved.
        self._wake()

    async def first(self) -> _StreamedRequest | None:
        """Return the first request, once it is answered; None at the end."""
        while True:
            if self._items:
                if not self._items[0].unanswered:
                    return self._items.popleft()
            elif self._has_ended and not self._is_writing:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def more(self) -> _StreamedRequest | None:
        """Return the next request, if it is answered and its response may be joined to the last."""
        if self.joins and self._items and not self._items[0].unanswered:
            return self._items.popleft()
        return None

    def _wake(self) -> None:
        """Let `first` check again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class FlowWindow:
    """Flow control of one stream: a bound on requests in flight, and on their bytes.

    For one reading and one writing task, in one event loop.
    """

    def __init__(self, requests: int = WINDOW_REQUESTS, bytes: int = WINDOW_BYTES) -> None:
        self._requests = requests
        self._bytes = bytes
        self._moved = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return self._requests > 0 and self._bytes > 0

    async def wait(self) -> None:
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
