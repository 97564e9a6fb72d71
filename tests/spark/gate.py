"""Stands between clients and a server that is a process of its own, and knows which call is under way.

Calls go through as bytes, in both directions, with their errors. At a planted moment something is done:
the caller is ended, or the server is. What can fail: nothing of its own; a server that is away is
`UNAVAILABLE`, as it is without a proxy.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import grpc
from spoolrack._transports.grpc_calls import OPTIONS

STREAMED: Final = frozenset({"ReadReservation"})
"""The only calls of Spark's side whose answer has several parts."""
LONGEST: Final = 120.0


@dataclass(slots=True)
class Moment:
    """The action when a call comes, or when the server has answered it and no client knows."""

    method: str
    """`frame` is each part of a read's answer."""
    action: Callable[[grpc.ServicerContext], None]
    skip: int = 0
    """So many calls are let through first."""
    is_after: bool = False
    times: int = 1


class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`address` is where clients go. `moments` may be added to before they do."""

    def __init__(self, server: str) -> None:
        self.moments: list[Moment] = []
        self.calls: Counter[str] = Counter()
        self._alone = threading.Lock()
        self._channel = grpc.insecure_channel(server, options=OPTIONS)
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server = grpc.server(
            ThreadPoolExecutor(32), handlers=[self], options=[*unlimited, ("grpc.so_reuseport", 0)]
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path = details.method
        if path.rpartition("/")[2] in STREAMED:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._stream(path, request, context)
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._unary(path, request, context)
        )

    def _unary(self, path: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        method = path.rpartition("/")[2]
        self._pass(method, context, is_after=False)
        try:
            answer: bytes = self._channel.unary_unary(path)(request, timeout=_left(context))
        except grpc.RpcError as error:
            _refuse(error, context)
        self._pass(method, context, is_after=True)
        return answer

    def _stream(self, path: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        method = path.rpartition("/")[2]
        self._pass(method, context, is_after=False)
        frames = self._channel.unary_stream(path)(request, timeout=_left(context))
        context.add_callback(frames.cancel)
        try:
            for frame in frames:
                yield frame
                self._pass("frame", context, is_after=False)
        except grpc.RpcError as error:
            _refuse(error, context)

    def _pass(self, method: str, context: grpc.ServicerContext, *, is_after: bool) -> None:
        action = None
        with self._alone:
            self.calls[method] += not is_after
            for moment in self.moments:
                if (moment.method, moment.is_after) != (method, is_after) or moment.times <= 0:
                    continue
                if moment.skip > 0:
                    moment.skip -= 1
                    continue
                moment.times -= 1
                action = moment.action
                break
        if action is not None:
            action(context)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")


def _left(context: grpc.ServicerContext) -> float:
    left = context.time_remaining()
    return LONGEST if left is None else min(left, LONGEST)


def _refuse(error: Any, context: grpc.ServicerContext) -> Any:
    """Hand on why a call failed."""
    context.set_trailing_metadata(
        tuple((key, value) for key, value in error.trailing_metadata() or () if key[:5] != "grpc-")
        + tuple(one for one in error.trailing_metadata() or () if one[0] == "grpc-status-details-bin")
    )
    context.abort(error.code(), error.details())
