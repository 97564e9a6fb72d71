"""The settings of a queue. Written by scripts/generate-settings: change the store's schema.

Spans of time are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypedDict

DeadLetterAt = Literal["lease_end", "receive"]
LeaseDurability = Literal["strict", "relaxed"]
GroupOrder = Literal["fair", "strict"]
BackoffAt = Literal["release", "lease_end"]
Sending = Literal["open", "paused"]
Receiving = Literal["open", "paused"]

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "dead_letter_at": ("lease_end", "receive"),
    "lease_durability": ("strict", "relaxed"),
    "group_order": ("fair", "strict"),
    "backoff_at": ("release", "lease_end"),
    "sending": ("open", "paused"),
    "receiving": ("open", "paused"),
}
MOST: Final[Mapping[str, int]] = {
    "max_receives": 1_000_000_000,
    "max_messages": 1_000_000_000,
    "max_bytes": 1_125_899_906_842_624,
    "max_message_size": 1_099_511_627_776,
    "messages_per_file": 1_000,
    "backoff_factor": 1_000,
    "backoff_jitter": 100,
}
"""The bounds of settings that are numbers."""


class Settings(TypedDict, total=False):
    """The settings of a queue as keyword arguments. A setting that is left out keeps its
    default or its value; None sets it back to its default."""

    visibility_timeout: float | timedelta | None
    delivery_delay: float | timedelta | None
    max_receives: int | None
    dead_letter_queue: str | None
    dead_letter_at: DeadLetterAt | None
    retention: float | timedelta | None
    max_messages: int | None
    max_bytes: int | None
    max_message_size: int | None
    lease_durability: LeaseDurability | None
    deduplication_window: float | timedelta | None
    messages_per_file: int | None
    group_order: GroupOrder | None
    priority_aging: float | timedelta | None
    backoff_initial: float | timedelta | None
    backoff_factor: int | None
    backoff_maximum: float | timedelta | None
    backoff_jitter: int | None
    backoff_at: BackoffAt | None
    archive_retention: float | timedelta | None
    expires: float | timedelta | None
    sending: Sending | None
    receiving: Receiving | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue; docs/reference/settings.md has their bounds."""

    visibility_timeout: float = 30.0
    """Length of a lease, if the receive states none. Seconds."""
    delivery_delay: float = 0.0
    """Delay of a message, if the send states none. Seconds. 0: none."""
    max_receives: int = 0
    """After so many receives without a delete a message moves to the dead-letter queue. 0: never."""
    dead_letter_queue: str = ""
    """The queue that takes messages which were received max_receives times. Empty: none."""
    dead_letter_at: DeadLetterAt = "lease_end"
    """Whether a message moves to the dead-letter queue when its last lease ends, or at the next
    receive."""
    retention: float = 0.0
    """Messages older than this are removed undelivered; counted from the send. Seconds. 0: no
    limit."""
    max_messages: int = 0
    """A send that would hold more messages in the queue, in any state, is refused. 0: no limit."""
    max_bytes: int = 0
    """A send that would hold more bytes of bodies and attributes in the queue is refused. Bytes. 0: no
    limit."""
    max_message_size: int = 1_048_576
    """The largest body. Bytes."""
    lease_durability: LeaseDurability = "strict"
    """Whether a receive, an extension or a release is answered once it is on stable media, or before:
    faster, and after a power loss such messages are ready again."""
    deduplication_window: float = 300.0
    """How long a deduplication id is remembered after the send that first carried it. Seconds."""
    messages_per_file: int = 0
    """The most messages that a send stores as one file. 1: each message is a file of its own. 0: up to
    1,000."""
    group_order: GroupOrder = "fair"
    """Whether groups only take turns, or, besides, no message of a group is leased behind one that is
    leased or delayed."""
    priority_aging: float = 0.0
    """Head start of a message for each step of its priority: it counts as sent so much earlier.
    Seconds. 0: a higher priority is always received first."""
    backoff_initial: float = 1.0
    """Delay of a message after its first failure: a release that states no delay. Seconds. 0: ready at
    once after every failure."""
    backoff_factor: int = 2
    """The back-off is multiplied by this with each further receive."""
    backoff_maximum: float = 300.0
    """The back-off grows no longer than this. Seconds."""
    backoff_jitter: int = 50
    """The back-off is shortened by up to so many percent, differently for each message and receive. 0:
    none."""
    backoff_at: BackoffAt = "release"
    """Whether the back-off hides a message after a release only, or when a lease expires, too."""
    archive_retention: float = 0.0
    """How long the files of messages that have left the queue are kept in the root's archive. Seconds.
    0: no archive."""
    expires: float = 0.0
    """A queue that is idle for so long is removed: it has no message and no waiting receive, and no
    request uses it. Seconds. 0: never."""
    sending: Sending = "open"
    """Whether the queue accepts sends and publications; while it is paused they are refused."""
    receiving: Receiving = "open"
    """Whether the queue hands out messages; while it is paused receives find none, and wait."""
