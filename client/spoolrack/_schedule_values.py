"""Values of schedules. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ._values import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule at the time of the call."""

    queue: str
    name: str
    cron: str
    time_zone: str
    body: bytes
    attributes: Attributes
    """Each message has `spoolrack-schedule` and `spoolrack-tick` besides."""
    group: str
    """Empty: none."""
    paused: bool
    created_at: datetime
    last_tick_at: datetime | None
    """None: no tick was sent."""
    next_tick_at: datetime | None
    """None: it is paused."""
