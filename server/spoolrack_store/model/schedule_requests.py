"""The requests about schedules, and their answers. Values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field

from .message_content import Attributes
from .operations import Request
from .schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSchedule:
    """A schedule with its queue and its last tick."""

    queue: str
    name: str
    schedule: Schedule
    last_tick: int | None
    """Unix time in seconds of the last tick that was sent; None: none was."""
    is_too_large: bool = False
    """Whether the body is above the queue's present `max_message_size`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchedule(Request[QueuedSchedule]):
    """Create a schedule, or find it with this content; `ScheduleExists` if that differs."""

    queue: str
    name: str
    cron: str
    time_zone: str
    body: bytes = b""
    attributes: Attributes = field(default_factory=dict)
    group: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchedule(Request[QueuedSchedule]):
    """Change parts of a schedule; None leaves one as it is. A changed time has ticks from now on."""

    queue: str
    name: str
    cron: str | None = None
    time_zone: str | None = None
    body: bytes | None = None
    attributes: Attributes | None = None
    group: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedule(Request[QueuedSchedule]):
    """Pause a schedule, or resume it: ticks of the pause are skipped."""

    queue: str
    name: str
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSchedule(Request[None]):
    """Delete a schedule. No tick is sent after the answer."""

    queue: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire(Request[bool]):
    """Send the message of a tick, unless that tick or a later one was sent, or the schedule was
    replaced or paused; the answer is whether this request sent it."""

    queue: str
    name: str
    token: str
    tick: int
    """Unix time in seconds."""
