"""The requests that the engine takes, and their answers, by column: a frame of a stream is one request.
Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.content import Attributes
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.errors import StoreError

DEFAULT_RECEIVE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True, eq=False)
class Send:
    """Send messages of one delay. All valid ones commit together; each invalid one fails alone."""

    queue: str
    bodies: Sequence[bytes]
    attributes: Mapping[int, Attributes] = field(default_factory=dict)
    """By position, of the messages that have any."""
    delay: Millis | None = None
    """Hidden for so long; None takes the queue's delivery delay."""


@dataclass(slots=True, kw_only=True, eq=False)
class Stored:
    """For each message of a send its id, or why it wasn't stored."""

    results: list[str | StoreError]
    sent_at: Millis
    """Unix time."""


@dataclass(slots=True, kw_only=True, eq=False)
class Receive:
    """Lease up to `max_messages` messages, in order; at least one, and else no more than `max_bytes` of
    bodies."""

    queue: str
    max_messages: int = 1
    max_bytes: int = DEFAULT_RECEIVE_BYTES
    visibility: Millis | None = None
    """None takes the queue's visibility timeout."""
    credits: Credits | None = None
    """Take no more than these allow, and charge them until the lease ends."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """Messages of one file that a receive has leased: one column for each of their properties."""

    queue: str
    sent_at: Millis
    receives: int
    first: Millis | None
    """Unix time of the first receive."""
    due: Millis
    """Unix time at which the lease ends."""
    ids: list[str]
    receipts: list[str]
    bodies: list[bytes]
    attributes: dict[int, Attributes]
    """By position, of the messages that have any."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delete:
    """Delete messages by their receipts, or by their ids in any state.

    The answer has None for each that is deleted or was already gone, or its `StoreError`.
    """

    queue: str
    receipts: Sequence[str] = ()
    ids: Sequence[str] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Change:
    """Let leases end so long after now; zero releases them. Answers each one's new end, in Unix time,
    or 0."""

    queue: str
    receipts: Sequence[str]
    visibility: Millis


@dataclass(slots=True, kw_only=True, eq=False)
class Purge:
    """Delete all messages of a queue; answers how many."""

    queue: str


Request = Send | Receive | Delete | Change | Purge
Outcome = (
    Stored | list[Delivery] | list[StoreError | None] | list[Millis | StoreError] | int | StoreError
)
