"""Members: the messages of a batch that a name lists.

In memory they are a bit mask, of which bit i stands for the message with index i. In a name a mask has
one spelling: ranges (`,i0-9.12`), or, where that is shorter, a bitmap (`,b<first>.<digits>`: five bits
to a digit, lowest first, from the first member on). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

MOST: Final = 1_000
"""Messages of one batch."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_VALUE: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_RANGES: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:\.[0-9]+(?:-[0-9]+)?)*")
_BITMAP: Final = re.compile(r"([0-9]+)\.([0-9a-v]+)")


class NotMembers(ValueError):
    """The text lists no members, or not in their one spelling."""


def all_of(count: int) -> int:
    """Return the mask of a batch's `count` messages."""
    return (1 << count) - 1


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each unbroken run of members, in order."""
    start = 0
    while mask:
        skipped = (mask & -mask).bit_length() - 1
        mask >>= skipped
        length = (~mask & (mask + 1)).bit_length() - 1
        mask >>= length
        start += skipped
        yield start, start + length - 1
        start += length


_RUNS_LIKE_A_RENAME: Final = 8


def effort(mask: int) -> int:
    """Return the cost of moving the members, in renames: a list of many runs costs more."""
    return 1 + (mask ^ mask << 1).bit_count() // (2 * _RUNS_LIKE_A_RENAME)


def indexes(mask: int) -> Iterable[int]:
    """Return each member's index, in order."""
    if mask & (mask + (mask & -mask)) == 0:
        return range((mask & -mask).bit_length() - 1, mask.bit_length()) if mask else ()
    return chain.from_iterable(range(first, last + 1) for first, last in runs(mask))


def lowest(mask: int) -> int:
    """Return the lowest index in a mask that isn't empty."""
    return (mask & -mask).bit_length() - 1


def first_of(mask: int, count: int) -> int:
    """Return the mask of the `count` lowest members; all of them if there are no more."""
    if mask.bit_count() <= count:
        return mask
    lowest_members = 0
    for first, last in runs(mask):
        length = last - first + 1
        if length >= count:
            return lowest_members | (all_of(count) << first)
        lowest_members |= all_of(length) << first
        count -= length
    return lowest_members


def below(mask: int, end: int) -> int:
    """Return the members with an index below `end`."""
    return mask & all_of(end)


def to_text(mask: int) -> str:
    """Return the tag that lists `mask`, which isn't empty."""
    ranges = "i" + ".".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in runs(mask)
    )
    start = lowest(mask)
    if len(ranges) < _bitmap_length(mask, start):
        return ranges
    digits, rest = [], mask >> start
    while rest:
        digits.append(_DIGITS[rest & 31])
        rest >>= 5
    bitmap = f"b{start}.{''.join(digits)}"
    return ranges if len(ranges) <= len(bitmap) else bitmap


def from_text(text: str) -> int:
    """Return the mask that a tag lists; raise `NotMembers` for any other text."""
    mask = _ranges(text[1:]) if text[:1] == "i" else _bitmap(text[1:]) if text[:1] == "b" else 0
    if not mask or mask.bit_length() > MOST or to_text(mask) != text:
        raise NotMembers(text)
    return mask


def pieces(mask: int, room: int) -> list[int]:
    """Divide `mask` so that each piece's tag has at most `room` characters, which must be 8 or more."""
    parts, rest = [], mask
    while rest:
        piece = rest
        while len(to_text(piece)) > room:
            piece = first_of(piece, piece.bit_count() // 2)
        parts.append(piece)
        rest &= ~piece
    return parts


def _bitmap_length(mask: int, start: int) -> int:
    return 2 + len(str(start)) + -(-(mask.bit_length() - start) // 5)


def _ranges(text: str) -> int:
    if not _RANGES.fullmatch(text) or len(text) > 4 * MOST:
        return 0
    mask = 0
    for part in text.split("."):
        first, _, last = part.partition("-")
        start, end = int(first[:4]), int((last or first)[:4])
        if start > end or end >= MOST:
            return 0
        mask |= all_of(end - start + 1) << start
    return mask


def _bitmap(text: str) -> int:
    match = _BITMAP.fullmatch(text)
    if match is None or len(match[1]) > 3 or len(match[2]) > MOST:
        return 0
    mask = 0
    for digit in reversed(match[2]):
        mask = mask << 5 | _VALUE[digit]
    return mask << int(match[1])
