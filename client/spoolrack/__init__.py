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

from typing import TYPE_CHECKING

from . import errors
from .blocking import (
    Batch,
    Client,
    Message,
    MessageStream,
    Queue,
    Redrives,
    Reservations,
    Staging,
    Worker,
    connect,
)
from .errors import SpoolrackError
from .message import MessageFacts
from .redrives import Redrive, RedriveState
from .reservations import CommitResult, Reservation, ReservationState
from .retry import Backoff, Retry, RetryPolicy
from .stages import PublishResult, StageInfo, StageResult
from .values import (
    BlockingMessage,
    ById,
    DeadLetterRecord,
    DeleteResult,
    LeaseResult,
    MessageState,
    Outgoing,
    QueueCounts,
    QueueInfo,
    QueueSettings,
    SendResult,
)

__all__ = [
    "Backoff",
    "Batch",
    "BlockingMessage",
    "ById",
    "Client",
    "CommitResult",
    "DeadLetterRecord",
    "DeleteResult",
    "LeaseResult",
    "Message",
    "MessageFacts",
    "MessageState",
    "MessageStream",
    "Outgoing",
    "PublishResult",
    "Queue",
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
    "StageResult",
    "Staging",
    "Worker",
    "connect",
    "errors",
]

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    """Look the version up when it is asked for: an import pays nothing for it."""
    if name != "__version__":
        raise AttributeError(f"module 'spoolrack' has no attribute {name!r}")
    from importlib.metadata import version

    return version("spoolrack")
