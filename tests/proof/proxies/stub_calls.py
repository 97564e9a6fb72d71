"""Calls of generated stubs through a proxy, with the metadata by which it finds a queue's shard."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from spoolrack.v1 import queue_pb2
from spoolrack.v1 import queue_service_pb2 as pb
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceStub
from spoolrack_store.model.shards import tag_of

from tests.proof.proxies.real_proxy import PATIENCE

HEADER: Final = "x-spoolrack-queue"


def told(queue: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata by which a proxy finds the queue's shard."""
    return ((HEADER, tag_of(queue)),)


def create(stub: QueueServiceStub, queue: str) -> Any:
    return stub.CreateQueue(
        pb.CreateQueueRequest(queue=queue_pb2.Queue(name=queue)),
        metadata=told(queue),
        timeout=PATIENCE,
    )


async def open_at_a_time(url: str, number: int) -> None:
    """Open so many streams on one connection; fail unless each receives the message of its queue."""
    queues = [f"stream-{n}" for n in range(number)]
    async with grpc.aio.insecure_channel(url) as channel:
        stub = QueueServiceStub(channel)
        await asyncio.gather(*(create(stub, queue) for queue in queues))
        calls = [stub.StreamReceive(metadata=told(queue), timeout=PATIENCE) for queue in queues]
        for queue, call in zip(queues, calls, strict=True):
            await call.write(pb.StreamReceiveRequest(start=pb.ReceiveStart(queue=queue)))
        # Each has begun before the first message is sent.
        for queue in queues:
            message = queue_pb2.OutgoingMessage(body=queue.encode())
            request = pb.SendRequest(queue=queue, messages=[message])
            await stub.Send(request, metadata=told(queue), timeout=PATIENCE)
        for queue, call in zip(queues, calls, strict=True):
            answer = await call.read()
            assert isinstance(answer, pb.StreamReceiveResponse)
            (received,) = answer.received.messages
            assert received.body == queue.encode()
            call.cancel()
