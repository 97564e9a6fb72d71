"""Streams of requests for threads: a caller has one to itself while it asks, and drives it alone.

With gRPC's public surface a stream needs two threads besides the caller's, and to hand over between
them costs more than the frame does. What gRPC makes its own blocking calls of needs none. It isn't
public: where it isn't as it is known here, `is_usable` says so, and `grpc_streams` does the same by
public means. What can fail: a stream, and with it the one request that is on it.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc

from .._runtime import Runtime
from .._threads import start_thread
from ..errors import ClientClosed
from ..v1 import queue_service_pb2
from .grpc_calls import ended, error_from
from .grpc_streams import JOIN, NotKnown

try:
    from grpc._cython import cygrpc  # type: ignore[attr-defined]  # it is compiled
except ImportError:  # another gRPC than is known here
    cygrpc = None

Response = TypeVar("Response")
Parsed = TypeVar("Parsed", covariant=True)

IDLE: Final = 16
"""Streams of one kind that are kept for later."""
WATCH: Final = 10.0
"""Seconds without a request after which the watch of deadlines ends."""
SERVICE: Final = queue_service_pb2.DESCRIPTOR.services_by_name["QueueService"].full_name
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_NEEDS: Final = (
    "PropagationConstants",
    "SendInitialMetadataOperation",
    "ReceiveInitialMetadataOperation",
    "SendMessageOperation",
    "ReceiveMessageOperation",
    "ReceiveStatusOnClientOperation",
    "OperationType",
    "StatusCode",
    "SegregatedCall",
)


class MessageType(Protocol[Parsed]):
    """A kind of message."""

    def FromString(self, raw: bytes, /) -> Parsed: ...  # noqa: N802 - protobuf names it


def is_usable(channel: Any) -> bool:
    """Whether gRPC is inside as it is known here."""
    return (
        cygrpc is not None
        and all(hasattr(cygrpc, name) for name in _NEEDS)
        and hasattr(getattr(channel, "_channel", None), "segregated_call")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    """How a call has ended, as `error_from` reads it."""

    number: int
    text: str
    trailing: Any

    def code(self) -> grpc.StatusCode:
        return _CODES.get(self.number, grpc.StatusCode.UNKNOWN)

    def details(self) -> str:
        return self.text

    def trailing_metadata(self) -> Any:
        return self.trailing


class _Call:
    """One stream. For one thread at a time, but for `cancel`."""

    def __init__(
        self, channel: Any, method: bytes, metadata: tuple[tuple[str, str], ...] | None
    ) -> None:
        self.status: _Status | None = None
        self.ended_before = False
        """Whether it had ended before it was asked last: then nothing of the request has left."""
        self._is_new = True
        self._due = {"begin", "end"}
        """Return gRPC's next event. Call it only when there is one."""
        begin = (
            cygrpc.SendInitialMetadataOperation(metadata, 0),
            cygrpc.ReceiveInitialMetadataOperation(0),
        )
        end = (cygrpc.ReceiveStatusOnClientOperation(0),)
        self._call = channel.segregated_call(
            cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS,
            method,
            *(None, None, None, None),
            ((begin, "begin"), (end, "end")),
            None,
        )

    def ask(self, raw: bytes) -> bytes | None:
        """The response to a request; None if the call has ended."""
        self.ended_before = False
        both = (cygrpc.SendMessageOperation(raw, 0), cygrpc.ReceiveMessageOperation(0))
        if not self._call.operate(both, "ask"):
            return None
        self._due.add("ask")
        response: bytes | None = None
        while "ask" in self._due:
            had_ended = self.status is not None
            event = self._hear()
            if event.tag == "ask":
                self.ended_before = had_ended and not event.success and not self._is_new
                for operation in event.batch_operations:
                    if operation.type() == cygrpc.OperationType.receive_message:
                        response = operation.message()
        self._is_new = False
        if response is None:
            self.drain()
        return response

    def drain(self) -> None:
        """Return once an ended or cancelled call has nothing more to say; gRPC then frees it."""
        while self._due:
            self._hear()

    def _hear(self) -> Any:
        event = self._call.next_event()
        self._due.discard(event.tag)
        if event.tag == "end":
            (status,) = event.batch_operations
            self.status = _Status(
                number=status.code(), text=status.details(), trailing=status.trailing_metadata()
            )
        return event

    def cancel(self, *, is_late: bool = False) -> None:
        """End it, and with it an `ask` that waits. From any thread."""
        code = cygrpc.StatusCode.deadline_exceeded if is_late else cygrpc.StatusCode.cancelled
        self._call.cancel(code, "")


class OwnStreams(Generic[Response]):
    """`grpc_streams.Asks`, with as many streams as requests are under way."""

    def __init__(
        self,
        channel: Any,
        method: str,
        response: MessageType[Response],
        target: str,
        runtime: Runtime,
        metadata: tuple[tuple[str, str], ...] | None = None,
    ) -> None:
        self._metadata = metadata
        self._channel = channel._channel
        self._method = f"/{SERVICE}/{method}".encode()
        self._parse: Callable[[bytes], Response] = response.FromString
        self._target = target
        self._numbers = count(1)
        self._idle: list[_Call] = []
        self._watch = _Watch()
        self._is_closed = False
        self.is_known = True
        forgotten = weakref.finalize(self, _forget, self._idle, runtime, os.getpid())
        forgotten.atexit = False

    async def ask(self, request: Any, timeout: float) -> Response:
        request.correlation_id = next(self._numbers)
        raw = request.SerializeToString()
        deadline = monotonic() + timeout
        while True:
            call = self._take()
            self._watch.begin(call, deadline)
            try:
                answer = call.ask(raw)
            except BaseException:
                # Ctrl-C. It isn't drained: what gRPC said in that moment may be lost, and would be
                # waited for in vain.
                call.cancel()
                raise
            finally:
                self._watch.end(call)
            if answer is not None:
                self._keep(call)
                return self._parse(answer)
            # How an idle stream has ended says nothing about the server of now.
            if not call.ended_before or self._is_closed:
                raise self._reason(call, timeout)

    def _take(self) -> _Call:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return _Call(self._channel, self._method, self._metadata)
        except ValueError as error:
            # gRPC's word for a channel that was closed meanwhile.
            raise ClientClosed() from error
        except (AttributeError, TypeError) as error:
            # It only looked like the gRPC that is known here.
            self.is_known = False
            raise NotKnown from error

    def _keep(self, call: _Call) -> None:
        if self._is_closed or len(self._idle) >= IDLE:
            call.cancel()
            call.drain()
        else:
            self._idle.append(call)

    def _reason(self, call: _Call, timeout: float) -> Exception:
        status = call.status
        if status is None:
            return ended(self._target)
        code = status.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            self.is_known = False
            return NotKnown()
        if code is grpc.StatusCode.CANCELLED and not self._is_closed:
            # Not by us: by a server that stopped before it had looked at the call.
            return ended(self._target)
        if code is grpc.StatusCode.OK:
            return ended(self._target)
        return error_from(status, self._target, timeout)

    async def close(self) -> None:
        self._is_closed = True
        self._watch.close()
        _end_all(self._idle)


def _end_all(idle: list[_Call]) -> None:
    while idle:
        call = idle.pop()
        call.cancel()
        call.drain()


def _forget(idle: list[_Call], runtime: Runtime, process: int) -> None:
    """End the streams of a transport that is gone: gRPC would keep them."""
    if idle and process == os.getpid():
        runtime.soon(partial(_end_all, idle))


class _Watch:
    """Ends calls whose time is up: a thread can't wait for gRPC for so long and no longer.

    Its thread is there while there are calls, and a little longer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[_Call, float] = {}
        self._begun = 0
        self._looks_at = math.inf
        self._sooner: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, call: _Call, deadline: float) -> None:
        with self._lock:
            self._busy[call] = deadline
            self._begun += 1
            if self._thread is None:
                self._thread = start_thread(self._run, "spoolrack-watch")
            elif deadline < self._looks_at:
                self._sooner.put(None)

    def end(self, call: _Call) -> None:
        with self._lock:
            self._busy.pop(call, None)

    def close(self) -> None:
        """End all calls, and return once the thread has ended."""
        with self._lock:
            for call in self._busy:
                call.cancel()
            self._busy.clear()
            self._begun = -1
            thread = self._thread
        if thread is not None:
            self._sooner.put(None)
            thread.join(JOIN)

    def _run(self) -> None:
        begun = 0
        while (pause := self._look(begun)) is not None:
            begun = self._begun
            with contextlib.suppress(queue.Empty):
                self._sooner.get(timeout=pause)

    def _look(self, begun: int) -> float | None:
        """End what is late; answers after how many seconds to look again, or None if it needn't."""
        now = monotonic()
        with self._lock:
            for call, deadline in list(self._busy.items()):
                if deadline <= now:
                    del self._busy[call]
                    call.cancel(is_late=True)
            if not self._busy and self._begun in (begun, -1):
                self._thread = None
                return None
            self._looks_at = min([now + WATCH, *self._busy.values()])
            return max(0.0, self._looks_at - now)
