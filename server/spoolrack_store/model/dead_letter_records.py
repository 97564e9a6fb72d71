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
from typing import Annotated, Any, Final

from .clock import LAST_MOMENT, Millis
from .errors import InvalidRequest
from .names import Name, is_queue_name
from .sealed import NotWhole, SealedRecord, StoredAs, number, optional, seal, text, unseal

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


_moment: Final = number(LAST_MOMENT)
_queue: Final = text(is_queue_name)
_reason: Final = text(lambda reason: _REASON.fullmatch(reason) is not None)
_explanation: Final = text(lambda words: len(words) <= MAX_EXPLANATION)
_REDRIVEN_AT: Final = StoredAs(_moment, key="redriven_at_ms", is_left_out=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord(SealedRecord):
    """One move of a message to a dead-letter queue."""

    source_queue: Annotated[str, StoredAs(_queue)]
    """The queue that it was moved from."""
    reason: Annotated[str, StoredAs(_reason)]
    """Why: "max_receives" or "rejected"."""
    receive_count: Annotated[int, StoredAs(number(_MOST_RECEIVES), key="receives")]
    """How many leases on it had begun there."""
    first_received_at: Annotated[Millis | None, StoredAs(optional(_moment), key="first_receive_ms")]
    """Unix time, as the next."""
    dead_lettered_at: Annotated[Millis, StoredAs(_moment, key="died_at_ms")]
    explanation: Annotated[str, StoredAs(_explanation, is_left_out=True)] = ""
    """The reason given by the consumer that rejected it, or that released it last."""
    redrive_queue: Annotated[str, StoredAs(_queue, key="redriven_to", is_left_out=True)] = ""
    """The queue that a redrive moved it to afterwards; empty: none did."""
    redriven_at: Annotated[Millis | None, _REDRIVEN_AT] = None

    def __post_init__(self) -> None:
        if self.redrive_queue and self.redriven_at is None:
            raise NotWhole("its redriven_at_ms is None")


def encode_records(records: Sequence[DeadLetterRecord]) -> bytes:
    """Return the content of a dead-letter file with the last of these records."""
    return seal({"deaths": [record.values() for record in records[-MAX_RECORDS:]]})


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
                receive_count=death.receives,
                first_received_at=death.first,
                dead_lettered_at=death.at,
            ),
        )
    last, renewed = records[-1], name.renewed
    if renewed is None or renewed <= last.dead_lettered_at:
        return records
    return *records[:-1], replace(last, redrive_queue=name.queue, redriven_at=renewed)


def decode_records(content: bytes) -> tuple[DeadLetterRecord, ...]:
    """Return what a dead-letter file tells, the oldest first; raise `NotAHistory`."""
    try:
        elements: Any = unseal(content)["deaths"]
        records = tuple(map(DeadLetterRecord.of, elements))
    except NotWhole as error:
        raise NotAHistory(str(error)) from error
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotAHistory("it has no list of deaths") from error
    if not 1 <= len(records) <= MAX_RECORDS:
        raise NotAHistory(f"it has {len(records)} records")
    return records


def check_explanation(explanation: str) -> None:
    """Raise `InvalidRequest` for an explanation that a history can't hold."""
    rule = f"must be Unicode text of up to {MAX_EXPLANATION} characters"
    if len(explanation) > MAX_EXPLANATION:
        raise InvalidRequest(what="reason", value=explanation, rule=rule)
    try:
        explanation.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(what="reason", value=repr(explanation), rule=rule) from error
