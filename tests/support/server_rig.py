"""A real server on loopback over a real store in a folder, and short ways to talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.status_pb2 import Status
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.statuses import info_of, retry_millis_of

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
LONG = Duration(seconds=3600)
"""Longer than any test: the awaited event must come by itself, because the clock stands still."""
GONE = {"QUEUE_NOT_FOUND", "QUEUE_BEING_DELETED"}
"""Reasons of a deleted queue: the second until its messages are removed."""
MANY_LOOKS = 10_000


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The facts of a failed call, as a client reads them."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str]
    retry_millis: int | None


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    raw = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    rich = Status.FromString(raw)
    info = info_of(rich)
    assert rich.message == error.details()
    assert rich.code == error.code().value[0]
    return Refusal(
        code=error.code(),
        reason=info.reason,
        message=rich.message,
        metadata=dict(info.metadata),
        retry_millis=retry_millis_of(rich),
    )


async def refused(call: Any) -> Refusal:
    """Return what `call` is refused with, which it must be."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError(f"answered: {answer}")


@dataclass
class Client:
    """One connection."""

    channel: grpc.aio.Channel
    stub: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stub = Stubs(self.channel)

    async def create(self, name: str = "q", **settings: Any) -> pb.Queue:
        request = rpc.CreateQueueRequest(
            queue=pb.Queue(name=name, settings=pb.QueueSettings(**settings))
        )
        response: rpc.CreateQueueResponse = await self.stub.CreateQueue(request)
        return response.queue

    async def send(self, *bodies: bytes, queue: str = "q") -> list[str]:
        messages = [pb.OutgoingMessage(body=body) for body in bodies]
        response = await self.stub.Send(rpc.SendRequest(queue=queue, messages=messages))
        return [result.sent.id for result in response.results]

    async def receive(
        self, max_messages: int = 1, *, queue: str = "q", wait: Duration | None = None
    ) -> list[pb.Message]:
        request = rpc.ReceiveRequest(queue=queue, max_messages=max_messages, wait=wait)
        return list((await self.stub.Receive(request)).messages)

    async def delete(self, *receipts: str, queue: str = "q") -> list[str]:
        """Return the reasons for which some are not deleted."""
        targets = [rpc.DeleteTarget(receipt=receipt) for receipt in receipts]
        response = await self.stub.Delete(rpc.DeleteRequest(queue=queue, targets=targets))
        return [result.error.reason for result in response.results if result.HasField("error")]

    async def release(self, *receipts: str, queue: str = "q") -> None:
        releases = [rpc.MessageRelease(receipt=receipt, delay=Duration()) for receipt in receipts]
        await self.stub.Release(rpc.ReleaseRequest(queue=queue, releases=releases))

    async def counts(self, queue: str = "q") -> pb.QueueCounts:
        response: rpc.GetQueueResponse = await self.stub.GetQueue(rpc.GetQueueRequest(name=queue))
        return response.queue.counts

    async def until_leased(self, count: int, queue: str = "q") -> None:
        for _ in range(MANY_LOOKS):
            if (await self.counts(queue)).leased_count == count:
                return
        raise AssertionError(f"never {count} leased: {await self.counts(queue)}")

    async def until_ready(self, count: int, queue: str = "q") -> None:
        for _ in range(MANY_LOOKS):
            if (await self.counts(queue)).ready_count == count:
                return
        raise AssertionError(f"never {count} ready: {await self.counts(queue)}")

    def stream(self, max_in_flight: int = 0, queue: str = "q", **more: Any) -> Any:
        """Return a stream whose client says what it wants, and nothing else."""
        start = rpc.ReceiveStart(queue=queue, max_in_flight=max_in_flight, **more)
        return self.stub.StreamReceive(iter([rpc.StreamReceiveRequest(start=start)]))


async def next_messages(stream: Any, count: int) -> list[pb.Message]:
    """Return the next `count` messages of a stream; more in the same frame are a mistake."""
    found: list[pb.Message] = []
    while len(found) < count:
        frame = await stream.read()
        assert frame is not grpc.aio.EOF
        assert frame.received.messages, "a frame without messages"
        found.extend(frame.received.messages)
    assert len(found) == count
    return found


@asynccontextmanager
async def connected(server: Server, *options: tuple[str, int]) -> AsyncIterator[Client]:
    async with grpc.aio.insecure_channel(
        server.grpc_address, options=[*UNLIMITED, *options]
    ) as channel:
        yield Client(channel)


@asynccontextmanager
async def served(root: Path, clock: ManualClock | None = None) -> AsyncIterator[tuple[Server, Client]]:
    async with Server(root, clock=clock or ManualClock()) as server, connected(server) as client:
        yield server, client


async def until_waiting(server: Server, count: int) -> None:
    """Return once so many receives wait in the store."""
    for _ in range(MANY_LOOKS):
        if server.store.metrics.root().waiting == count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{server.store.metrics.root().waiting} receives wait, not {count}")


# Fixtures that a conftest imports.


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root", clock=clock) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server) as client:
        yield client
