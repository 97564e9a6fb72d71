"""Request streams: requests of many callers on one long-lived call, and their responses.

A call of its own for each request costs gRPC twice the processor time, on both sides. The first request
opens the stream, and so does the next one after it has ended. It knows its requests by their
correlation ids and nothing of what they ask for; it doesn't retry. What can fail: the stream, and with
it all that is under way; one request's time is up, which harms no other.
"""

from __future__ import annotations

import asyncio
import copy
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, Generic, Protocol, TypeVar, cast

import grpc

from .._runtime import Runtime, Signal, Tasks
from .._threads import start_thread
from ..errors import ClientClosed, Timeout
from .grpc_calls import ended, error_from

Response = TypeVar("Response")
Answer = TypeVar("Answer", covariant=True)

JOIN = 5.0
"""Seconds for the thread of a cancelled stream to end: only a defect takes longer."""


class Asks(Protocol[Answer]):
    """Requests of one kind, which travel in streams."""

    is_known: bool
    """Whether the server may know this kind of stream."""

    async def ask(self, request: Any, timeout: float) -> Answer:
        """Return the response to a request, which gets a correlation id.

        Raises `NotKnown` if nothing was done, because the server knows no such stream; the error of the
        stream if it breaks; `Timeout`, and then the request may take place all the same.
        """

    async def close(self) -> None:
        """Fail what is under way, and return once nothing of it runs. No `ask` may follow."""


class NotKnown(Exception):
    """The server doesn't know this kind of stream: it is an older one."""


class _NotSent(NotKnown):
    """Nothing of the request has left; why is what a call of its own will tell."""


class _PendingRequest:
    """A request under way, and the signal that its caller waits for."""

    __slots__ = ("error", "has_left", "response", "signal")

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.response: Any = None
        self.error: Exception | None = None
        self.has_left = False
        """Known of tasks only."""


class _Asking:
    """The requests under way on one call. It must not know its owner: that one could never be freed."""

    def __init__(self, target: str, lock: AbstractContextManager[Any]) -> None:
        self.target = target
        self._lock = lock
        self.under_way: dict[int, _PendingRequest] = {}
        """By correlation id. It grows with the lock held."""
        self.is_cancelled = False
        """By this side."""
        self.has_answered = False
        self.has_ended = False

    def answer(self, response: Any) -> None:
        self.has_answered = True
        asked = self.under_way.pop(response.correlation_id, None)
        if asked is not None:  # Else its time was up.
            asked.response = response
            asked.signal.set()

    def end(self, error: Exception, *, unsent: Exception | None = None) -> None:
        """Fail all that is under way, with `unsent` that of which nothing has left. Any number of
        times."""
        with self._lock:
            self.has_ended = True
            left = list(self.under_way.values())
            self.under_way.clear()
        for asked in left:
            # One exception raised in many threads would mix their tracebacks.
            asked.error = copy.copy(error if asked.has_left or unsent is None else unsent)
            asked.signal.set()

    def meaning(self, failure: Any) -> Exception:
        """Why a call has failed."""
        code = failure.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return NotKnown()
        if code is grpc.StatusCode.CANCELLED and not self.is_cancelled:
            # Not by us: by a server that stopped before it had looked at the call.
            return ended(self.target)
        return error_from(failure, self.target)


class _Call(Protocol):
    """One call that carries requests."""

    asking: _Asking

    def put(self, request: Any) -> None: ...

    def cancel(self) -> None: ...

    async def join(self) -> None:
        """Return once a cancelled call is over."""


class RequestStream(Generic[Response]):
    """Requests of one kind. Safe to share between threads, or between the tasks of one loop."""

    def __init__(self, method: Callable[..., Any], target: str, runtime: Runtime) -> None:
        self._method = method
        self._target = target
        self._runtime = runtime
        self._open = _TaskCall if isinstance(runtime, Tasks) else _ThreadCall
        self._lock = runtime.lock()
        self._numbers = count(1)
        self._last = _Last()
        forgotten = weakref.finalize(self, _forget, self._last, runtime, os.getpid())
        forgotten.atexit = False
        self.is_known = True

    async def ask(self, request: Any, timeout: float) -> Response:
        asked = _PendingRequest(self._runtime.signal())
        with self._lock:
            call = self._usable()
            number = request.correlation_id = next(self._numbers)
            call.asking.under_way[number] = asked
            call.put(request)
        try:
            await asked.signal.wait(timeout)
        finally:
            # Also if the caller is interrupted. What isn't sent yet then never is.
            call.asking.under_way.pop(number, None)
        if asked.error is not None:
            if isinstance(asked.error, NotKnown) and not isinstance(asked.error, _NotSent):
                self.is_known = False
            raise asked.error
        if asked.response is None:
            raise Timeout(
                f"No answer from {self._target} within {timeout:.3g} s: "
                "it may have taken place all the same."
            )
        return cast(Response, asked.response)

    def _usable(self) -> _Call:
        """Return the open call, or a new one. With the lock held."""
        call = self._last.call
        if call is None or call.asking.has_ended:
            call = self._last.call = self._open(self._method, _Asking(self._target, self._lock))
        return call

    async def close(self) -> None:
        # Without the lock: whoever holds it may be interrupted by who closes, in the same thread.
        if self._last.call is not None:
            self._last.call.cancel()
            await self._last.call.join()


class _Last:
    """The call that was opened last."""

    call: _Call | None = None


def _forget(last: _Last, runtime: Runtime, process: int) -> None:
    """End the call of a stream that is garbage-collected: its thread or its tasks would live on."""
    if last.call is not None and not last.call.asking.has_ended and process == os.getpid():
        runtime.soon(last.call.cancel)


class _ThreadCall:
    """A call for threads: one of gRPC's own sends, one of ours reads and wakes the callers."""

    def __init__(self, method: Callable[..., Any], asking: _Asking) -> None:
        self.asking = asking
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            self._call = method(self._outgoing())
        except ValueError as error:
            # gRPC's word for a channel that was closed meanwhile.
            raise ClientClosed() from error
        self._reader = start_thread(self._read, "spoolrack-answers")

    def put(self, request: Any) -> None:
        self._requests.put(request)

    def cancel(self) -> None:
        self.asking.is_cancelled = True
        self._call.cancel()

    async def join(self) -> None:
        if self._reader is not threading.current_thread():
            self._reader.join(JOIN)

    def _outgoing(self) -> Iterator[Any]:
        while (request := self._requests.get()) is not None:
            if request.correlation_id in self.asking.under_way:
                yield request

    def _read(self) -> None:
        error: Exception = ended(self.asking.target)
        try:
            for response in self._call:
                self.asking.answer(response)
        except grpc.RpcError as failure:
            error = self.asking.meaning(failure)
        finally:
            self.asking.end(error)
            # Lets gRPC's thread, which waits for requests, end too.
            self._requests.put(None)


class _TaskCall:
    """A call for tasks: one writes, one reads. A caller does neither, as gRPC cancels the whole call
    with a task that writes or reads."""

    def __init__(self, method: Callable[..., Any], asking: _Asking) -> None:
        self.asking = asking
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._broke = False
        try:
            self._call = method()
        except grpc.aio.UsageError as error:
            raise ClientClosed() from error
        loop = asyncio.get_running_loop()
        self._writer = loop.create_task(self._write(), name="spoolrack-requests")
        self._reader = loop.create_task(self._read(), name="spoolrack-answers")

    def put(self, request: Any) -> None:
        self._requests.put_nowait(request)

    def cancel(self) -> None:
        self.asking.is_cancelled = True
        self._call.cancel()
        self._writer.cancel()
        self._reader.cancel()
        # A task that has not begun yet wouldn't do it.
        self.asking.end(ClientClosed())

    async def join(self) -> None:
        await asyncio.wait([self._writer, self._reader])

    async def _write(self) -> None:
        try:
            while True:
                request = await self._requests.get()
                asked = self.asking.under_way.get(request.correlation_id)
                if asked is not None:
                    await self._call.write(request)
                    asked.has_left = True
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The reader hears of the end too, though maybe not of its reason.
            self._broke = True
        except Exception as error:  # noqa: BLE001  # a defect: all who wait raise it
            self.asking.end(error)
            self._call.cancel()

    async def _read(self) -> None:
        error: Exception = ended(self.asking.target)
        unsent: Exception | None = None
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self.asking.answer(response)
        except grpc.aio.AioRpcError as failure:
            if not self._broke or failure.code() is not grpc.StatusCode.INTERNAL:
                error = self.asking.meaning(failure)
            elif not self.asking.has_answered:
                # grpc.aio says so if the call ends during a write, and has then lost the server's
                # reason. Of a call that never answered it may be that it isn't known.
                unsent = _NotSent()
        finally:
            self.asking.end(error, unsent=unsent)
            self._writer.cancel()
