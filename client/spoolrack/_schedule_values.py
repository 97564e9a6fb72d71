"""Values of schedules. No behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ._values import Attributes, Obstacle


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
    """None: it is paused, or has obstacles."""
    owner: str = ""
    """The identity that created it, or changed it last; empty: unknown."""
    obstacles: Sequence[Obstacle] = ()
    """What keeps its ticks from being sent until it is mended."""
