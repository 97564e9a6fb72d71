"""Request streams: requests of many callers on one long-lived call, and their responses.

A unary call for each request costs gRPC twice the processor time, on both sides. The first request
opens the stream, and so does the next one after it has ended. A correlation id joins request and
response; the content is the caller's business, and so is a retry. A large request is a unary call, so
that it delays no other; so is one whose stream is refused. What can fail: the stream, with all
requests in flight; the timeout of one request, which harms no other.
"""

from __future__ import annotations

import asyncio
import copy
import os
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import grpc

from .._runtime import Runtime, Signal, Tasks, beside
from .._threads import start_thread
from ..errors import ClientClosed, InvalidRequest, Timeout
from . import grpc_values as convert
from .grpc_calls import ChannelCalls
from .grpc_core import CoreCall, core_call
from .grpc_errors import ended

Item = TypeVar("Item")
Result = TypeVar("Result")
Response = TypeVar("Response")
Ended = Callable[[Any, Exception | None], object]
"""Called once with the response to a request, or with its error."""

LARGE: Final = 1024 * 1024
"""Bytes from which a request is a unary call."""
JOINED = 32
"""Requests that one message of a stream may hold."""
JOINED_BYTES = 256 * 1024
"""Of them, at most, and one more."""
JOIN_TIMEOUT = 5.0
"""Seconds for the thread of a cancelled stream to end: only a defect takes longer."""


class _StreamRefused(Exception):
    """The stream was refused as a whole, or has ended before the request was written. A unary call with
    the request may succeed, or tells the reason."""


class _PendingRequests:
    """The requests in flight on one call.

    It must not refer to the `RequestStream`, which the call would keep alive then.
    """

    def __init__(
        self, target: str, calls: ChannelCalls, lock: AbstractContextManager[Any], *, joins: bool
    ) -> None:
        self.target = target
        self._joins = joins
        self._calls = calls
        self._generation = calls.generation
        self._lock = lock
        self.by_id: dict[int, Ended] = {}
        """By correlation id. It grows with the lock held."""
        self.last_written = 0
        """The last id that gRPC has taken. Known of tasks only."""
        self.is_cancelled = False
        """By this side."""
        self.has_response = False
        self.has_ended = False
        self._may_join = False
        """Whether the server reads `more` of requests."""

    def resolve(self, response: Any) -> None:
        self.has_response = True
        self._may_join |= self._joins and response.accepts_more
        for each in (response, *response.more) if self._may_join else (response,):
            end = self.by_id.pop(each.correlation_id, None)
            if end is not None:  # Else its timeout is over.
                end(each, None)

    def next_message(self, waiting: Any, first: Any = None) -> Any:
        """Return a message with the request `first` and those in the queue `waiting`, as many as may
        share one, without those whose callers have left. None: no such request is there."""
        requests: list[Any] = []
        size = 0
        while first is not None or not waiting.empty():
            request = waiting.get_nowait() if first is None else first
            first = None
            if request is None:  # The end, for the thread or task that waits for it.
                waiting.put_nowait(None)
                break
            if request.correlation_id in self.by_id:
                requests.append(request)
                if not self._may_join:
                    break
                size += request.ByteSize()
                if len(requests) == JOINED or size >= JOINED_BYTES:
                    break
        if not requests:
            return None
        message = requests[0]
        if self._joins:
            message.accepts_more = True
        if len(requests) > 1:
            # A caller may make its call again, without the others.
            message = type(message)()
            message.CopyFrom(requests[0])
            message.more.extend(requests[1:])
        return message

    def note_written(self, message: Any) -> None:
        """Note that gRPC has taken a message."""
        joined = message.more if self._joins else ()
        self.last_written = (message, *joined)[-1].correlation_id

    def fail(self, error: Exception, *, unsent: Exception | None = None) -> None:
        """Fail all requests in flight, with `unsent` those that were not written. Idempotent."""
        with self._lock:
            self.has_ended = True
            left = list(self.by_id.items())
            self.by_id.clear()
        for number, end in left:
            # One exception raised in many threads would mix their tracebacks.
            end(None, copy.copy(error if number <= self.last_written or unsent is None else unsent))

    def error_of(self, failure: Any) -> Exception:
        """Translate the failure of the call."""
        error = self._calls.error_of(failure, self._generation, is_ours=self.is_cancelled)
        # Of no request by itself: the stream is unknown there, or as a whole above a proxy's limit.
        return _StreamRefused() if isinstance(error, InvalidRequest) else error


class _OpenCall(Protocol):
    """One call that carries requests."""

    pending: _PendingRequests

    def put(self, request: Any, /) -> None: ...

    def cancel(self) -> None: ...

    async def close(self) -> None:
        """Cancel the call; return once it is over."""


class RequestStream(Generic[Response]):
    """A stream of requests of one kind. Safe to share between threads, or between the tasks of one
    loop."""

    def __init__(
        self,
        method: Callable[..., Any],
        unary: Callable[[Any, float], Awaitable[Response]],
        target: str,
        calls: ChannelCalls,
        runtime: Runtime,
        *,
        fields: tuple[str, str] = ("request", "response"),
        joins: bool = True,
        late: Callable[[Response], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """`unary(request, timeout)` makes the same call for one request; `fields` are those of the
        request and of the response in the stream's messages, which may be joined if it `joins`. `late`
        gets a response whose caller has left."""
        self._fields = fields
        self._joins = joins
        self._late = late
        self._left: set[Signal] = set()
        """Of the requests whose callers have left, and whose responses may come."""
        self._method = method
        self._unary = unary
        self._target = target
        self._calls = calls
        self._runtime = runtime
        self._open: Callable[..., _OpenCall] = _TaskCall if isinstance(runtime, Tasks) else _ThreadCall
        self._lock = runtime.lock()
        self._numbers = count(1)
        self._last = _Last()
        self._is_closed = False
        finalizer = weakref.finalize(self, _end_orphan, self._last, runtime, os.getpid())
        finalizer.atexit = False

    def begin(self, streamed: Any, ended: Ended) -> Callable[[], object]:
        """Send the request in `streamed`, which gets a correlation id. `ended` may be called by another
        thread. Return what abandons the request: one that isn't written yet never is."""
        with self._lock:
            call = self._last.call
            if call is None or call.pending.has_ended:
                if self._is_closed:
                    raise ClientClosed()
                pending = _PendingRequests(self._target, self._calls, self._lock, joins=self._joins)
                call = self._last.call = self._open(self._method, pending)
            number = streamed.correlation_id = next(self._numbers)
            call.pending.by_id[number] = ended
        call.put(streamed)
        return partial(call.pending.by_id.pop, number, None)

    async def request(self, streamed: Any, timeout: float) -> Response:
        """Return the response to the request in `streamed`.

        Raises the error of the response; the error of the stream if it breaks; `Timeout`, after which
        the request may take place all the same.
        """
        asked, answer = self._fields
        if streamed.ByteSize() >= LARGE:
            return await self._unary(getattr(streamed, asked), timeout)
        signal, gone = self._runtime.signal(), self._runtime.signal()
        ends: list[tuple[Any, Exception | None]] = []
        has_left = False

        def ended(response: Any, error: Exception | None) -> None:
            with self._lock:
                is_late = has_left and self._late is not None
                if not is_late:
                    ends.append((response, error))
            if is_late:
                self._give_late(response, error, gone)
            else:
                signal.set()

        abandons: list[Callable[[], object]] = []

        def begin() -> None:
            try:
                abandons.append(self.begin(streamed, ended))
                if has_left and self._late is None:
                    abandons[0]()
            except Exception as error:  # noqa: BLE001  # the caller raises it
                ended(None, error)

        has_answer = False
        try:
            self._runtime.aside(begin)
            has_answer = await signal.wait(timeout)
        finally:
            # Also if the caller is interrupted.
            if self._late is None:
                has_left = True
                for abandon in abandons:
                    abandon()
            elif not has_answer:
                self._left.add(gone)
                with self._lock:
                    has_left = True
                    came = ends.pop() if ends else None
                if came is not None:
                    self._give_late(*came, gone)
        if not ends:
            raise Timeout(
                f"No answer from {self._target} within {timeout:.3g} s: "
                "it may have taken place all the same."
            )
        response, error = ends[0]
        if isinstance(error, _StreamRefused):
            return await self._unary(getattr(streamed, asked), timeout)
        if error is not None:
            raise error
        if response.HasField("error"):
            raise convert.error(response.error)
        return cast(Response, getattr(response, answer))

    def _give_late(self, response: Any, error: Exception | None, left: Signal) -> None:
        """Give a response to `late`, as its caller has left."""

        async def give() -> None:
            try:
                answer = self._fields[1]
                if error is None and response.HasField(answer) and self._late is not None:
                    await self._late(getattr(response, answer))
            finally:
                self._left.discard(left)
                left.set()

        self._runtime.spawn(give())

    def end_if_idle(self) -> None:
        """End the call, if no request is in flight. A later request opens another one."""
        with self._lock:
            call = self._last.call
            if call is None or call.pending.by_id:
                return
            # No request is added to it from now on.
            self._last.call = None
        if not call.pending.has_ended:
            self._runtime.soon(call.cancel)

    async def close(self) -> None:
        """Fail the requests in flight; return once no thread or task is left. No request may follow."""
        # Without the lock: a signal handler may close in the thread that holds it.
        self._is_closed = True
        while self._left:
            left = next(iter(self._left))
            if not await left.wait(JOIN_TIMEOUT):
                break
            self._left.discard(left)
        if self._last.call is not None:
            await self._last.call.close()


class StreamedCalls(Generic[Item, Result]):
    """Calls of one kind to one queue on a stream: see `BatchStream`."""

    max_bytes = LARGE

    def __init__(
        self,
        stream: RequestStream[Any],
        target: str,
        request_of: Callable[[Sequence[Item]], Any],
        result_of: Callable[[Any], Result],
    ) -> None:
        self.target = target
        self._stream = stream
        self._request_of, self._result_of = request_of, result_of

    def begin(
        self, items: Sequence[Item], done: Callable[[Sequence[Result] | None, Exception | None], object]
    ) -> Callable[[], object]:
        streamed = self._request_of(items)
        if streamed.ByteSize() >= LARGE:  # Of receipts, or of attributes outside ASCII.
            done(None, None)
            return _nothing

        def ended(response: Any, error: Exception | None) -> None:
            results = None
            if isinstance(error, _StreamRefused):
                error = None
            elif response is not None and response.HasField("error"):
                error = convert.error(response.error)
            elif response is not None:
                try:
                    results = [self._result_of(each) for each in response.response.results]
                except Exception as defect:  # noqa: BLE001  # the callers raise it
                    error = defect
            done(results, error)

        return self._stream.begin(streamed, ended)


class _Last:
    """The call that was opened last."""

    call: _OpenCall | None = None


def _end_orphan(last: _Last, runtime: Runtime, process: int) -> None:
    """End the call of a stream that is garbage-collected: its thread or its tasks would live on."""
    if last.call is not None and not last.call.pending.has_ended and process == os.getpid():
        runtime.soon(last.call.cancel)


class _ThreadCall:
    """A call for threads: a caller writes, and one of our threads opens the call, reads and wakes the
    callers. The main thread never enters gRPC: see `beside`. Without a `CoreCall` a thread of gRPC
    writes."""

    def __init__(self, method: Callable[..., Any], pending: _PendingRequests) -> None:
        self.pending = pending
        self._method = method
        self._call: Any = None
        self._core: CoreCall | None = None
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = start_thread(self._read, "spoolrack-responses")

    def put(self, request: Any) -> None:
        self._requests.put(request)
        if self._core is not None and not self._core.is_writing:
            self._core.write()

    def cancel(self) -> None:
        self.pending.is_cancelled = True
        # A call that is not open yet is cancelled by the thread that opens it.
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        beside(self.cancel)
        if self._reader is not threading.current_thread():
            self._reader.join(JOIN_TIMEOUT)

    def _open(self) -> None:
        try:
            self._call = self._core = core_call(
                self._method, self._requests, partial(self.pending.next_message, self._requests)
            )
            if self._core is None:
                self._call = self._method(self._outgoing())
        except ValueError as error:
            # gRPC's word for a channel that was closed meanwhile.
            raise ClientClosed() from error
        if self.pending.is_cancelled:
            self._call.cancel()

    def _outgoing(self) -> Iterator[Any]:
        while (request := self._requests.get()) is not None:
            message = self.pending.next_message(self._requests, request)
            if message is not None:
                yield message

    def _read(self) -> None:
        error: Exception = ended(self.pending.target)
        try:
            self._open()
            if self._core is None:
                for response in self._call:
                    self.pending.resolve(response)
            else:
                self._core.write()
                self._core.read(self.pending.resolve)
        except ClientClosed as closed:
            error = closed
        except grpc.RpcError as failure:
            error = self.pending.error_of(failure)
        finally:
            self.pending.fail(error)
            if self._core is None:
                # Ends gRPC's thread, too, which waits for requests.
                self._requests.put(None)


class _TaskCall:
    """A call for tasks: one writes, one reads. A caller does neither, as gRPC cancels the whole call
    with a task that writes or reads."""

    def __init__(self, method: Callable[..., Any], pending: _PendingRequests) -> None:
        self.pending = pending
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._broke = False
        try:
            self._call = method()
        except grpc.aio.UsageError as error:
            raise ClientClosed() from error
        loop = asyncio.get_running_loop()
        self._writer = loop.create_task(self._write(), name="spoolrack-requests")
        self._reader = loop.create_task(self._read(), name="spoolrack-responses")

    def put(self, request: Any) -> None:
        self._requests.put_nowait(request)

    def cancel(self) -> None:
        self.pending.is_cancelled = True
        self._call.cancel()
        self._writer.cancel()
        self._reader.cancel()
        # A task that has not begun yet wouldn't do it.
        self.pending.fail(ClientClosed())

    async def close(self) -> None:
        self.cancel()
        await asyncio.wait([self._writer, self._reader])

    async def _write(self) -> None:
        try:
            while True:
                request = await self._requests.get()
                message = self.pending.next_message(self._requests, request)
                if message is not None:
                    await self._call.write(message)
                    self.pending.note_written(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The reader learns of the end too, though maybe not of its reason.
            self._broke = True
        except Exception as error:  # noqa: BLE001  # a defect: all callers raise it
            self.pending.fail(error)
            self._call.cancel()

    async def _read(self) -> None:
        error: Exception = ended(self.pending.target)
        unsent: Exception | None = None
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self.pending.resolve(response)
        except grpc.aio.AioRpcError as failure:
            if not self._broke or failure.code() is not grpc.StatusCode.INTERNAL:
                error = self.pending.error_of(failure)
            elif not self.pending.has_response:
                # grpc.aio reports INTERNAL if the call ends during a write, and has then lost the
                # server's reason. A call without any response may be of an unknown kind.
                unsent = _StreamRefused()
        finally:
            self.pending.fail(error, unsent=unsent)
            self._writer.cancel()


def _nothing() -> None:
    pass
