"""Schedules: messages that are sent at each tick of a cron expression, as the queue's settings file
stores them.

A schedule says when in text that the store doesn't read: a cron expression and a time zone. A server
evaluates it and asks for each tick by `Fire`; the store sends a tick once. Pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .clock import LAST_MOMENT, Millis
from .message_content import Attributes
from .names import is_word
from .sealed import number, text, value_in

MAX_NAME: Final = 64
"""Characters."""
MAX_SCHEDULES: Final = 64
"""Of a queue."""
MAX_BODY: Final = 64 * 1024
"""Bytes: all schedules of a queue lie in one file, which each change writes anew."""
MAX_TEXT: Final = 256
"""Characters of a cron expression, and of the name of a time zone."""
NAME_ATTRIBUTE: Final = "spoolrack-schedule"
TICK_ATTRIBUTE: Final = "spoolrack-tick"
_WRITER: Final = "schedule-"
_TOKEN: Final = re.compile(r"[0-9a-z]{1,16}")
_token: Final = text(lambda value: _TOKEN.fullmatch(value) is not None)
_short: Final = text(lambda value: len(value) <= MAX_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule of a queue."""

    cron: str
    time_zone: str
    body: bytes = b""
    attributes: Attributes = field(default_factory=dict)
    group: str = ""
    """Empty: none."""
    paused: bool = False
    created_at: Millis
    since: Millis
    """Unix time: ticks count that come after it. It is the creation, or the end of a pause."""
    token: str
    """Another schedule that is created under this name has another."""
    owner: str = ""
    """The identity that created it, or changed it last; empty: unknown."""

    @property
    def writer(self) -> str:
        """The writer of its publications, whose epochs are the ticks in Unix seconds."""
        return f"{_WRITER}{self.token}"


def is_schedule_name(text: str) -> bool:
    return is_word(text, MAX_NAME)


def is_schedule_writer(text: str) -> bool:
    """Return whether a writer's name is one that a schedule can have."""
    return text.startswith(_WRITER)


def attributes_of(name: str, schedule: Schedule, tick: str) -> Attributes:
    """Return the attributes of a tick's message: the schedule and the tick."""
    return {**schedule.attributes, NAME_ATTRIBUTE: name, TICK_ATTRIBUTE: tick}


def to_json(schedules: Mapping[str, Schedule]) -> dict[str, object]:
    return {name: _object(schedule) for name, schedule in schedules.items()}


def _object(schedule: Schedule) -> dict[str, object]:
    texts = {name: value for name, value in schedule.attributes.items() if isinstance(value, str)}
    return {
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "body": base64.b64encode(schedule.body).decode(),
        "attributes": texts,
        "binary_attributes": {
            name: base64.b64encode(value).decode()
            for name, value in schedule.attributes.items()
            if isinstance(value, bytes)
        },
        "group": schedule.group,
        "paused": schedule.paused,
        "created_at": schedule.created_at,
        "since": schedule.since,
        "token": schedule.token,
        **({"owner": schedule.owner} if schedule.owner else {}),
    }


def from_json(value: object) -> dict[str, Schedule]:
    """Return the schedules in a settings file; raise `ValueError` for invalid ones."""
    if not isinstance(value, dict) or len(value) > MAX_SCHEDULES:
        raise ValueError(f"its schedules are not an object of up to {MAX_SCHEDULES}")
    for name in value:
        if not is_schedule_name(name):
            raise ValueError(f"its schedule {name!r} has no name that schedules have")
    return {name: _schedule(name, schedule) for name, schedule in value.items()}


def _schedule(name: str, values: Any) -> Schedule:
    # Any: the content of a file is checked here.
    try:
        is_paused = values["paused"]
        attributes: dict[str, str | bytes] = {
            name: base64.b64decode(value, validate=True)
            for name, value in values["binary_attributes"].items()
        }
        attributes.update(values["attributes"])
        if not isinstance(is_paused, bool) or not all(
            isinstance(value, str | bytes) for value in attributes.values()
        ):
            raise ValueError("it has a member of another type")
        return Schedule(
            cron=value_in(values, "cron", _short),
            time_zone=value_in(values, "time_zone", _short),
            group=value_in(values, "group", _short),
            token=value_in(values, "token", _token),
            owner=value_in({"owner": "", **values}, "owner", _short),
            body=base64.b64decode(values["body"], validate=True),
            attributes=attributes,
            paused=is_paused,
            created_at=value_in(values, "created_at", number(LAST_MOMENT)),
            since=value_in(values, "since", number(LAST_MOMENT)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"its schedule {name} can't be read: {error}") from error
