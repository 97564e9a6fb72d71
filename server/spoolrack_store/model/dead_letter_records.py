"""Dead-letter records of a message: its moves to dead-letter queues and back. Pure.

The name of a dead letter says how it became one. A dead-letter file says it where the name has no room:
with the words of a consumer, and of the deaths before the last. It is a sealed list, an element for
each move, the oldest first. It informs people: one that can't be read raises `NotAHistory`, and the
message is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .clock import LAST_MOMENT, Millis
from .errors import InvalidRequest
from .names import Name, is_queue_name
from .sealed import number_in, seal, text_in, unseal

MAX_RECORDS: Final = 20
"""Records that are kept, the last ones: a message may be redriven and fail for ever."""
MAX_EXPLANATION: Final = 1_024
"""Characters."""
MAX_RECEIVES: Final = "max_receives"
REJECTED: Final = "rejected"

_REASON: Final = re.compile(r"[a-z_]{1,40}")
_MOST_RECEIVES: Final = 2**31 - 1


class NotAHistory(Exception):
    """The content is that of no dead-letter file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    """One move of a message to a dead-letter queue."""

    source_queue: str
    """The queue that it was moved from."""
    reason: str
    """Why: "max_receives" or "rejected"."""
    receives: int
    """How many leases on it had begun there."""
    first_receive: Millis | None
    """Unix time, as the next."""
    dead_lettered_at: Millis
    explanation: str = ""
    """The reason given by the consumer that rejected it, or that released it last."""
    redriven_to: str = ""
    """The queue that a redrive moved it to afterwards; empty: none did."""
    redriven_at: Millis | None = None


def encode_records(records: Sequence[DeadLetterRecord]) -> bytes:
    """Return the content of a dead-letter file with the last of these records."""
    return seal({"deaths": list(map(_element, records[-MAX_RECORDS:]))})


def records_of(name: Name, content: bytes | None = None) -> tuple[DeadLetterRecord, ...]:
    """Return how the messages of a name became dead letters each time, the oldest first.

    `content` is that of the name's dead-letter file, if it has one. Raise `NotAHistory`.
    """
    death = name.death
    if death is None:
        return ()
    if death.file:
        records = decode_records(content or b"")
    else:
        records = (
            DeadLetterRecord(
                source_queue=death.source,
                reason=REJECTED if death.is_rejected else MAX_RECEIVES,
                receives=death.receives,
                first_receive=death.first,
                dead_lettered_at=death.at,
            ),
        )
    if death.redriven is None:
        return records
    return *records[:-1], replace(records[-1], redriven_to=name.queue, redriven_at=death.redriven)


def decode_records(content: bytes) -> tuple[DeadLetterRecord, ...]:
    """Return what a dead-letter file tells, the oldest first; raise `NotAHistory`."""
    try:
        elements: Any = unseal(content)["deaths"]
        records = tuple(map(_record, elements))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotAHistory(f"{type(error).__name__}: {error}") from error
    if not 1 <= len(records) <= MAX_RECORDS:
        raise NotAHistory(f"it has {len(records)} records")
    return records


def _element(record: DeadLetterRecord) -> dict[str, object]:
    element: dict[str, object] = {
        "source_queue": record.source_queue,
        "reason": record.reason,
        "receives": record.receives,
        "first_receive_ms": record.first_receive,
        "died_at_ms": record.dead_lettered_at,
    }
    if record.explanation:
        element["explanation"] = record.explanation
    if record.redriven_to:
        element |= {"redriven_to": record.redriven_to, "redriven_at_ms": record.redriven_at}
    return element


def check_explanation(explanation: str) -> None:
    """Raise `InvalidRequest` for an explanation that a history can't hold."""
    rule = f"must be Unicode text of up to {MAX_EXPLANATION} characters"
    if len(explanation) > MAX_EXPLANATION:
        raise InvalidRequest(what="reason", value=explanation, rule=rule)
    try:
        explanation.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(what="reason", value=repr(explanation), rule=rule) from error


def _record(element: dict[str, Any]) -> DeadLetterRecord:
    first, redriven_to = element.get("first_receive_ms"), element.get("redriven_to") or ""
    return DeadLetterRecord(
        source_queue=text_in(element, "source_queue", is_queue_name),
        reason=text_in(element, "reason", lambda text: _REASON.fullmatch(text) is not None),
        receives=number_in(element, "receives", _MOST_RECEIVES),
        first_receive=None if first is None else _moment_in(element, "first_receive_ms"),
        dead_lettered_at=_moment_in(element, "died_at_ms"),
        explanation=text_in(
            {"explanation": "", **element}, "explanation", lambda text: len(text) <= MAX_EXPLANATION
        ),
        redriven_to=redriven_to and text_in(element, "redriven_to", is_queue_name),
        redriven_at=_moment_in(element, "redriven_at_ms") if redriven_to else None,
    )


def _moment_in(element: dict[str, Any], name: str) -> Millis:
    return Millis(number_in(element, name, LAST_MOMENT))
