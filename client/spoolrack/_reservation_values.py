"""Values of reservations. No behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

DEFAULT_RESERVED: Final = 1_000
"""Messages in one reservation, if it doesn't say."""
DEFAULT_RESERVED_BYTES: Final = 64 * 1024 * 1024


class ReservationState(StrEnum):
    """The state of a reservation."""

    HELD = "held"
    """Its messages are leased for it."""
    LOST = "lost"
    """The hold is over: its messages can be leased again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A named set of messages that are leased together for one reader, at the time of the call."""

    queue: str
    stream: str
    """The reader's name."""
    sequence_number: int
    """The set's number in the stream."""
    message_count: int
    """As many as were reserved, also if some were deleted since."""
    byte_count: int
    """Of their bodies and attributes."""
    expires_at: datetime
    """When the hold ends, or ended."""
    state: ReservationState = ReservationState.HELD
    read_count: int = 0
    """How often it was read from its first message on: one that breaks its reader shows here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The result of a commit."""

    deleted_count: int
    """How many were deleted."""
    lost_sequence_numbers: Sequence[int] = ()
    """The numbers of sets whose hold was over before: unread, released, or with messages that other
    readers have leased since."""
