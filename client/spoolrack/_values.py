"""The values that the client's surface and its transports exchange. No behaviour, no I/O, no protobuf.

Spans of time are seconds; where one is handed in, a `timedelta` will do as well. Moments are aware
`datetime`s in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, Self, TypedDict, TypeVar

from ._former_names import former_name
from ._settings import QueueSettings
from .errors import SpoolrackError

Seconds = float | timedelta
"""A span of time that a caller hands in: seconds, or a `timedelta`."""
Attributes = Mapping[str, str | bytes]
"""Named values beside a body: names of 1 to 256 bytes, 64 KiB together at most."""

MAX_BATCH: Final = 1_000
"""Messages in one call."""
MAX_PRIORITY: Final = 9
MAX_BODY_IN_MEMORY: Final = 64 * 1024 * 1024
"""Bytes of the largest body that goes in a call, and is read into memory."""
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of bodies and attributes in one call of several messages; a larger message goes alone."""


class MessageState(StrEnum):
    """State of a message."""

    READY = "ready"
    LEASED = "leased"
    DELAYED = "delayed"


_FORMER_COUNTS: Final = {
    "ready": "ready_count",
    "leased": "leased_count",
    "delayed": "delayed_count",
    "bytes": "byte_count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """The counts of a queue at one moment."""

    ready_count: int = 0
    leased_count: int = 0
    delayed_count: int = 0
    byte_count: int = 0
    """Of bodies and attributes, in all states."""
    oldest_age: float | None = None
    """Seconds since the oldest message that is ready or leased was sent. None: there is none."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            return former_name(self, name, _FORMER_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingMessage:
    """A poison message, which is received again and again and blocks its queue."""

    id: str
    receive_count: int
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A cause that keeps messages from going into a queue or out of it."""

    reason: str
    """A stable name, such as "RECEIVING_PAUSED"."""
    explanation: str
    """For a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLease:
    """Messages that one consumer leased together, and still holds."""

    message_id: str
    """The first of them."""
    message_count: int
    first_received_at: datetime | None
    lease_expires_at: datetime
    receive_count: int
    stream: str
    """The stream of the reservation that holds them; empty: a receive does."""
    consumer: str = ""
    """For people: the identity, address and user agent that received them, or the process of a program
    without a server. Only the server or program that served the receive knows it, and only in memory:
    others say that it is unknown. Empty if a reservation holds them."""
    received_at: datetime | None = None
    """None: the consumer is unknown, or a reservation holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue at the time of the call."""

    name: str
    settings: QueueSettings = field(default_factory=QueueSettings)
    counts: QueueCounts = field(default_factory=QueueCounts)
    created_at: datetime
    version: int
    """Rises with each change of the settings and the labels."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Notes of its owner; Spoolrack reads none of them."""
    blocking_message: BlockingMessage | None = None
    obstacles: Sequence[Obstacle] = ()
    """Causes that keep messages from going in or out. As the oldest leases, only of a queue that was
    asked for by its name."""
    oldest_leases: Sequence[OldLease] = ()
    """Up to five, those of the oldest leased messages."""
    shard: str = field(default="", compare=False)
    """The shard that answered, such as 2/8; empty: a server that is none, or the queue was not asked
    for by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to be sent."""

    body: bytes | str
    """Text is sent as UTF-8."""
    attributes: Attributes = field(default_factory=dict)
    delay: Seconds | None = None
    """Hidden for so long; None takes the queue's delivery delay."""
    deliver_at: datetime | None = None
    """Hidden until this time, with its zone, up to 365 days ahead; in place of a delay."""
    deduplication_id: str = ""
    """Up to 128 characters. Within the queue's `deduplication_window` a second message with the same is
    not stored: the answer is the first one's id. Empty: each send is a message of its own."""
    group: str = ""
    """Up to 128 characters: messages of one group are received in the order of their sends. Empty: it
    has none."""
    priority: int = 0
    """From 0 to 9: ready messages of a higher priority are received first."""


class StagedOptions(TypedDict, total=False):
    """Options of a message in a batch, as keyword arguments: `Outgoing` says what each means."""

    attributes: Attributes | None
    delay: Seconds | None
    group: str
    priority: int


class SendOptions(StagedOptions, total=False):
    """Options of a message, as keyword arguments: `Outgoing` says what each means."""

    deliver_at: datetime | None
    deduplication_id: str


class StreamOptions(TypedDict, total=False):
    """Options of a stream, as keyword arguments: see `spoolrack.Queue.messages`."""

    max_in_flight: int
    max_bytes_in_flight: int | None
    visibility_timeout: Seconds | None
    timeout: Seconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    """One move of a message to a dead-letter queue."""

    source_queue: str
    """The queue that it was in."""
    reason: str
    """Why: "max_receives", or "rejected" by a consumer."""
    receive_count: int
    """How many leases on it had begun in that queue."""
    first_received_at: datetime | None
    dead_lettered_at: datetime
    redrive_queue: str = ""
    """The queue that a redrive brought it back to afterwards. Empty: none did."""
    redriven_at: datetime | None = None
    explanation: str = ""
    """The reason that the consumer gave which rejected it, or released it for the last time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message as a transport delivers it, before it is bound to a queue's handle."""

    id: str
    body: bytes
    attributes: Attributes = field(default_factory=dict)
    body_size: int
    """Bytes of the whole body, also where `body` holds only its beginning."""
    sent_ms: int
    """Unix time in milliseconds, as all the moments here: most programs never look at them."""
    receive_count: int = 0
    first_receive_ms: int | None = None
    due_ms: int | None = None
    """When the lease of a leased message ends, or the delay of a delayed one."""
    visibility_timeout: float | None = None
    """Seconds that the lease lasted when the message arrived; None if the server didn't say."""
    receipt: str = ""
    """Empty in messages that were got or listed."""
    state: MessageState = MessageState.READY
    group: str = ""
    priority: int = 0
    dead_letter_records: Sequence[DeadLetterRecord] = ()
    """The oldest first; only in messages that were got or listed."""
    path: str = ""
    """The file of the body, if it has one of its own, and the transport leads to its folder."""


class LastReceive(NamedTuple):
    """The receive of a receipt."""

    receive_count: int
    first_receive_ms: int


@dataclass(frozen=True, slots=True)
class ByReceipt:
    """A message by the receipt of its lease."""

    receipt: str
    last_receive: LastReceive | None = None
    """Also if the lease is over, as long as this was the message's last receive; None: not then."""


@dataclass(frozen=True, slots=True)
class ById:
    """A message by its id, as a target of `delete_many`: in any state, leased or not."""

    id: str


Target = ByReceipt | ById


@dataclass(frozen=True, slots=True)
class InterruptedStream:
    """A stream whose connection was lost, by its id, and how many of its messages have arrived."""

    stream_id: str
    arrived: int


@dataclass(frozen=True, slots=True)
class LeaseExtension:
    """A new end of a lease, in seconds from now."""

    receipt: str
    seconds: float
    last_receive: LastReceive | None = None
    """Also if the lease is over, as long as this was the message's last receive; None: not then."""


@dataclass(frozen=True, slots=True)
class MessageRelease:
    """The end of one lease, after which the message is hidden for `delay` seconds."""

    receipt: str
    delay: float | None = 0.0
    """None: as long as the queue's back-off says."""
    reason: str = ""
    count: bool = True
    """Whether the receive counts."""


@dataclass(frozen=True, slots=True)
class MessageRejection:
    """A leased message that is to become a dead letter."""

    receipt: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The result of one message of a send: an id, or an error."""

    id: str | None = None
    sent_ms: int | None = None
    """Unix time in milliseconds."""
    duplicate: bool = False
    """Whether it was sent before: the id is that of the first message with its deduplication id."""
    error: SpoolrackError | None = None

    @property
    def sent_at(self) -> datetime | None:
        """Time at which the server stored the message, in UTC. None: it was not stored."""
        return None if self.sent_ms is None else moment_of(self.sent_ms)

    @property
    def ok(self) -> bool:
        """Whether the message is on stable media."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """The result of one message of a delete."""

    error: SpoolrackError | None = None

    @property
    def ok(self) -> bool:
        """Whether the message is deleted for good."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseResult:
    """The result of one extension, release or rejection."""

    lease_expires_at: datetime | None = None
    """Of an extension that succeeded, and else None."""
    error: SpoolrackError | None = None

    @property
    def ok(self) -> bool:
        """Whether the lease was changed."""
        return self.error is None


class _MayFail(Protocol):
    @property
    def error(self) -> SpoolrackError | None: ...


Result = TypeVar("Result", bound=_MayFail)


class Results(list[Result]):
    """The results of a call for many messages, one for each, in the order of the messages."""

    def raise_for_errors(self) -> Self:
        """Return the results if none is an error; raise the first error otherwise, with a note how many
        messages failed."""
        failed = [each.error for each in self if each.error is not None]
        if failed:
            failed[0].add_note(f"{len(failed)} of {len(self)} messages failed: this is the first.")
            raise failed[0]
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of a queue's messages: those that match all given properties."""

    states: Collection[MessageState] = ()
    sent_since: datetime | None = None
    sent_before: datetime | None = None
    group: str = ""
    attributes: Attributes = field(default_factory=dict)


Item = TypeVar("Item", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Some items of a list, and the token that asks for the next page; empty on the last."""

    items: Sequence[Item]
    next_token: str = ""


def seconds_of(span: Seconds) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def millis_of(moment: datetime) -> int:
    """Return the Unix time in milliseconds of an aware datetime, rounded up."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def moment_of(millis: int) -> datetime:
    """Return the aware datetime of a Unix time in milliseconds, exactly: no floats are involved."""
    seconds, rest = divmod(millis, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1_000)
