"""Calls that need no credentials: their one way in, which bounds what they cost.

A caller that isn't known can open thousands of streams in a few hundred kilobytes. So few of these
calls run at a time for one connection, and in all; each has a deadline for its request, and one for
its end. In all, a new call takes the place of the oldest one: a probe is answered whatever others hold.
A handler begins before its request is read, as those of `calls` do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ..system.limits import Limits
from .authorized_calls import Context

Answer = Callable[[Any, Context], Awaitable[Message | None]]
"""Answers a request, or writes the responses of a stream itself."""


class PublicCalls:
    """The calls without credentials of one server. Lives in one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[asyncio.Timeout, str] = {}
        """The ends of the calls that run, by age, with the connection of each."""
        self._by_connection: Counter[str] = Counter()

    def handlers(self, service: ServiceDescriptor, answers: Any) -> grpc.GenericRpcHandler:
        """Return a service, whose methods `answers` has by their names. One that it lacks is an unknown
        method."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for described in service.methods:
            answer: Answer | None = vars(type(answers)).get(described.name)
            if answer is None:
                continue
            make = (
                grpc.stream_stream_rpc_method_handler
                if described.server_streaming
                else grpc.stream_unary_rpc_method_handler
            )
            kind = GetMessageClass(described.input_type)
            handlers[described.name] = make(self._bounded(getattr(answers, described.name), kind))
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _bounded(
        self, answer: Answer, kind: type[Message]
    ) -> Callable[[Any, Context], Awaitable[bytes | None]]:
        async def run(_: Any, context: Context) -> bytes | None:
            connection = context.peer()
            if self._by_connection[connection] >= self._limits.public:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"This connection has {self._limits.public} calls that need no "
                    "credentials: end some of them.",
                )
            if len(self._running) >= self._limits.all_public:
                self._end(next(iter(self._running)))
            try:
                async with asyncio.timeout(self._limits.public_request) as end:
                    self._running[end] = connection
                    self._by_connection[connection] += 1
                    try:
                        request = await _request(context, kind)
                        if end in self._running:
                            end.reschedule(
                                asyncio.get_running_loop().time() + self._limits.public_lifetime
                            )
                        response = await answer(request, context)
                    finally:
                        self._forget(end)
            except TimeoutError:
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE,
                    "This call needs no credentials, so that its time is limited: call again.",
                )
            return None if response is None else response.SerializeToString()

        return run

    def _end(self, call: asyncio.Timeout) -> None:
        self._forget(call)
        call.reschedule(asyncio.get_running_loop().time())

    def _forget(self, call: asyncio.Timeout) -> None:
        """Give the place of a call back, once."""
        connection = self._running.pop(call, None)
        if connection is not None:
            self._by_connection[connection] -= 1
            if not self._by_connection[connection]:
                del self._by_connection[connection]


async def _request(context: Context, kind: type[Message]) -> Message:
    """Return the request of a call. A cancellation doesn't reach the read: grpc.aio would never free
    what has come of the request."""
    reading = asyncio.ensure_future(context.read())
    reading.add_done_callback(lambda read: read.cancelled() or read.exception())
    await asyncio.wait([reading])
    raw = reading.result()
    try:
        return kind.FromString(b"" if raw is grpc.aio.EOF else raw)
    except DecodeError:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, "The request is not the method's protobuf message."
        )
        raise
