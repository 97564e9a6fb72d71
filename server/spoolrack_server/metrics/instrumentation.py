"""Instrumentation of each call and request: an id, metrics, and a trace if tracing is on.

One place for gRPC and HTTP. Knows nothing of what is asked for, and decides nothing: an answer is the
same with it and without it. Without tracing, it costs two looks at the clock, a name and an addition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from spoolrack_store.model.clock import stopwatch

from ..system.error_log import ErrorLog
from ..system.logs import make_log
from ..system.request_ids import HEADER, IDENTITY, PEER, REQUEST_ID, RequestIds
from ..wire.contract import METHODS
from .call_metrics import CallMetrics

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest  # A server without HTTP doesn't load it.

    from .otel import OtelTraces, RpcSpan

OnRequest = Callable[[Any], None]
"""Called with the request of a call, once it is read; None: it has many requests."""
Method = Callable[[OnRequest, Any], Awaitable[Any]]

CANCELLED: Final = "CANCELLED"
OK: Final = "OK"
_CODES: Final = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """A request of a stream, in flight."""

    operation: str
    began: float
    operations: CallMetrics
    span: RpcSpan | None
    refusals: ErrorLog

    def end(self) -> None:
        """Note the answer to the request."""
        self._end(OK)

    def end_refused(self, code: int, reason: str, detail: str) -> None:
        """Note the refusal of the whole request, with gRPC's number of a code."""
        name = code_name(code)
        self.refusals.log(self.operation, reason, detail, is_fault=name in FAULTS)
        self._end(name)

    def _end(self, code: str) -> None:
        self.operations.ended(self.operation, code, stopwatch() - self.began)
        if self.span is not None:
            self.span.end(code)


class Instrumentation:
    """The instrumentation of one server. Lives in one event loop."""

    def __init__(
        self,
        operations: CallMetrics | None = None,
        traces: OtelTraces | None = None,
        refusals: ErrorLog | None = None,
    ) -> None:
        self.operations = operations or CallMetrics()
        self.refusals = refusals or ErrorLog(make_log())
        self._traces = traces
        self._ids = RequestIds()

    # gRPC.

    def rpc(self, method: Method, full_name: str, *, streams: bool) -> Method:
        """Instrument the handler of `method`. With `streams`, count the open ones and their results."""
        operations, name = self.operations, full_name.rpartition(".")[2]

        async def run(_: Any, context: Any) -> Any:
            began = stopwatch()
            metadata = context.invocation_metadata() or ()
            id = self._ids.choose(next((value for key, value in metadata if key == HEADER), None))
            REQUEST_ID.set(id)  # The task is this call's alone.
            PEER.set(context.peer)
            context.set_trailing_metadata(((HEADER, id),))
            span: RpcSpan | None = None

            def note_request(request: Any) -> None:
                nonlocal began, span
                began = stopwatch()
                if self._traces is not None:
                    span = self._traces.rpc(full_name, request, metadata, id)

            code = OK
            opened: AbstractContextManager[None] = operations.stream(name) if streams else nullcontext()
            try:
                with opened:
                    return await method(note_request, context)
            except asyncio.CancelledError:
                code = CANCELLED
                raise
            except BaseException:
                code = _code_of(context)
                raise
            finally:
                if streams:
                    operations.stream_ended(name, code)
                else:
                    operations.ended(name, code, stopwatch() - began)
                if span is None and self._traces is not None:
                    # Refused before it was read.
                    span = self._traces.rpc(full_name, None, metadata, id)
                if span is not None:
                    span.end(code)

        return run

    def begin(self, operation: str, request: Any) -> ObservedRequest:
        """Note a request of a stream."""
        traces, span = self._traces, None
        if traces is not None:
            span = traces.rpc(METHODS[operation].full_name, request, (), REQUEST_ID.get())
        return ObservedRequest(operation, stopwatch(), self.operations, span, self.refusals)

    # HTTP.

    def name(self, request: BaseRequest) -> str:
        """Set the name of the request that begins in this task."""
        id = self._ids.choose(request.headers.get(HEADER))
        REQUEST_ID.set(id)
        PEER.set(lambda: request.remote)
        IDENTITY.set("")  # The task is the connection's.
        return id

    async def http(
        self,
        request: BaseRequest,
        route: str,
        answer: Callable[[], Awaitable[Any]],
        operation: str | None = None,
    ) -> Any:
        """Return the response of `answer`, instrumented."""
        began, code = stopwatch(), CANCELLED.lower()
        traces = self._traces
        span = traces and traces.http(request, route, REQUEST_ID.get())
        try:
            response = await answer()
            code = str(response.status)
            return response
        finally:
            if operation is None:
                operation = f"{request.method} {route}" if route else "unknown"
            self.operations.ended(operation, code, stopwatch() - began)
            if span:
                span.end(code)


FAULTS: Final = frozenset({"UNKNOWN", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "DEADLINE_EXCEEDED"})
"""How calls end that failed by no fault of their callers."""


def _code_of(context: Any) -> str:
    """Return the code with which a call was aborted."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return code_name(code)


def code_name(number: int) -> str:
    """Return gRPC's name of a code."""
    return _CODES.get(number, "UNKNOWN")
