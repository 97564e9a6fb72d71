"""gRPC calls, blocking or suspending.

The one difference between the two kinds of gRPC channel is kept here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

import grpc

from .. import tracing
from .._credentials import NONE, Credentials
from .._runtime import Runtime, Tasks, ThreadSignal, beside, run
from .._threads import Ending, in_main_thread, no_fork, start_thread
from ..errors import ClientClosed, SpoolrackError, Unauthenticated, Unreachable
from .grpc_channels import Metadata, Method, RenewableChannel, task_channel, thread_channel
from .grpc_errors import ended, error_from
from .grpc_stubs import Stubs

Request = TypeVar("Request")
Response = TypeVar("Response")
Late = Callable[[Response], Coroutine[Any, Any, None]]

CLOSE: Final = 5.0
"""Seconds for gRPC to close a channel."""
LATE: Final = 0.25
"""Seconds that an answer may take after its caller has left: longer than its way. It may have taken
effect, and a call that is cancelled on its way back can't be told from one that had none."""
PACE: Final = 0.05
"""Seconds between two reports of a call, which supersede each other."""
OPTIONS: Final = (
    # The contract's own limits are the server's to check, and their errors say more.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A restarted server shall be found within moments; the default backs off for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # One that returns under another address, too: the default asks for its name every 30 s at most.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
)
KEEPALIVE = 15.0
"""Seconds without a sign of the server after which a connection with a call is pinged. The server
refuses pings that come more often than each 10 s."""
KEEPALIVE_TIMEOUT = 10.0
"""Seconds for the answer to a ping. Both together are less than the default timeout of a call, which so
has time for a second attempt."""


def options() -> Sequence[tuple[str, int | str]]:
    """Return the options of a channel. Its user agent names this process: the server shows it with the
    oldest leases of a queue."""
    host = socket.gethostname().encode("ascii", errors="replace").decode()
    timeout = round(KEEPALIVE_TIMEOUT * 1_000)
    return (
        *OPTIONS,
        ("grpc.keepalive_time_ms", round(KEEPALIVE * 1_000)),
        ("grpc.keepalive_timeout_ms", timeout),
        # gRPC pings for reasons of its own, too. It waits a minute for the answer to such a one, and
        # sends no keepalive ping meanwhile.
        ("grpc.http2.ping_timeout_ms", timeout),
        ("grpc.primary_user_agent", f"spoolrack-python ({host}; pid {os.getpid()})"),
    )


class ReportingRequests(NamedTuple):
    """The requests of a call that takes reports."""

    method: Callable[..., Any]
    method_of_one: Callable[..., Any]
    """The same method, for a single request."""
    first: Any
    report_of: Callable[[Any], Any]
    """Makes the request of a report."""
    last: Any


class ChannelCalls(Protocol):
    """The calls on one channel."""

    stub: Stubs

    @property
    def generation(self) -> int: ...

    def error_of(
        self, failure: Any, generation: int, timeout: float | None = None, *, is_ours: bool
    ) -> SpoolrackError: ...

    async def unary(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        timeout: float,
        late: Late[Response] | None = None,
    ) -> Response:
        """Return the response. `late` gets one that arrives after the caller was cancelled or
        interrupted."""

    def frames(self, method: Callable[..., Any], request: Any) -> Frames: ...

    def reporting(self, requests: ReportingRequests) -> ReportingFrames: ...

    async def close(self) -> None: ...


class TaggedCalls:
    """The calls of another owner's channel, each with more metadata. Has nothing to close."""

    def __init__(self, calls: ChannelCalls, metadata: Metadata) -> None:
        self.stub: Stubs = cast(Stubs, _TaggedStub(calls.stub, metadata))
        self.unary = calls.unary
        self.frames = calls.frames
        self.reporting = calls.reporting
        self.error_of = calls.error_of
        self._calls = calls

    @property
    def generation(self) -> int:
        return self._calls.generation

    async def close(self) -> None:
        pass


class _TaggedStub:
    def __init__(self, stub: Any, metadata: Metadata) -> None:
        self._stub = stub
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stub, name)
        return Method(found, self._metadata) if callable(found) else _TaggedStub(found, self._metadata)


class Frames(Protocol):
    """The responses of a streaming call."""

    async def next(self) -> Any:
        """Return the next response of a call that has no end."""

    on_connected: Callable[[], None]
    """Called by the reader once the server has accepted the call."""

    async def next_or_end(self) -> Any | None:
        """Return the next response; None at the end."""

    def connected(self) -> bool: ...

    def cancel(self) -> None: ...


class ReportingFrames(Frames, Protocol):
    """The responses of a call that takes reports."""

    def report(self, *numbers: int) -> None:
        """Send a report soon: at once, if the last one was sent `PACE` seconds ago. Of those that wait
        only the last one is sent."""

    def stop(self) -> None:
        """Send the last request, after which there are no reports, and end this side. May be repeated,
        from any thread."""


def open_calls(
    target: str, runtime: Runtime, credentials: Credentials = NONE, metadata: Metadata = ()
) -> ChannelCalls:
    """`metadata` goes with each call."""
    kind = TaskCalls if isinstance(runtime, Tasks) else ThreadCalls
    return kind(target, credentials, metadata)


class _CallFrames(ABC):
    """The frames of one call."""

    def __init__(self, call: Any, target: str, calls: ThreadCalls | TaskCalls) -> None:
        self._call = call
        self._target = target
        self._calls = calls
        self._generation = calls.generation
        self._taken_up = False
        self._cancelled = False
        self.on_connected: Callable[[], None] = lambda: None

    async def next(self) -> Any:
        frame = await self.next_or_end()
        if frame is None:
            raise ended(self._target)
        return frame

    @abstractmethod
    async def next_or_end(self) -> Any | None: ...

    def connected(self) -> bool:
        return self._taken_up

    def _take_up(self, is_active: bool) -> None:
        self._taken_up = is_active
        if is_active:
            self.on_connected()


class _ChannelOwner:
    """The channel of one client, which may become another one."""

    def __init__(self, target: str, renewable: RenewableChannel) -> None:
        self._target = target
        self._renewable = renewable
        self.is_closed = False
        self.stub: Stubs = Stubs(renewable.for_stubs())

    @property
    def generation(self) -> int:
        """Number of the credentials that a call has which begins now."""
        return self._renewable.generation

    def error_of(
        self, failure: Any, generation: int, timeout: float | None = None, *, is_ours: bool
    ) -> SpoolrackError:
        """Return the error of a call that has failed with the credentials of this `generation`. If
        there are other ones now, a refusal may be repeated."""
        error = error_from(failure, self._target, timeout, is_ours=is_ours)
        if (
            isinstance(error, Unauthenticated | Unreachable)
            and self._renewable.renew(generation)
            and isinstance(error, Unauthenticated)
        ):
            error.retry_delay = timedelta(0)
        return error


class ThreadCalls(_ChannelOwner):
    """Calls that block their thread. The main thread never enters gRPC: see `beside`."""

    def __init__(self, target: str, credentials: Credentials = NONE, metadata: Metadata = ()) -> None:
        self._ending: list[ThreadSignal] = []
        """Of the calls whose callers have left, and whose answers may be late."""
        super().__init__(
            target,
            RenewableChannel(
                lambda present: thread_channel(target, present, options()), credentials, metadata
            ),
        )

    async def unary(
        self, method: Any, request: Any, timeout: float, late: Late[Any] | None = None
    ) -> Any:
        generation = self._renewable.generation
        given: dict[str, Any] = {"timeout": timeout, "metadata": tracing.metadata()}
        try:
            if not in_main_thread():
                return method(request, **given)
            call = _opened(
                lambda: method.future(request, **given),
                lambda call, ended: call.add_done_callback(lambda _: ended()),
                lambda call: call.cancel() if late is None else self._end(call, late),
            )
            return call.result()
        except grpc.RpcError as error:
            raise self.error_of(error, generation, timeout, is_ours=self.is_closed) from None
        except ValueError as error:
            # gRPC's word for a channel that was closed meanwhile.
            raise ClientClosed() from error

    def _end(self, call: Any, late: Late[Any]) -> None:
        """Cancel a call whose caller has left, if its answer is not on its way. Waits for it: close the
        channel after that."""
        ended = ThreadSignal()
        self._ending.append(ended)
        try:
            response = call.result(timeout=LATE)
        except (grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError):
            call.cancel()
        else:
            run(late(response))
        finally:
            self._ending.remove(ended)
            ended.set()

    def frames(self, method: Callable[..., Any], request: Any) -> Frames:
        try:
            return ThreadFrames(_opened(lambda: method(request)), self._target, self)
        except ValueError as error:
            raise ClientClosed() from error

    def reporting(self, requests: ReportingRequests) -> ReportingFrames:
        try:
            return ReportingThreadFrames(requests, self._target, self)
        except ValueError as error:
            raise ClientClosed() from error

    async def close(self) -> None:
        for signal in list(self._ending):
            await signal.wait(CLOSE)
        self.is_closed = True
        # It waits for all calls to end, for gRPC without a bound.
        with no_fork, contextlib.suppress(Ending):
            start_thread(self._renewable.channel.close, "spoolrack-close").join(CLOSE)


def _opened(
    open: Callable[[], Any],
    on_end: Callable[[Any, Callable[[], None]], object] = lambda _, ended: ended(),
    on_exit: Callable[[Any], None] = lambda call: call.cancel(),
) -> Any:
    """Return the call that `open` returns; cancel it, or `on_exit`, if a signal's handler raises
    meanwhile."""
    calls: list[Any] = []

    def open_and_keep() -> Any:
        call = open()
        calls.append(call)
        return call

    def cancel() -> None:
        # By two threads, if the call was being opened.
        while calls:
            with contextlib.suppress(IndexError):
                on_exit(calls.pop())

    return beside(open_and_keep, cancel, on_end)


class ThreadFrames(_CallFrames):
    async def next_or_end(self) -> Any | None:
        try:
            return beside(self._next_or_end, self._call.cancel)
        except grpc.RpcError as error:
            is_ours = self._cancelled or self._calls.is_closed
            raise self._calls.error_of(error, self._generation, is_ours=is_ours) from None

    def _next_or_end(self) -> Any | None:
        if not self._taken_up:
            # The server's first sign: it comes long before a frame if the queue is empty.
            self._call.initial_metadata()
            self._take_up(self._call.is_active())
        return next(self._call, None)

    def cancel(self) -> None:
        self._cancelled = True
        beside(self._call.cancel)


class ReportingThreadFrames(ThreadFrames):
    """A thread of gRPC sends the reports."""

    def __init__(self, requests: ReportingRequests, target: str, calls: ThreadCalls) -> None:
        self._reports = _Reports()
        outgoing = self._reports.outgoing(requests)
        super().__init__(_opened(lambda: requests.method(outgoing)), target, calls)
        self.report = self._reports.report
        self.stop = self._reports.end

    def cancel(self) -> None:
        super().cancel()
        # Ends gRPC's thread, too, which waits for reports.
        self._reports.end()


class _Reports:
    """Reports of a call. It must not refer to the call, which would keep it alive then."""

    def __init__(self) -> None:
        self._newest: Any = None
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = ThreadSignal()

    def report(self, *numbers: int) -> None:
        self._newest = numbers
        if self._wakes.empty():  # Else the thread that sends the newest one is woken anyway.
            self._wakes.put(None)

    def end(self) -> None:
        self._ended.set()
        self._wakes.put(None)

    def outgoing(self, requests: ReportingRequests) -> Iterator[Any]:
        """Yield the first request, reports until the end, and the last request."""
        yield requests.first
        sent: Any = None
        while not self._ended.is_set():
            self._wakes.get()
            if self._newest != sent:
                sent = self._newest
                yield requests.report_of(sent)
                run(self._ended.wait(PACE))
        yield requests.last


class TaskCalls(_ChannelOwner):
    """Calls that suspend their task. For the event loop in which it was made."""

    def __init__(self, target: str, credentials: Credentials = NONE, metadata: Metadata = ()) -> None:
        self._ending: set[asyncio.Task[None]] = set()
        """Of the calls whose callers have left, and whose answers may be late."""
        super().__init__(
            target,
            RenewableChannel(
                lambda present: task_channel(target, present, options()), credentials, metadata
            ),
        )

    async def unary(
        self, method: Any, request: Any, timeout: float, late: Late[Any] | None = None
    ) -> Any:
        generation = self._renewable.generation
        try:
            call = method(request, timeout=timeout, metadata=tracing.metadata())
            return await (call if late is None else self._shielded(call, late))
        except grpc.aio.AioRpcError as error:
            raise self.error_of(error, generation, timeout, is_ours=self.is_closed) from None
        except grpc.aio.UsageError as error:
            raise ClientClosed() from error
        except asyncio.CancelledError:
            if self.is_closed and not _is_cancelled():
                raise ClientClosed() from None
            raise

    async def _shielded(self, call: Any, late: Late[Any]) -> Any:
        answering = asyncio.get_running_loop().create_task(_answer_of(call))
        try:
            return await asyncio.shield(answering)
        except asyncio.CancelledError:
            if not answering.done():
                ending = asyncio.get_running_loop().create_task(_end(call, answering, late))
            elif not answering.cancelled() and answering.exception() is None:
                # The answer and the cancellation came in one turn of the loop.
                ending = asyncio.get_running_loop().create_task(late(answering.result()))
            else:
                raise
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            raise

    def frames(self, method: Callable[..., Any], request: Any) -> Frames:
        try:
            return TaskFrames(method(request), self._target, self)
        except grpc.aio.UsageError as error:
            raise ClientClosed() from error

    def reporting(self, requests: ReportingRequests) -> ReportingFrames:
        try:
            return ReportingTaskFrames(requests, self._target, self)
        except grpc.aio.UsageError as error:
            raise ClientClosed() from error

    async def close(self) -> None:
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=CLOSE)
        self.is_closed = True
        await self._renewable.channel.close()


async def _answer_of(call: Any) -> Any:
    return await call


async def _end(call: Any, answering: asyncio.Task[Any], late: Late[Any]) -> None:
    """Cancel a call whose caller has left, if its answer is not on its way."""
    try:
        await asyncio.wait([answering], timeout=LATE)
    finally:
        call.cancel()
    await asyncio.wait([answering])
    if not answering.cancelled() and answering.exception() is None:
        await late(answering.result())


def _is_cancelled() -> bool:
    """Whether the task is cancelled, and not only its call: gRPC raises CancelledError for both."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class TaskFrames(_CallFrames):
    async def open(self) -> None:
        """Return once the server has accepted the call; raise the error of one that has ended."""
        await self._call.initial_metadata()
        self._take_up(not self._call.done())
        if not self._taken_up:
            await self.next_or_end()

    async def next_or_end(self) -> Any | None:
        try:
            if not self._taken_up:
                await self._call.initial_metadata()
                self._take_up(not self._call.done())
            frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            is_ours = self._cancelled or self._calls.is_closed
            raise self._calls.error_of(error, self._generation, is_ours=is_ours) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            if self._cancelled:
                raise ClientClosed("The stream was closed.") from None
            if self._calls.is_closed:
                raise ClientClosed() from None
            raise
        return None if frame is grpc.aio.EOF else frame

    def cancel(self) -> None:
        self._cancelled = True
        self._call.cancel()


class ReportingTaskFrames(TaskFrames):
    """A task sends the first request and the reports. The reader does not, as gRPC cancels the whole
    call with a task that writes."""

    def __init__(self, requests: ReportingRequests, target: str, calls: TaskCalls) -> None:
        super().__init__(requests.method(), target, calls)
        self._requests = requests
        self._ended = asyncio.Event()
        self._newest: Any = None
        self._some = asyncio.Event()
        self._broke = False
        self._writer = asyncio.get_running_loop().create_task(self._write(), name="spoolrack-reports")

    def report(self, *numbers: int) -> None:
        self._newest = numbers
        self._some.set()

    def stop(self) -> None:
        self._ended.set()
        self._some.set()

    async def _write(self) -> None:
        try:
            await self._call.write(self._requests.first)
            sent: Any = None
            while not self._ended.is_set():
                await self._some.wait()
                self._some.clear()
                if self._newest != sent:
                    sent = self._newest
                    await self._call.write(self._requests.report_of(sent))
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._ended.wait(), PACE)
            await self._call.write(self._requests.last)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            # The reader learns of the end too, though maybe not of its reason.
            self._broke = True

    async def next_or_end(self) -> Any | None:
        try:
            return await super().next_or_end()
        except SpoolrackError:
            if self._taken_up or not self._broke or self._cancelled:
                raise
        # grpc.aio reports INTERNAL if the call ends during a write, and has then lost the server's
        # reason. The same request, sent with the beginning of a call, shows it.
        requests = self._requests
        again = TaskFrames(requests.method_of_one(requests.first), self._target, self._calls)
        try:
            await again.open()
        finally:
            again.cancel()
        raise ended(self._target)

    def cancel(self) -> None:
        super().cancel()
        self._writer.cancel()
