"""A real server behind a relay of gRPC calls, which counts them and breaks those that a test names."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from spoolrack import Client
from spoolrack.testing import running_server
from spoolrack_store.manual_clock import ManualClock

STREAMED = "ReadReservation"
FRAME = "frame"
"""What a fault names to break a `ReadReservation` behind one of its frames."""
IN_A_CALL = 1_000
YEAR = 365 * 86_400.0
"""Seconds: gRPC tells more of a call without a deadline."""


@dataclass(slots=True)
class Fault:
    """Makes calls of one method fail, before or after they took effect."""

    method: str
    times: int = 1
    skip: int = 0
    """So many calls are let be first."""
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    is_after: bool = False
    action: Callable[[], None] | None = None
    """An action before the call fails, such as the end of its caller."""


class RelayedServer(grpc.GenericRpcHandler):
    """Relays the unary calls, and `ReadReservation`, to a server; `relayed_server` makes one."""

    def __init__(self, url: str, client: Client, clock: ManualClock | None) -> None:
        self._clock = clock
        self.client = client
        """Of the server itself: its calls are neither counted nor broken."""
        self.faults: list[Fault] = []
        self.requests: dict[str, list[bytes]] = defaultdict(list)
        """Those that came, as bytes, by the name of the method."""
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(
            url.removeprefix("grpc://"), options=[("grpc.max_receive_message_length", -1)]
        )
        self._server = grpc.server(
            ThreadPoolExecutor(32),
            handlers=[self],
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)],
        )
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    # What is in the queues.

    def put(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Send messages in their order, in files of a thousand."""
        for at in range(0, len(bodies), IN_A_CALL):
            for result in self.client.queue(queue).send_many(bodies[at : at + IN_A_CALL]):
                assert result.error is None
            if self._clock is not None:
                self._clock.advance(1)  # Files of one millisecond have no order.

    def bodies(self, queue: str) -> list[bytes]:
        """Return the bodies of all messages that are ready."""
        return [message.body for message in self.client.queue(queue).peek(["ready"])]

    def left(self, queue: str) -> int:
        """Return how many messages of the queue are not deleted."""
        counts = self.client.queue(queue).info().counts
        return counts.ready_count + counts.leased_count + counts.delayed_count

    def stages(self) -> list[str]:
        return [stage.name for stage in self.client.staging.list()]

    # The relay.

    @property
    def calls(self) -> Counter[str]:
        """How many calls came of each method."""
        with self._lock:
            return Counter({method: len(found) for method, found in self.requests.items()})

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        path = str(details.method)
        if "/Stream" in path:
            return None  # Not implemented: a client makes unary calls then.
        if path.endswith(f"/{STREAMED}"):
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._stream(path, request, context)
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(path, request, context)
        )

    def _answer(self, path: str, request: bytes, context: Any) -> bytes:
        method = self._begun(path, request, context)
        call = self._channel.unary_unary(path).future(request, **_of(context))
        context.add_callback(call.cancel)
        with _told_to(context):
            answer: bytes = call.result()
        self._fail(method, context, is_after=True)
        return answer

    def _stream(self, path: str, request: bytes, context: Any) -> Iterator[bytes]:
        method = self._begun(path, request, context)
        call = self._channel.unary_stream(path)(request, **_of(context))
        context.add_callback(call.cancel)
        with _told_to(context):
            for number, frame in enumerate(call):
                if not number:
                    self._fail(method, context, is_after=True)
                yield frame
                self._fail(FRAME, context, is_after=False)

    def _begun(self, path: str, request: bytes, context: Any) -> str:
        method = path.rpartition("/")[2]
        with self._lock:
            self.requests[method].append(request)
        self._fail(method, context, is_after=False)
        return method

    def _fail(self, method: str, context: Any, *, is_after: bool) -> None:
        """Break the call if there is a fault for it."""
        with self._lock:
            for fault in self.faults:
                if (fault.method, fault.is_after) != (method, is_after) or not fault.times:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                break
            else:
                return
        if fault.action is not None:
            fault.action()
        context.abort(fault.code, "planted")


def _of(context: Any) -> dict[str, Any]:
    """Return what else of a call goes to the server: its time, and its metadata."""
    metadata = [pair for pair in context.invocation_metadata() if not pair[0].startswith("user-agent")]
    left = context.time_remaining()
    return {"timeout": left if left < YEAR else None, "metadata": metadata}


@contextlib.contextmanager
def _told_to(context: Any) -> Iterator[None]:
    """End a call as the server has ended its own."""
    try:
        yield
    except grpc.RpcError as error:
        context.set_trailing_metadata(error.trailing_metadata())
        context.abort(error.code(), error.details())


@contextlib.contextmanager
def relayed_server(*queues: str, clock: ManualClock | None = None) -> Iterator[RelayedServer]:
    """Run a server with these queues, behind a relay; a `clock` is the server's time."""
    with running_server(clock=clock) as server, server.client() as client:
        for queue in queues:
            client.create_queue(queue)
        relay = RelayedServer(server.url, client, clock)
        try:
            yield relay
        finally:
            relay.stop()
