"""How a handler meets the wire: what is garbage is refused, what it raises becomes a status.

Owns the registration of `QueueService`'s methods and what is the same for all of them, so that a
handler only takes a request, awaits the store and answers or raises a `StoreError`. An exception that
nobody foresaw is logged with its traceback and answered with `INTERNAL_ERROR`, and nothing of it leaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from spoolrack.v1 import queue_service_pb2
from spoolrack_store.model.errors import Draining, InvalidRequest, StoreError

from .access.calls import Admission, Admissions
from .logs import Log
from .observing.refusals import Refusals
from .observing.watch import FAULTS, Watch
from .status import INTERNAL, Failure, failure_of

Context = grpc.aio.ServicerContext[Any, Any]
Method = Callable[[Any, Context], Awaitable[Message | None]]

SERVICE: Final = queue_service_pb2.DESCRIPTOR.services_by_name["QueueService"]

QUIET: Final = 0.05
"""Seconds without a new call after which none is likely to be on its way through gRPC any more."""
LONGEST_QUIET: Final = 1.0
"""Seconds after which a server that drains no longer waits for the quiet: some clients never pause."""


class CallIsOver(Exception):
    """The call ended, by its client or its connection, before the response was taken."""


class _Garbage:
    """Stands for a request that couldn't be parsed until a handler can refuse it."""


_GARBAGE: Final = _Garbage()


class Calls:
    """The calls of one server: how each begins and ends. Lives in one event loop."""

    def __init__(
        self, log: Log, watch: Watch | None = None, admissions: Admissions | None = None
    ) -> None:
        """Without `admissions` nobody is asked who he is."""
        self._log = log
        self._watch = watch or Watch(refusals=Refusals(log))
        self._refusals = self._watch.refusals
        self._admissions = admissions
        self._running: set[asyncio.Task[Any]] = set()
        self._refusing = False
        self._last_begin = -QUIET

    def refuse(self) -> None:
        """Let no new call do anything: it is told to try again."""
        self._refusing = True

    def look_again(self) -> None:
        """Who may do what has changed: end the streams that could not begin any more."""
        if self._admissions is not None:
            self._admissions.look_again()

    async def quiet(self, grace: float) -> None:
        """Return once the calls under way have ended, or `grace` seconds are over, and none comes in.

        gRPC cancels the calls that it has taken and not yet handed over when a server stops, and a
        client can't tell that nothing of them was done. So they are refused first, one by one; one
        that comes at the very last moment may still be cancelled.
        """
        loop = asyncio.get_running_loop()
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        end = loop.time() + LONGEST_QUIET
        while (now := loop.time()) < min(end, self._last_begin + QUIET):
            await asyncio.sleep(min(end, self._last_begin + QUIET) - now)

    async def ended(self) -> None:
        """Return once no handler runs any more: for a server that takes no new calls."""
        while self._running:
            await asyncio.wait(set(self._running))

    def handlers(
        self, parts: Sequence[object], writes_itself: frozenset[str]
    ) -> grpc.GenericRpcHandler:
        """The methods of the service, each by its name in the contract, in the part that has it.

        Those in `writes_itself` answer by `write` and return None, also where the contract has a
        single response: on the wire, that is a stream of one. So they learn whether the response was
        taken; every streaming method does it anyway.
        """
        found: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in SERVICE.methods:
            streams = method.client_streaming or method.server_streaming
            is_long = streams or method.name in writes_itself
            run = self._guarded(_method(parts, method.name), method.name, is_long=is_long)
            run = self._watch.rpc(run, method.name, streams=streams)
            parse = _parser(method)
            if method.client_streaming:
                make = grpc.stream_stream_rpc_method_handler
            elif is_long:
                make = grpc.unary_stream_rpc_method_handler
            else:
                make = grpc.unary_unary_rpc_method_handler
            found[method.name] = make(run, parse, _serialize)
        return grpc.method_handlers_generic_handler(SERVICE.full_name, found)

    def _guarded(self, method: Method, name: str, *, is_long: bool) -> Method:
        async def run(request: Any, context: Context) -> Message | None:
            task = asyncio.current_task()
            if task is not None:
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            self._last_begin = asyncio.get_running_loop().time()
            try:
                if self._refusing:
                    raise Draining
                if self._admissions is not None:
                    return await self._admit(method, name, request, context, is_long=is_long)
                if isinstance(request, _Garbage):
                    raise _unreadable()
                return await method(
                    request if isinstance(request, Message) else Requests(context), context
                )
            except StoreError as error:
                await self._refuse(context, error, name)
            except CallIsOver:
                # grpc.aio wants this one where nobody is left to be answered.
                raise asyncio.CancelledError from None
            except grpc.aio.AbortError:
                raise
            except Exception:  # noqa: BLE001 - the last door before the client
                self._log.exception("a call failed by a mistake of the server", method=name)
                await _abort(context, INTERNAL)
            return None

        return run

    async def _admit(
        self, method: Method, name: str, request: Any, context: Context, *, is_long: bool
    ) -> Message | None:
        """The answer for somebody who must say who he is, and may not do everything."""
        assert self._admissions is not None
        one = request if isinstance(request, Message) else None
        if isinstance(request, _Garbage):
            # Only whom we know is told what is wrong with it.
            self._admissions.caller_of(context)
            raise _unreadable()
        with self._admissions.admitted(context, name, one, is_long=is_long) as admission:
            try:
                return await method(Requests(context, admission) if one is None else one, context)
            except (asyncio.CancelledError, CallIsOver):
                if admission.refused is None:
                    raise
                if admission.task is not None:
                    admission.task.uncancel()
                raise admission.refused from None

    async def _refuse(self, context: Context, error: StoreError, name: str) -> None:
        failure = failure_of(error)
        if failure is None:
            self._log.error("an error that has no status", reason=error.reason, detail=str(error))
            failure = INTERNAL
        is_fault = failure.code.name in FAULTS
        self._refusals.tell(name, failure.reason, failure.message, is_fault=is_fault)
        await _abort(context, failure)


async def _abort(context: Context, failure: Failure) -> None:
    """End the call with a failure, and with what its caller is told in any case."""
    told = context.trailing_metadata() or ()
    await context.abort(failure.code, failure.message, (*failure.trailing_metadata(), *told))


async def write(context: Context, response: Message) -> None:
    """Return once the transport has taken `response`; `CallIsOver` if it never will.

    When the call is cancelled meanwhile, what became of the response is still found out, because a
    client often cancels a stream as soon as it has what it wants: `CancelledError` says that the
    response was taken, and `CallIsOver` that it was not.
    """
    writing = asyncio.ensure_future(context.write(response))
    cancelled: asyncio.CancelledError | None = None
    try:
        await asyncio.wait({writing})
    except asyncio.CancelledError as error:
        # The write ends by itself: either it was done already, or it fails now that the call is over.
        cancelled = error
        await asyncio.wait({writing})
    if writing.cancelled() or writing.exception() is not None:
        raise CallIsOver from cancelled or (None if writing.cancelled() else writing.exception())
    if cancelled is not None:
        raise cancelled


async def put(context: Context, response: Message) -> None:
    """Return once the transport has taken `response`; `CallIsOver` if it never will.

    Cheaper than `write`, for who needn't know what became of it when the call is cancelled meanwhile.
    """
    try:
        await context.write(response)
    except Exception as error:  # gRPC has several for a call that has ended
        raise CallIsOver from error


class Requests:
    """The requests of one stream, as they come."""

    def __init__(self, context: Context, admission: Admission | None = None) -> None:
        self._context = context
        self._admission = admission

    def check(self, request: Any) -> None:
        """Raises `PermissionDenied` for one that must not be done."""
        if self._admission is not None:
            self._admission.require(request)

    async def next(self) -> Any | None:
        """The next request; None when the client has ended its side. Raises `InvalidRequest` for what
        can't be read."""
        # Not by gRPC's own iterator: it costs more with each request.
        request = await self._context.read()
        if request is grpc.aio.EOF:
            return None
        if isinstance(request, _Garbage):
            raise _unreadable()
        return request


def _method(parts: Sequence[object], name: str) -> Method:
    (method,) = (getattr(part, name) for part in parts if hasattr(part, name))
    found: Method = method
    return found


def _unreadable() -> InvalidRequest:
    return InvalidRequest(
        what="the request", value="what was sent", rule="must be the method's protobuf message"
    )


def _parser(method: MethodDescriptor) -> Callable[[bytes], Message | _Garbage]:
    kind = GetMessageClass(method.input_type)

    def parse(raw: bytes) -> Message | _Garbage:
        try:
            return kind.FromString(raw)
        except DecodeError:
            # Raised here, it would be logged as a mistake of ours and answered with a traceback's text.
            return _GARBAGE

    return parse


def _serialize(response: Message) -> bytes:
    return response.SerializeToString()
