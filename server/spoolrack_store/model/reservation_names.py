"""The grammar of `reserved/`: its names, and the content of a marker.

    held   = stream "." seq "@" due            its record: the set is leased until then
    read   = stream "." seq "@" due "~read"    the same, once a reader has marked it as read
    lost   = stream "." seq "@" ended ["~read"] "~lost"  the same, once the hold is over
    marker = stream "." seq                    the stream is committed up to this number

The files are sealed, as `sealed` says. Pure: it knows text, not folders. An unknown name or content
raises `NotAName` or `NotWhole`, and the caller decides about the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from .clock import Millis
from .names import NotAName, is_queue_name
from .reservation_requests import MAX_SEQUENCE_NUMBER, MAX_STREAM_NAME
from .sealed import SealedRecord, StoredAs, list_of, number, text

_NAME: Final = re.compile(
    rf"(?P<stream>[A-Za-z0-9_-]{{1,{MAX_STREAM_NAME}}})\.(?P<sequence_number>0|[1-9][0-9]{{0,18}})"
    r"(?:@(?P<due>[0-9]{13})(?P<read>~read)?(?P<lost>~lost)?)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationName:
    """A name in `reserved/`, as values."""

    stream: str
    sequence_number: int
    due: Millis | None = None
    """Unix time at which the hold ends, or has ended; None: a marker."""
    is_lost: bool = False
    is_read: bool = False

    def __str__(self) -> str:
        text = f"{self.stream}.{self.sequence_number}"
        if self.due is not None:
            text += f"@{self.due:013d}"
            if self.is_read:
                text += "~read"
            if self.is_lost:
                text += "~lost"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker(SealedRecord):
    """The record of a commit. A process that finds sets of it still there finishes it."""

    sets: Annotated[tuple[int, ...], StoredAs(list_of(number()))]
    """The numbers of those that were held: their messages are deleted."""
    queues: Annotated[tuple[str, ...], StoredAs(list_of(text(is_queue_name)))] = ()
    """The queues of the stream's last sets: it belongs to them. Of a marker from before they were
    recorded none."""
    made_at: Annotated[Millis, StoredAs(number())]
    """Unix time."""


def parse_reservation_name(text: str) -> ReservationName:
    match = _NAME.fullmatch(text)
    if match is None or int(match["sequence_number"]) > MAX_SEQUENCE_NUMBER:
        raise NotAName(text)
    due = match["due"]
    return ReservationName(
        stream=match["stream"],
        sequence_number=int(match["sequence_number"]),
        due=None if due is None else Millis(int(due)),
        is_lost=match["lost"] is not None,
        is_read=match["read"] is not None,
    )
