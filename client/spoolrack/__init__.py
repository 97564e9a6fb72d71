"""Spoolrack's client: durable message queues that are nothing but files.

    import spoolrack

    with spoolrack.connect("127.0.0.1:50051") as client:
        jobs = client.create_queue("jobs")
        jobs.send("hello")
        for message in jobs.messages():
            with message:
                print(message.text)

`spoolrack.aio` is the same for asyncio, `spoolrack.errors` what can go wrong, `spoolrack.testing` a
server for tests.
"""

from typing import TYPE_CHECKING

from . import errors
from ._blocking import (
    Batch,
    Client,
    Message,
    MessageStream,
    Queue,
    RedriveHandle,
    Redrives,
    ReservationHandle,
    Reservations,
    Schedules,
    Staging,
    Worker,
    connect,
)
from ._core.worker_core import WorkerOptions
from ._credentials import CredentialOptions
from ._message_base import MessageFacts
from ._redrive_values import Redrive, RedriveState
from ._reservation_values import CommitResult, Reservation, ReservationState
from ._retry import Backoff, Reject, Retry, RetryPolicy
from ._schedule_values import Schedule
from ._settings import QueueSettings, Settings
from ._stage_values import BatchOptions, PublishResult, StageInfo, StageResult
from ._values import (
    Attributes,
    BlockingMessage,
    ById,
    DeadLetterRecord,
    DeleteResult,
    LeaseResult,
    MessageState,
    Obstacle,
    OldLease,
    Outgoing,
    QueueCounts,
    QueueInfo,
    Results,
    Seconds,
    SendOptions,
    SendResult,
    StagedOptions,
    StreamOptions,
)
from .errors import SpoolrackError

__all__ = [
    "Attributes",
    "Backoff",
    "Batch",
    "BatchOptions",
    "BlockingMessage",
    "ById",
    "Client",
    "CommitResult",
    "CredentialOptions",
    "DeadLetterRecord",
    "DeleteResult",
    "LeaseResult",
    "Message",
    "MessageFacts",
    "MessageState",
    "MessageStream",
    "Obstacle",
    "OldLease",
    "Outgoing",
    "PublishResult",
    "Queue",
    "QueueCounts",
    "QueueInfo",
    "QueueSettings",
    "Redrive",
    "RedriveHandle",
    "RedriveState",
    "Redrives",
    "Reject",
    "Reservation",
    "ReservationHandle",
    "ReservationState",
    "Reservations",
    "Results",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "Schedules",
    "Seconds",
    "SendOptions",
    "SendResult",
    "Settings",
    "SpoolrackError",
    "StageInfo",
    "StageResult",
    "StagedOptions",
    "Staging",
    "StreamOptions",
    "Worker",
    "WorkerOptions",
    "__version__",
    "connect",
    "errors",
]

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    """Look the version up on access, so that the import stays fast."""
    if name != "__version__":
        raise AttributeError(f"module 'spoolrack' has no attribute {name!r}")
    from importlib.metadata import version

    return version("spoolrack")
