"""The requests about redrives, and their answers. Values, no behaviour.

A redrive moves dead letters to the queues that they came from, or to another one: in the background,
with a rate, and on after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .clock import Millis
from .operations import Request

MAX_RATE = 100_000
"""Messages a second."""
MAX_SELECTED = 1_000
"""Ids in one selection."""
REDRIVE_MEMORY = Millis(30 * 24 * 60 * 60 * 1_000)
"""A redrive that has ended is remembered for so long."""
MAX_REMEMBERED = 100
"""Redrives of a queue: a new one takes the place of the oldest."""


class RedriveState(Enum):
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    id: str
    queue: str
    """The dead-letter queue."""
    destination: str
    """Empty: each message goes to the queue that it came from."""
    source_queue: str
    """Only messages that came from there; empty: from anywhere."""
    max_messages_per_second: int
    """Messages a second at most; 0: no bound."""
    state: RedriveState
    moved_count: int
    """After a restart, up to a second's work may be missing."""
    failed_count: int
    """Of the selection, found and not to be moved: they stay dead letters."""
    last_failure: str
    lacks_queue: bool
    """Whether the last failure was for a destination that isn't there."""
    lacks_source: bool
    """Whether the last failure was for a message that doesn't tell where it came from."""
    remaining_count: int
    """Not looked at yet, at most."""
    started_at: Millis
    """Unix time."""
    ended_at: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRedrive(Request[Redrive]):
    """Start moving dead letters back; `RedriveRunning` if a redrive of the queue is running."""

    queue: str
    destination: str = ""
    message_ids: Sequence[str] = ()
    """Only these; none: all that are dead letters now."""
    source_queue: str = ""
    max_messages_per_second: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRedrive(Request[Redrive]):
    """End a redrive; one that has ended stays as it is. May be repeated. A redrive of another queue
    than `queue` is not found, a `queue` of another shard a `WrongShard`."""

    id: str
    queue: str = ""
    """The redrive's; empty: not told."""
