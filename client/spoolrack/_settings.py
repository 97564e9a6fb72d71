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
    "max_leased": 1_000_000_000,
    "group_max_leased": 1_000_000_000,
    "rate_burst": 1_000_000_000,
    "group_rate_burst": 1_000_000_000,
    "backoff_factor": 1_000,
    "backoff_jitter": 100,
}
"""The bounds of settings that are numbers."""
RATES: Final = frozenset({"rate", "group_rate"})
"""Settings that are a number a second."""


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
    max_leased: int | None
    group_max_leased: int | None
    rate: float | None
    rate_burst: int | None
    group_rate: float | None
    group_rate_burst: int | None
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
    """Number of receives without a delete after which a message moves to the dead-letter queue. 0:
    never."""
    dead_letter_queue: str = ""
    """The queue for messages that were received max_receives times. Empty: none."""
    dead_letter_at: DeadLetterAt = "lease_end"
    """When a message moves to the dead-letter queue: at the end of its last lease, or at the next
    receive."""
    retention: float = 0.0
    """Age, counted from the send or the last redrive, at which a message is removed undelivered.
    Seconds. 0: no limit."""
    max_messages: int = 0
    """Bound on messages in the queue, in all states. A send above it is refused. 0: no limit."""
    max_bytes: int = 0
    """Bound on bytes of bodies and attributes in the queue. A send above it is refused. Bytes. 0: no
    limit."""
    max_message_size: int = 1_048_576
    """The largest body. Bytes."""
    lease_durability: LeaseDurability = "strict"
    """Whether a receive, an extension or a release is on stable media before its answer. "relaxed" is
    faster: after a power loss leased messages are ready again."""
    deduplication_window: float = 300.0
    """Time for which a deduplication id is remembered after its first send. Seconds."""
    messages_per_file: int = 0
    """Bound on the messages that a send stores as one file. 1: each message has a file of its own. 0:
    up to 1,000."""
    group_order: GroupOrder = "fair"
    """Groups take turns. With "strict" a message of a group also waits while an earlier one of the
    group is leased or delayed."""
    max_leased: int = 0
    """Bound on messages that are leased at a time. Receives find no more until a lease ends. 0: no
    limit."""
    group_max_leased: int = 0
    """Bound on messages of one group that are leased at a time. 0: no limit."""
    rate: float = 0.0
    """Leases that begin in a second at most; 0.1 is one in ten seconds. 0: no limit."""
    rate_burst: int = 1
    """Leases that may begin at once after a rest, within the rate."""
    group_rate: float = 0.0
    """Leases of one group that begin in a second at most. 0: no limit."""
    group_rate_burst: int = 1
    """Leases of one group that may begin at once after a rest, within the group rate."""
    priority_aging: float = 0.0
    """Head start for each step of its priority: a message counts as sent earlier by this time.
    Seconds. 0: a higher priority is always received first."""
    backoff_initial: float = 1.0
    """Back-off after the first receive: delay of a message after a release that states none. Seconds.
    0: ready at once after every failure."""
    backoff_factor: int = 2
    """Factor of the back-off for each further receive."""
    backoff_maximum: float = 300.0
    """Upper bound of the back-off. Seconds."""
    backoff_jitter: int = 50
    """Percentage by which the back-off is shortened at most; differs by message and receive. 0:
    none."""
    backoff_at: BackoffAt = "release"
    """Whether the back-off applies to a release only, or to an expired lease, too."""
    archive_retention: float = 0.0
    """Time for which the root's archive keeps the files of messages that have left the queue. Seconds.
    0: no archive."""
    expires: float = 0.0
    """Idle time after which the queue is removed. Idle: no message, no waiting receive, and no request
    that uses it. Seconds. 0: never."""
    sending: Sending = "open"
    """Whether the queue accepts sends and publications. A paused queue refuses them."""
    receiving: Receiving = "open"
    """Whether receives get messages. In a paused queue they find none, and wait."""
