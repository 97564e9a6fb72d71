"""Dead-letter records of a message: its moves to dead-letter queues and back. Pure.

The history is a list in JSON, an element for each move, the oldest first. It informs people: one that
can't be read raises `NotAHistory`, and the message is kept.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from .clock import Millis
from .errors import InvalidRequest
from .names import is_queue_name

MAX_TOLD: Final = 20
"""So many deaths of a message are told, the last ones: a message may die and be redriven for ever."""
MAX_EXPLANATION: Final = 1_024
"""Characters."""
MAX_RECEIVES: Final = "max_receives"
REJECTED: Final = "rejected"

_REASON: Final = re.compile(r"[a-z_]{1,40}")
_MOST_RECEIVES: Final = 2**31 - 1
_MAX_MILLIS: Final = 10**13 - 1
"""The last moment that has 13 digits."""


class NotAHistory(Exception):
    """The file holds something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """That a message was put into a dead-letter queue."""

    source_queue: str
    """The queue that it was in."""
    reason: str
    """Why: "max_receives" or "rejected"."""
    receives: int
    """How many leases on it had begun there."""
    first_receive: Millis | None
    """Unix time, as the next."""
    died_at: Millis
    explanation: str = ""
    """The reason given by the consumer that rejected it, or that released it last."""
    redriven_to: str = ""
    """The queue that it was brought back to afterwards; empty: it wasn't."""
    redriven_at: Millis | None = None


def deaths_in(history: bytes) -> tuple[Death, ...]:
    """Return the last records of a history, the oldest of them first; raise `NotAHistory`."""
    try:
        chapters = json.loads(history)
        return tuple(_death(chapter) for chapter in chapters[-MAX_TOLD:])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotAHistory(f"{type(error).__name__}: {error}") from error


def check_explanation(explanation: str) -> None:
    """Raise `InvalidRequest` for what no history can hold."""
    rule = f"must be Unicode text of up to {MAX_EXPLANATION} characters"
    if len(explanation) > MAX_EXPLANATION:
        raise InvalidRequest(what="reason", value=explanation, rule=rule)
    try:
        explanation.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(what="reason", value=repr(explanation), rule=rule) from error


def _death(chapter: dict[str, Any]) -> Death:
    source_queue, reason = chapter["source_queue"], chapter["reason"]
    if not is_queue_name(source_queue) or not _REASON.fullmatch(reason):
        raise ValueError(f"{source_queue!r} or {reason!r}")
    first = chapter.get("first_receive_ms")
    redriven_to = chapter.get("redriven_to") or ""
    if redriven_to and not is_queue_name(redriven_to):
        raise ValueError(f"{redriven_to!r}")
    explanation = chapter.get("explanation", "")
    if not isinstance(explanation, str) or len(explanation) > MAX_EXPLANATION:
        raise ValueError(f"{explanation!r}")
    return Death(
        source_queue=source_queue,
        reason=reason,
        receives=_number(chapter["receives"], _MOST_RECEIVES),
        first_receive=None if first is None else Millis(_number(first, _MAX_MILLIS)),
        died_at=Millis(_number(chapter["buried_at_ms"], _MAX_MILLIS)),
        explanation=explanation,
        redriven_to=redriven_to,
        redriven_at=Millis(_number(chapter["redriven_at_ms"], _MAX_MILLIS)) if redriven_to else None,
    )


def _number(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not a number from 0 to {most}")
    return value
