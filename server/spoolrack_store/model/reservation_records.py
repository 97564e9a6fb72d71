"""The record of a reserved set: its messages, by files and members. Pure.

A record is sealed, as `model.sealed` says: one that a power cut has torn counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from .clock import Millis
from .members import from_text, to_text
from .names import is_queue_name
from .receipts import is_set_token, is_token
from .sealed import NotWhole, SealedRecord, StoredAs, list_of, number, text

_Files = tuple[tuple[str, int], ...]
_token: Final = text(lambda token: is_token(token) and is_set_token(token))


def _file_in(item: Any) -> tuple[str, int]:
    text, members = item
    return str(text), from_text(str(members))


def _in_text(files: _Files) -> list[tuple[str, str]]:
    return [(text, to_text(members)) for text, members in files]


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
