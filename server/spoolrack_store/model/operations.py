"""The requests that the store takes, and what each is answered with. Values, no behaviour.

A request is given to `store.Store.submit`, which answers with a future of the type that the request
is generic in. Where a request names many messages, the answer holds a result for each, in order: the
value, or the `StoreError` that befell this one alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

from .clock import Millis
from .content import Attributes
from .deaths import Death
from .errors import StoreError
from .overview import Traffic
from .settings import QueueSettings
from .transitions import State

if TYPE_CHECKING:
    from .credits import Credits

Answer = TypeVar("Answer", covariant=True)

DEFAULT_RECEIVE_BYTES = 4 * 1024 * 1024


class Request(Generic[Answer]):
    """Work for the store, whose answer has the type `Answer`."""

    __slots__ = ()


# What callers hand in.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to be sent."""

    body: bytes
    attributes: Attributes = field(default_factory=dict)
    delay: Millis | None = None
    """Hidden for so long; None takes the queue's delivery delay."""
    deduplication_id: str = ""
    """Within the queue's window a second message with the same is answered with the first one's id."""


@dataclass(frozen=True, slots=True)
class ByReceipt:
    """Names a message by the lease that one holds on it."""

    receipt: str


@dataclass(frozen=True, slots=True)
class ById:
    """Names a message by its id, in any state, whoever holds a lease on it."""

    id: str


Target = ByReceipt | ById


@dataclass(frozen=True, slots=True)
class VisibilityChange:
    receipt: str
    visibility: Millis
    """The lease ends so long after now; zero releases it."""
    is_put_off: bool = False
    """Whether the lease gives its credit back at once, though the message stays hidden."""


# What comes back.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    id: str
    sent_at: Millis
    is_duplicate: bool = False
    """Whether it was sent before, with the same deduplication id: this is the first one's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as a receive, a get or a list shows it."""

    queue: str
    id: str
    state: State
    body: bytes
    attributes: Attributes
    size: int
    """Bytes of the whole body, also where `body` holds only its beginning."""
    sent_at: Millis
    receives: int
    first_receive: Millis | None
    due: Millis | None
    """Unix time at which the lease or the delay ends."""
    receipt: str | None
    deaths: Sequence[Death] = ()
    """How it came to be a dead letter; only where it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A message whose body isn't in memory. Whoever has it closes the file."""

    message: Message
    """With an empty body."""
    file: BinaryIO
    """The body is its first `message.size` bytes. It stays readable whatever becomes of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A message that comes back again and again, and why that matters."""

    id: str
    receives: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    ready: int
    leased: int
    delayed: int
    bytes: int
    """Of bodies and attributes, in all states."""
    oldest: Millis | None
    """Unix time at which the oldest message that is ready or leased was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    settings: QueueSettings
    created_at: Millis
    version: int
    """Rises with each update."""
    counts: Counts
    blocking: Blocking | None = None
    traffic: Traffic = field(default_factory=Traffic, compare=False)


# Requests.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue(Request[Queue]):
    """Create a queue, or find it there with equal settings; `QueueExists` if they differ."""

    name: str
    settings: QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQueue(Request[Queue]):
    name: str
    changes: Mapping[str, object]
    """Settings by name, as in `QueueSettings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue(Request[None]):
    """Delete a queue with all its messages. The answer comes once that can't be undone."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge(Request[int]):
    """Delete all messages of a queue, leased and delayed ones too; answers how many."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Request[list[Sent | StoreError]]):
    """Send messages. All valid ones commit together; each invalid one fails alone.

    Messages with different delays are separate in this: each delay's messages commit together.
    """

    queue: str
    messages: Sequence[Outgoing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive(Request[list[Message]]):
    """Lease up to `max_messages` messages, in order; waits up to `wait` for the first."""

    queue: str
    max_messages: int = 1
    max_bytes: int = DEFAULT_RECEIVE_BYTES
    """No more than this in bodies and attributes, but always at least one message."""
    visibility: Millis | None = None
    """None takes the queue's visibility timeout."""
    wait: Millis | None = Millis(0)
    """None waits for ever."""
    credits: Credits | None = None
    """Take no more than these allow, and charge them until the lease ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Request[list[StoreError | None]]):
    """Delete messages. By receipt, one that is already gone is a success, so a retry is safe."""

    queue: str
    targets: Sequence[Target]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVisibility(Request[list[Millis | StoreError | None]]):
    """Extend or release leases; each answers with the Unix time at which it now ends."""

    queue: str
    changes: Sequence[VisibilityChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack(Request[None]):
    """Undo leases that no consumer ever saw: ready again at once, and the receive isn't counted."""

    queue: str
    receipts: Sequence[str]
