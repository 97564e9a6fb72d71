"""Values of redrives. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

MAX_REDRIVEN_IDS: Final = 1_000
"""Ids in one selection."""


class RedriveState(StrEnum):
    """The state of a redrive."""

    RUNNING = "running"
    """It moves messages, or waits for its rate to allow it."""
    DONE = "done"
    """It has looked at all messages of its selection."""
    CANCELLED = "cancelled"
    """Messages moved before stay moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A redrive of dead letters, and its progress at the time of the call."""

    id: str
    queue: str
    """The dead-letter queue."""
    destination: str
    """Empty: each message goes back to the queue that it came from."""
    source_queue: str
    """Only messages that came from there are moved. Empty: from any."""
    max_messages_per_second: int
    """0: no bound."""
    state: RedriveState
    moved_count: int
    """How many. After a restart of the server, up to a second's work may be missing."""
    failed_count: int
    """How many of the selection were found and couldn't be moved: they stay dead letters."""
    last_failure: str
    """Why the last of those stays."""
    remaining_count: int
    """How many it has not looked at yet, at most."""
    started_at: datetime
    ended_at: datetime | None
    """None: it goes on."""
