"""The client for asyncio, and the logic of the one for threads: `await spoolrack.aio.connect()`.

The same surface as `spoolrack`, with `await`, `async for` and `async with`. A client belongs to the
event loop in which it was made, and, like all of asyncio, to one thread.

    async with spoolrack.aio.connect("127.0.0.1:50051") as client:
        jobs = client.queue("jobs")
        await jobs.send("hello")
        async for message in jobs.messages():
            async with message:
                print(message.text)
"""

from ..stream import EnvelopeStream
from .batch import Batch
from .client import Client, connect
from .message import (
    Message,
    MessageStream,
    delete_message,
    extend_message,
    release_message,
    settle_message,
)
from .queue import Queue
from .redrives import Redrives
from .reservations import Reservations
from .staging import Staging
from .worker import Worker, WorkerCore

__all__ = [
    "Batch",
    "Client",
    "EnvelopeStream",
    "Message",
    "MessageStream",
    "Queue",
    "Redrives",
    "Reservations",
    "Staging",
    "Worker",
    "WorkerCore",
    "connect",
    "delete_message",
    "extend_message",
    "release_message",
    "settle_message",
]
