"""Power cuts: which of the changes that weren't synced survive, and what is in the files.

The changes are numbered from 0 in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random


class Model(Enum):
    ORDERED = "ordered"
    ANY_SUBSET = "any-subset"


SECTOR = 512
"""Bytes that a disk writes whole."""


class Bytes(Enum):
    WHOLE = "whole"
    EMPTY = "empty"
    HALF = "half"
    ZEROS = "zeros"

    def of(self, content: bytes) -> bytes:
        match self:
            case Bytes.WHOLE:
                return content
            case Bytes.EMPTY:
                return b""
            case Bytes.HALF:
                return content[: len(content) // 2]
            case Bytes.ZEROS:
                return bytes(len(content))

    def over(self, old: bytes, new: bytes) -> bytes:
        """Return what is in a file whose bytes were overwritten: each sector is the old or the new one.
        Of the kinds that are no whole write one has its beginning, and one its end."""
        sectors = -(-len(new) // SECTOR)
        match self:
            case Bytes.WHOLE:
                return new
            case Bytes.EMPTY:
                return old
            case Bytes.HALF:
                at = sectors // 2 * SECTOR
                return new[:at] + old[at:]
            case Bytes.ZEROS:
                at = (sectors - 1) * SECTOR
                return old[:at] + new[at:]


class Keep(Enum):
    ALL = "all"
    NONE = "none"
    ONLY = "only"
    """Those of the numbers."""
    SOME = "some"
    """By chance, from the first number as a seed; so is the content of the files."""


@dataclass(frozen=True, slots=True)
class Cut:
    keep: Keep
    numbers: tuple[int, ...] = ()
    bytes: tuple[Bytes, ...] = (Bytes.WHOLE,)
    """What is in each file that wasn't synced; the last one counts for the rest."""

    def kept(self, pending: int, model: Model) -> frozenset[int]:
        """Return the numbers of the changes that survive; with an ordered journal they are a prefix."""
        every = range(pending)
        match self.keep:
            case Keep.ALL:
                kept = frozenset(every)
            case Keep.NONE:
                kept = frozenset()
            case Keep.ONLY:
                kept = frozenset(self.numbers) & frozenset(every)
            case Keep.SOME:
                random = Random(self.numbers[0])
                if model is Model.ORDERED:
                    return frozenset(every[: random.randint(0, pending)])
                share = random.choice((0.0, 0.5, 0.5, 0.9, 1.0))
                kept = frozenset(number for number in every if random.random() < share)
        if model is Model.ORDERED:
            first_lost = next((number for number in every if number not in kept), pending)
            return frozenset(every[:first_lost])
        return kept

    def contents(self, files: int) -> Iterator[Bytes]:
        """Yield what is in each of so many files."""
        if self.keep is Keep.SOME:
            random = Random(f"bytes {self.numbers[0]}")
            kinds = list(Bytes)
            yield from (random.choice(kinds) for _ in range(files))
            return
        for at in range(files):
            yield self.bytes[min(at, len(self.bytes) - 1)]
