"""A lone message takes few callbacks and functions of the server's event loop, and joined ones fewer.

Its turns aren't counted: how many sockets are ready in one is the machine's affair, and a turn that the
server's code asks for begins with a callback.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import grpc
import pytest
import spoolrack_server
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceStub
from spoolrack_server.app import store_access
from spoolrack_server.app.background_tasks import BackgroundTasks
from spoolrack_server.process import loop_driver
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store import committer

from tests.support.function_calls import FunctionCalls

PACKAGE: Final = str(Path(spoolrack_server.__file__).parent)
COUNT: Final = 50
"""Operations that are counted, after as many that do first-time work."""
JOINED: Final = 30


@dataclass(frozen=True, slots=True)
class Counts:
    """For each message."""

    callbacks: float
    """Of the event loop, without those of its sockets."""
    functions: float
    """Of the server's package; a coroutine that goes on is called once more by each that awaits it."""


# A ceiling may only fall: lower it when a change has made the count smaller. It includes an empty echo
# of gRPC: 2 callbacks on a stream, 12 for a unary call. The server's periodic work
# calls functions, too: there is room for two.
CEILINGS: Final = {
    "send": Counts(2.9, 49),
    "send, receive": Counts(10.9, 140),
    "delete": Counts(2.9, 47),
    "unary send": Counts(13.9, 51),
    "unary receive": Counts(17.9, 98),
    "unary delete": Counts(13.9, 40),
    "streamed receive": Counts(5.9, 90),
    "joined sends": Counts(0.3, 40),
}


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its callbacks."""

    callbacks = 0

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


class Client:
    """A client without a loop of its own, for a thread."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self.stub = QueueServiceStub(self._channel)
        # No lease ends meanwhile, however slow the machine is.
        settings = pb.QueueSettings(visibility_timeout=Duration(seconds=12 * 3600))
        self.stub.CreateQueue(rpc.CreateQueueRequest(queue=pb.Queue(name="q", settings=settings)))
        self._send, self._delete, self._receive, self._receives = (
            self._opened(method)
            for method in (
                self.stub.StreamSend,
                self.stub.StreamDelete,
                self.stub.StreamReceive,
                self.stub.StreamReceive,
            )
        )
        self.receipts: list[str] = []

    def _opened(self, method: Any) -> tuple[Callable[[Any], None], Iterator[Any]]:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        return requests.put, method(iter(requests.get, None))

    def send(self, joined: int = 1) -> None:
        put, responses = self._send
        first, *more = (
            rpc.StreamSendRequest(correlation_id=number, request=_send()) for number in range(joined)
        )
        first.accepts_more = True
        first.more.extend(more)
        put(first)
        left = joined
        while left:
            response = next(responses)
            left -= 1 + len(response.more)

    def unary_send(self) -> None:
        self.stub.Send(_send())

    def open_receives(self) -> None:
        put, _ = self._receive
        start = rpc.ReceiveStart(queue="q", max_in_flight=10_000)
        put(rpc.StreamReceiveRequest(start=start))

    def receive(self) -> None:
        """Send a message to a stream that waits for it."""
        self.send()
        _, responses = self._receive
        self.receipts += [message.receipt for message in next(responses).received.messages]

    def unary_receive(self) -> None:
        found = self.stub.Receive(rpc.ReceiveRequest(queue="q"))
        self.receipts += [message.receipt for message in found.messages]

    def streamed_receive(self) -> None:
        put, responses = self._receives
        put(rpc.StreamReceiveRequest(correlation_id=1, receive=rpc.ReceiveRequest(queue="q")))
        self.receipts += [message.receipt for message in next(responses).received.messages]

    def delete(self) -> None:
        put, responses = self._delete
        put(rpc.StreamDeleteRequest(correlation_id=1, request=self._deletion()))
        next(responses)

    def unary_delete(self) -> None:
        self.stub.Delete(self._deletion())

    def _deletion(self) -> rpc.DeleteRequest:
        return rpc.DeleteRequest(queue="q", targets=[rpc.DeleteTarget(receipt=self.receipts.pop())])

    def close(self) -> None:
        self._channel.close()


def _send() -> rpc.SendRequest:
    return rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=b"x")])


def function_of_the_server(frame: FrameType) -> str | None:
    return frame.f_code.co_qualname if frame.f_code.co_filename.startswith(PACKAGE) else None


async def count(loop: CountingLoop, operation: Callable[[], None]) -> Counts:
    """Run `operation` in another thread, and count in this one: the least of eight rounds, since
    what the server does from time to time comes between, the more the slower the machine is."""

    def run() -> None:
        for _ in range(COUNT):
            operation()

    await asyncio.to_thread(run)
    here = threading.get_ident()
    rounds: list[Counts] = []
    for _ in range(8):
        callbacks = loop.callbacks
        with FunctionCalls(function_of_the_server) as calls:
            await asyncio.to_thread(run)
        functions = calls.counts(here).total()
        rounds.append(Counts((loop.callbacks - callbacks) / COUNT, functions / COUNT))
    return Counts(
        min(each.callbacks for each in rounds),
        min(each.functions for each in rounds),
    )


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Counts]]:
    async def all_counts() -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        async with Server(
            ServeSettings(root=str(tmp_path_factory.mktemp("root")), http=None)
        ) as server:
            client = await asyncio.to_thread(Client, server.grpc_address)
            for name, operation in (
                ("send", client.send),
                ("unary send", client.unary_send),
                ("unary receive", client.unary_receive),
                ("unary delete", client.unary_delete),
                ("more", client.send),
                ("streamed receive", client.streamed_receive),
                ("no more", client.unary_delete),
            ):
                found[name] = await count(loop, operation)
            joined = await count(loop, lambda: client.send(JOINED))
            found["joined sends"] = Counts(joined.callbacks / JOINED, joined.functions / JOINED)
            await asyncio.to_thread(client.stub.PurgeQueue, rpc.PurgeQueueRequest(name="q"))
            await asyncio.to_thread(client.open_receives)
            found["send, receive"] = await count(loop, client.receive)
            found["delete"] = await count(loop, client.delete)
            await asyncio.to_thread(client.close)
        return found

    loop = CountingLoop()
    with pytest.MonkeyPatch.context() as patch:
        # The store's own work joins the next operation's commit, however slow the machine is.
        patch.setattr(loop_driver, "LINGER", 3600.0)
        # Of periodic work more falls between the operations, the slower the machine is.
        patch.setattr(BackgroundTasks, "start", lambda *_: None)
        patch.setattr(committer, "SHORT_SECONDS", 3600.0)  # Nor does it do a short commit elsewhere.
        patch.setattr(committer, "LINGER", 3_600_000)
        patch.setattr(committer, "LOOK_EVERY", 3_600_000)
        # The disk is quick, whatever it is.
        patch.setattr(store_access, "QUICK", 3600.0)
        patch.setattr(store_access, "QUICK_ALONE", 3600.0)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            yield runner.run(all_counts())


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_takes_no_more_of_the_loop_than_its_ceiling(
    counts: dict[str, Counts], operation: str
) -> None:
    found, ceiling = counts[operation], CEILINGS[operation]
    assert found.callbacks <= ceiling.callbacks, found
    assert found.functions <= ceiling.functions, found
