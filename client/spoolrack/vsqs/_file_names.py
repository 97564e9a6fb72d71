"""The names of vsqs: the state of a message is in its file's name, and nowhere else.

    <number>.new             being written
    <number>                 ready
    <number>.<expiration>    leased until then

Numbers are Unix times and order the messages as numbers, not as text. We write microseconds, as vsqs
0.3 does; its documentation speaks of milliseconds, and folders with such names exist. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SECOND: Final = 1_000_000
"""In microseconds, the unit of all times here."""
_MILLISECONDS: Final = range(10**12, 10**14)
"""The least number that is read as a time in milliseconds: 2001, or 1970 in microseconds."""
_NAME: Final = re.compile(
    r"(?P<number>0|[1-9][0-9]*)"
    # vsqs writes a fraction where it was given a visibility timeout with one, and then overlooks the
    # message for ever. It is read here, so that such a message comes back.
    r"(\.((?P<new>new)|(?P<expiration>[0-9]+)(\.[0-9]+)?))?",
    re.ASCII,
)


class FileState(StrEnum):
    """The state of a message, by its file's name."""

    NEW = "new"
    """Being written, or left behind by a publisher that died: it was never acknowledged."""
    READY = "ready"
    LEASED = "leased"


@dataclass(frozen=True, slots=True)
class FileName:
    text: str
    """As it stands in the folder."""
    number: int
    """The message's id."""
    state: FileState
    expiration: int | None = None
    """Of a leased one: Unix time in microseconds."""


def parse(text: str) -> FileName | None:
    """Parse a name; None if it isn't one of vsqs's."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    number = int(match["number"])
    if match["new"]:
        return FileName(text, number, FileState.NEW)
    if match["expiration"] is None:
        return FileName(text, number, FileState.READY)
    return FileName(text, number, FileState.LEASED, in_micros(int(match["expiration"])))


def new(number: int) -> str:
    return f"{number}.new"


def ready(number: int) -> str:
    return str(number)


def leased(number: int, expiration: int) -> str:
    return f"{number}.{expiration}"


def in_micros(time: int) -> int:
    """Return a time of a name in microseconds, from either unit."""
    return time * 1_000 if time in _MILLISECONDS else time
