"""Spoolrack's client: durable message queues that are nothing but files.

    import spoolrack

    with spoolrack.connect("127.0.0.1:50051") as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        jobs.send("hello")
        for message in jobs.messages():
            with message:
                print(message.text)

`spoolrack.aio` is the same for asyncio, `spoolrack.errors` what can go wrong, `spoolrack.testing` a
server for tests.
"""

from . import errors
from .blocking import Client, Message, MessageStream, Queue, Worker, connect
from .errors import SpoolrackError
from .retry import RetryPolicy
from .values import (
    BlockingMessage,
    ById,
    DeleteResult,
    Outgoing,
    QueueCounts,
    QueueInfo,
    QueueSettings,
    SendResult,
    State,
    VisibilityResult,
)

__all__ = [
    "BlockingMessage",
    "ById",
    "Client",
    "DeleteResult",
    "Message",
    "MessageStream",
    "Outgoing",
    "Queue",
    "QueueCounts",
    "QueueInfo",
    "QueueSettings",
    "RetryPolicy",
    "SendResult",
    "SpoolrackError",
    "State",
    "VisibilityResult",
    "Worker",
    "connect",
    "errors",
]
