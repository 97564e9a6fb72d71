"""RPC plumbing: malformed requests are refused, and a handler's error becomes a status.

Owns the registration of the services' methods and the work that is the same for all of them. A handler
takes a request, awaits the store and returns a response or raises a `StoreError`. A request is read
only after its caller is authenticated and authorized: to gRPC, each method has a stream of requests, of
which all but the streaming ones read one. Any other exception is logged with its traceback and answered
with `INTERNAL_ERROR`, and nothing of it leaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from spoolrack_store.model.errors import Draining, InvalidRequest, RootDiffers, StoreError
from spoolrack_store.model.shards import Shard

from ..access.access_control import AccessControl
from ..app.bounds import SHARD_KEY, require_shard
from ..app.memory import SMALL, MemoryLimiter
from ..metrics.instrumentation import FAULTS, Instrumentation, OnRequest
from ..system.error_log import ErrorLog
from ..system.logs import Log
from ..wire.contract_calls import ContractMethod
from ..wire.status import INTERNAL, Failure, failure_of
from .authorized_calls import AuthorizedCall, Context, caller_of
from .served import SERVED
from .strangers import Strangers

Method = Callable[[Any, Context], Awaitable[Message | bytes | None]]
Handler = Callable[[Any, Context], Awaitable[bytes | None]]

QUIET: Final = 0.05
"""Seconds without a new call after which gRPC is unlikely to have one queued."""
LONGEST_QUIET: Final = 1.0
"""Seconds after which a server that drains no longer waits for the quiet: some clients never pause."""

ROOT_KEY: Final = "spoolrack-root"
"""The metadata in which a call about reservations or stages may name the root that it is for."""
_OF_ONE_ROOT: Final = frozenset({"ReservationService", "StagingService"})

LONGEST_METHOD: Final = 200
"""Characters of an unknown method's name in the refusal."""

READS: Final = ("Get", "List")
"""The beginnings of the names of methods that change nothing."""

SENDS: Final = frozenset({"Send", "StreamSend", "Stage"})
"""Methods whose requests bring messages: past the memory's watermark none is read."""


class CallIsOver(Exception):
    """The call ended, by its client or its connection, before the response was taken."""


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A method of the contract."""

    run: Method
    needs: ContractMethod
    writes_itself: bool = False
    """A unary method that answers by `write` and returns None: on the wire, a stream of one response.
    So it learns whether the transport took it; every streaming method does it anyway."""


class ServerCalls:
    """The start and end of all calls of one server. Lives in one event loop."""

    def __init__(
        self,
        log: Log,
        instrumentation: Instrumentation | None = None,
        access_control: AccessControl | None = None,
        memory: MemoryLimiter | None = None,
        root_id: str = "",
        shard: Shard | None = None,
    ) -> None:
        self._root_id = root_id
        self._shard = shard
        self._log = log
        self._memory = memory or MemoryLimiter(log)
        self._instrumentation = instrumentation or Instrumentation(refusals=ErrorLog(log))
        self._refusals = self._instrumentation.refusals
        is_open = access_control is None or access_control.is_open
        self._access_control = None if is_open else access_control
        self.strangers: Strangers | None = None
        """Of the connections of known callers it is told."""
        self._running: set[asyncio.Task[Any]] = set()
        self._refusing = False
        self._last_begin = -QUIET

    def refuse(self) -> None:
        """Refuse new calls, with a retry delay."""
        self._refusing = True
        self._memory.refuse(Draining(), lambda reader: not reader.ends_itself)

    async def quiet(self, grace: float) -> None:
        """Return once the calls in flight have ended, or `grace` seconds are over, and none comes in.

        gRPC cancels the calls that it has taken and not yet handed over when a server stops, and a
        client can't tell that nothing of them was done. So they are refused first, one by one; one that
        comes at the very last moment may still be cancelled.
        """
        loop = asyncio.get_running_loop()
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        end = loop.time() + LONGEST_QUIET
        while (now := loop.time()) < min(end, self._last_begin + QUIET):
            await asyncio.sleep(min(end, self._last_begin + QUIET) - now)

    async def ended(self) -> None:
        """Return once no handler runs any more: for a server that accepts no new calls."""
        while self._running:
            await asyncio.wait(set(self._running))

    def handlers(self, methods: Mapping[str, ServedMethod]) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return the services, with their methods by name."""
        return tuple(self._service(service, methods) for service in SERVED)

    def unknown_methods(self) -> grpc.GenericRpcHandler:
        """Return what answers the calls that no other handler takes, once their callers are known."""
        return _UnknownMethods(self._access_control)

    def _service(
        self, service: ServiceDescriptor, methods: Mapping[str, ServedMethod]
    ) -> grpc.GenericRpcHandler:
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for described in service.methods:
            method = methods[described.name]
            streams = described.client_streaming or described.server_streaming
            is_long = streams or method.writes_itself
            make = (
                grpc.stream_stream_rpc_method_handler
                if is_long
                else grpc.stream_unary_rpc_method_handler
            )
            handlers[described.name] = make(self._guarded(method, described, is_long=is_long))
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _guarded(self, method: ServedMethod, described: MethodDescriptor, *, is_long: bool) -> Handler:
        name = described.name
        streams = described.client_streaming or described.server_streaming
        is_of_one_root = described.containing_service.name in _OF_ONE_ROOT

        async def run(on_request: OnRequest, context: Context) -> bytes | None:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._last_begin = asyncio.get_running_loop().time()
            requests = Requests(self, self._memory, context, described)
            try:
                if self._refusing:
                    raise Draining
                with self._authorization(context, method.needs, is_long=is_long) as authorized:
                    for key, value in context.invocation_metadata() or ():
                        if key == SHARD_KEY:
                            require_shard(self._shard, str(value))
                        elif key == ROOT_KEY and is_of_one_root and value != self._root_id:
                            raise RootDiffers(named=value, found=self._root_id)
                    if self.strangers is not None:
                        self.strangers.known.add(requests.peer)
                    requests.authorized = authorized
                    requests.on_request = on_request
                    if described.client_streaming:
                        await method.run(requests, context)
                        return None
                    request = await self._only(requests)
                    # Freed here: the request's memory isn't held while the handler runs.
                    response = method.run(request, context)
                    del request
                    return self._respond(context, await response, task, name)
            except StoreError as error:
                # gRPC keeps what is raised next, and with it this: frames that hold the request.
                error.__traceback__ = error.__context__ = None
                await self._refuse(context, error, name)
            except CallIsOver:
                # grpc.aio expects this error once the caller is gone.
                raise asyncio.CancelledError from None
            except grpc.aio.AbortError:
                raise
            except Exception:  # noqa: BLE001 - the last handler before the client
                self._log.exception("a call failed by a mistake of the server", method=name)
                await _abort(context, INTERNAL)
            finally:
                requests.close()
            return None

        return self._instrumentation.rpc(run, described.full_name, streams=streams)

    async def _only(self, requests: Requests) -> Any:
        """Return the request of a call that has one."""
        request = await requests.first()
        if request is None:
            # Without one, nothing can be answered, and mostly the client is gone.
            raise asyncio.CancelledError
        if self._refusing:
            raise Draining
        return request

    def _respond(
        self, context: Context, response: Message | bytes | None, task: asyncio.Task[Any], name: str
    ) -> bytes | None:
        """Return the bytes of a single response, which are counted until gRPC has taken them. Raise
        `MemoryLimit` without room, but not if the call may have changed anything."""
        if response is None:
            return None
        raw = response if isinstance(response, bytes) else response.SerializeToString()
        if len(raw) > SMALL:
            peer, responses = context.peer(), self._memory.responses
            take = responses.reserve if name.startswith(READS) else responses.count
            taken = take(peer, len(raw))
            task.add_done_callback(lambda _: responses.free(peer, taken))
        return raw

    @contextmanager
    def _authorization(
        self, context: Context, needs: ContractMethod, *, is_long: bool
    ) -> Iterator[AuthorizedCall | None]:
        """Authorize a call; raise `Unauthenticated` or `PermissionDenied`, also for a call that runs
        and could not begin any more."""
        if self._access_control is None:
            yield None
            return
        call = AuthorizedCall(self._access_control, context, needs)
        if is_long:
            self._access_control.cancel_unless(call.recheck)
        try:
            yield call
        except (asyncio.CancelledError, CallIsOver):
            if call.refusal is None:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            raise call.refusal from None

    async def end(self, context: Context, error: StoreError, name: str) -> None:
        """End a call from outside of its task, which then gets gRPC's `AbortError` at its next read."""
        try:
            await self._refuse(context, error, name)
        except Exception:  # noqa: BLE001 - gRPC has several for a call that has ended, as it has now
            return

    async def _refuse(self, context: Context, error: StoreError, name: str) -> None:
        failure = failure_of(error)
        if failure is None:
            self._log.error("an error that has no status", reason=error.reason, detail=str(error))
            failure = INTERNAL
        is_fault = failure.code.name in FAULTS
        self._refusals.log(name, failure.reason, failure.message, is_fault=is_fault)
        await _abort(context, failure)


class _UnknownMethods(grpc.GenericRpcHandler):
    """The methods that this server doesn't have. gRPC by itself answers them before authentication, and
    doesn't say what to do."""

    def __init__(self, access_control: AccessControl | None) -> None:
        self._access_control = access_control

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        text = f"This server has no method {details.method[:LONGEST_METHOD]}"
        if details.method.startswith("/spoolrack."):
            text += ": client and server are of different versions. Update the older one"

        async def refuse(_: Any, context: Context) -> None:
            if self._access_control is not None:
                try:
                    caller_of(context, self._access_control)
                except StoreError as error:
                    await abort(context, error)
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{text}.")

        # Of a stream nothing is read.
        return grpc.stream_unary_rpc_method_handler(refuse)


async def abort(context: Context, error: StoreError) -> None:
    """End a call outside of the contract with an error."""
    await _abort(context, failure_of(error) or INTERNAL)


async def _abort(context: Context, failure: Failure) -> None:
    """End the call with a failure, and with the trailers of every answer."""
    told = context.trailing_metadata() or ()
    await context.abort(failure.code, failure.message, (*failure.trailing_metadata(), *told))


async def write(context: Context, response: bytes) -> None:
    """Return once the transport has taken a `response`; `CallIsOver` if it never will.

    When the call is cancelled meanwhile, what became of the response is still found out, because a
    client often cancels a stream as soon as it has what it wants: `CancelledError` says that the
    response was taken, and `CallIsOver` that it was not.
    """
    writing = asyncio.ensure_future(context.write(response))
    cancelled: asyncio.CancelledError | None = None
    try:
        await outlast({writing})
    except asyncio.CancelledError as error:
        cancelled = error
    if writing.cancelled() or writing.exception() is not None:
        raise CallIsOver from cancelled or (None if writing.cancelled() else writing.exception())
    if cancelled is not None:
        raise cancelled


async def outlast(tasks: Collection[asyncio.Future[None]]) -> None:
    """Return when all `tasks` have ended; raise a cancellation after that.

    For writes, which end by themselves: each was done already, or fails now that the call is over.
    """
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # Or asyncio would log it.
    if cancelled is not None:
        raise cancelled


async def put(context: Context, response: bytes) -> None:
    """Return once the transport has taken a `response`; `CallIsOver` if it never will.

    Cheaper than `write`, for a handler that needn't know the outcome if the call is cancelled
    meanwhile.
    """
    try:
        await context.write(response)
    except Exception as error:  # gRPC has several for a call that has ended
        raise CallIsOver from error


class Requests:
    """The requests of one call, and their share of the memory for requests."""

    def __init__(
        self, calls: ServerCalls, memory: MemoryLimiter, context: Context, method: MethodDescriptor
    ) -> None:
        self._calls = calls
        self._memory = memory
        self._context = context
        self.peer = context.peer()
        """OnRequest once: gRPC has forgotten it when the call is over."""
        self._kind = GetMessageClass(method.input_type)
        self._name = method.name
        self.sends = method.name in SENDS
        self._reserved_bytes = 0
        self.size = 0
        """Bytes of the last request. Protobuf would serialize it to know them."""
        self._ending: asyncio.Task[None] | None = None
        self.is_reading = False
        self.authorized: AuthorizedCall | None = None
        self.on_refusal: Callable[[StoreError], None] | None = None
        """Ends a stream in its own way, after what it has taken is answered."""
        self.on_request: OnRequest | None = None
        """Called with the request."""

    @property
    def ends_itself(self) -> bool:
        return self.on_refusal is not None

    def refuse(self, error: StoreError) -> None:
        """End the call, unless the current request has arrived."""
        if self.on_refusal is not None:
            self.on_refusal(error)
        elif self._ending is None:
            self._ending = asyncio.create_task(self._end(error))

    async def _end(self, error: StoreError) -> None:
        if self.is_reading:
            await self._calls.end(self._context, error, self._name)

    def announce(self, request: Any) -> None:
        """Pass the call's first request to the observer; None: its requests follow. Only the first call
        has an effect."""
        if self.on_request is not None:
            self.on_request(request)
            self.on_request = None

    async def first(self) -> Any | None:
        """Return the first request; None if there is none. Raise the errors of `next` and `reserve`,
        and `PermissionDenied`.

        A long call ends when its caller's permission does.
        """
        request = await self.next()
        if request is not None:
            if self.authorized is not None:
                self.authorized.require(request)
            self.reserve()
            self.announce(request)
        return request

    def reserve(self) -> int:
        """Reserve the memory for the last request, and return the argument of `leave` when it is
        answered. Raise `MemoryLimit` if there is no room."""
        if self.size <= SMALL:
            return 0
        taken = self._memory.requests.reserve(self.peer, self.size)
        self._reserved_bytes += taken
        return taken

    def leave(self, size: int) -> None:
        """Note that a request is answered."""
        if size:
            self._reserved_bytes -= size
            self._memory.requests.free(self.peer, size)

    def close(self) -> None:
        """Note that the call is over."""
        self.leave(self._reserved_bytes)

    async def next(self) -> Any | None:
        """Return the next request; None when the client has ended its side. Raise `InvalidRequest` for
        one that can't be read, `MemoryLimit`, and gRPC's `AbortError` once the call is refused."""
        # Not by gRPC's own iterator: it costs more with each request.
        self.is_reading = True
        try:
            raw = await self._memory.read(self, self._context)
        finally:
            self.is_reading = False
        if raw is grpc.aio.EOF:
            return None
        self.size = len(raw)
        try:
            return self._kind.FromString(raw)
        except DecodeError:
            # Raised on, it would be logged as a mistake of ours and answered with a traceback's text.
            raise _unreadable() from None


def _unreadable() -> InvalidRequest:
    return InvalidRequest(
        what="the request", value="the bytes sent", rule="must be the method's protobuf message"
    )
