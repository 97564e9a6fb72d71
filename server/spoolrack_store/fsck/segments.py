"""Checks `keys/`: whether what lies there is a segment, and its lines are whole.

A line at the end that is torn is none: its message is still there. One that is damaged with good ones
behind it costs the id that it stood for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..files.segments import SEGMENT_NAME
from ..model.keys import is_line
from .findings import Problem, Remedy


def problems_among(disk: Disk, listed: Iterable[Found]) -> Iterator[Problem]:
    """What is wrong with what was `listed` in `keys/`."""
    for found in listed:
        path = f"{layout.KEYS}/{found.name}"
        is_file = found.kind is Kind.FILE
        if path == layout.KEYS_LOCK and is_file:
            continue
        if not is_file or not SEGMENT_NAME.fullmatch(found.name):
            yield Problem(path=path, why="not a segment of deduplication ids")
            continue
        try:
            damaged = damaged_line(disk.read(path))
        except FileNotFoundError:
            continue  # All in it was over.
        except OSError as error:
            yield Problem(path=path, why=f"it can't be read: {error.strerror}", remedy=Remedy.HAND)
            continue
        if damaged:
            why = (
                f"its line {damaged} is damaged: the id that it stood for may be stored once more; "
                "nothing else is lost, and the file goes when all in it is over"
            )
            yield Problem(path=path, why=why, remedy=Remedy.HAND)


def damaged_line(content: bytes) -> int:
    """The number of the first damaged line that a good one follows; 0 if there is none."""
    lines = content.splitlines(keepends=True)
    damaged = 0
    for number, line in enumerate(lines, start=1):
        if not is_line(line):
            damaged = damaged or number
        elif damaged:
            return damaged
    return 0
