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
from .blocking import (
    Batch,
    Client,
    Message,
    MessageStream,
    Queue,
    QueueBatch,
    Redrives,
    Reservations,
    Staging,
    Worker,
    connect,
)
from .errors import SpoolrackError
from .message import MessageFacts
from .redrives import Redrive, RedriveState
from .reservations import Committed, Reservation, ReservationState
from .retry import Backoff, Retry, RetryPolicy
from .stages import Published, StagedChunk, StageInfo
from .values import (
    BlockingMessage,
    ById,
    Death,
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
    "Backoff",
    "Batch",
    "BlockingMessage",
    "ById",
    "Client",
    "Committed",
    "Death",
    "DeleteResult",
    "Message",
    "MessageFacts",
    "MessageStream",
    "Outgoing",
    "Published",
    "Queue",
    "QueueBatch",
    "QueueCounts",
    "QueueInfo",
    "QueueSettings",
    "Redrive",
    "RedriveState",
    "Redrives",
    "Reservation",
    "ReservationState",
    "Reservations",
    "Retry",
    "RetryPolicy",
    "SendResult",
    "SpoolrackError",
    "StageInfo",
    "StagedChunk",
    "Staging",
    "State",
    "VisibilityResult",
    "Worker",
    "connect",
    "errors",
]
