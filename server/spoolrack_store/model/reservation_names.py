"""The files of `reserved/`: the grammar of their names, and the contents of records and markers.

    held   = stream "." seq "@" due            its record: the set is leased until then
    read   = stream "." seq "@" due "~read"    the same, once a reader has marked it as read
    lost   = stream "." seq "@" ended ["~read"] "~lost"  the same, once the hold is over
    marker = stream "." seq                    the stream is committed up to this number

The files are sealed, as `sealed` says: a record that a power cut has torn counts as missing. Pure: it
knows text, not folders. An unknown name or content raises `NotAName` or `NotWhole`, and the caller
decides about the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from .clock import Millis
from .members import from_text, to_text
from .names import NotAName, is_queue_name
from .receipts import is_set_token, is_token
from .reservation_requests import MAX_SEQUENCE_NUMBER, MAX_STREAM_NAME
from .sealed import NotWhole, SealedRecord, StoredAs, list_of, number, text

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


_Files = tuple[tuple[str, int], ...]
_token: Final = text(lambda token: is_token(token) and is_set_token(token))


def _file_in(item: Any) -> tuple[str, int]:
    stem, members = item
    return str(stem), from_text(str(members))


def _in_text(files: _Files) -> list[tuple[str, str]]:
    return [(stem, to_text(members)) for stem, members in files]


def _count(value: Any) -> int:
    if not (count := number()(value)):
        raise ValueError("a message of a set was received with it")
    return int(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRecord(SealedRecord):
    """The messages of a set. They never change."""

    queue: Annotated[str, StoredAs(text(is_queue_name))]
    queue_created_at: Annotated[Millis | None, StoredAs(number(), is_left_out=True)] = None
    """Another queue that is made under its name has another. None: a version of before didn't say."""
    token: Annotated[str, StoredAs(_token)]
    """Of all its leases, and of no others."""
    visibility_timeout: Annotated[Millis, StoredAs(number(), key="hold")]
    """As it was first asked for."""
    made_at: Annotated[Millis, StoredAs(number())]
    """Unix time."""
    messages: Annotated[int, StoredAs(number())] = field(init=False, compare=False)
    size: Annotated[int, StoredAs(number(), key="bytes")]
    """Bytes of the bodies."""
    files: Annotated[_Files, StoredAs(list_of(_file_in), write=_in_text)]
    """In the order of the messages: the text of a file's stem, and a mask of members. A file is there
    twice if a message of another one has an id between, or if its messages have other receives."""
    receives: Annotated[tuple[int, ...], StoredAs(list_of(_count))]
    """Of each of `files`, how often its messages were received when the set was made, with the set."""

    def __post_init__(self) -> None:
        if len(self.receives) != len(self.files):
            raise NotWhole("it doesn't say how often its messages were received")
        object.__setattr__(self, "messages", sum(members.bit_count() for _, members in self.files))


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
