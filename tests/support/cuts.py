"""Power cuts: which of the changes that weren't synced survive, and what is in the files.

A cut is a value with a text, so that a history can be told again. The changes are numbered from 0 in
the order in which they were made.

    kill                       no power cut: the process alone dies
    all | none                 every change survives, or none
    first=3                    the first three
    only=1,4 | but=2           these alone; all but these
    some=77                    by chance, from this seed; so are the files

and after all but the first, what is in each file that wasn't synced, the last word for the rest:
`whole`, `empty`, `half`, `zeros`, or several, as in `whole,half`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from random import Random

FEW_CHANGES = 5
"""Up to so many changes, every subset of them is tried."""


class Model(Enum):
    ORDERED = "ordered"
    ANY_SUBSET = "any-subset"


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


class Keep(Enum):
    ALL = "all"
    NONE = "none"
    FIRST = "first"
    ONLY = "only"
    BUT = "but"
    SOME = "some"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Cut:
    keep: Keep
    numbers: tuple[int, ...] = ()
    bytes: tuple[Bytes, ...] = (Bytes.WHOLE,)

    def kept(self, pending: int, model: Model) -> frozenset[int]:
        """Return the numbers of the changes that survive; with an ordered journal they are a prefix."""
        every = range(pending)
        match self.keep:
            case Keep.ALL | Keep.KILL:
                kept = frozenset(every)
            case Keep.NONE:
                kept = frozenset()
            case Keep.FIRST:
                kept = frozenset(every[: self.numbers[0]])
            case Keep.ONLY:
                kept = frozenset(self.numbers) & frozenset(every)
            case Keep.BUT:
                kept = frozenset(every) - frozenset(self.numbers)
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

    def explicit(self, pending: int, files: int, model: Model) -> Cut:
        """Return the same for this disk, without chance."""
        if self.keep is not Keep.SOME:
            return self
        kept = sorted(self.kept(pending, model))
        return Cut(Keep.ONLY, tuple(kept), tuple(self.contents(files)) or (Bytes.WHOLE,))

    def __str__(self) -> str:
        if self.keep is Keep.KILL:
            return "kill"
        numbers = ",".join(map(str, self.numbers))
        # An empty list is still one: `only=` keeps nothing.
        has_numbers = self.keep in (Keep.FIRST, Keep.ONLY, Keep.BUT, Keep.SOME)
        keep = f"{self.keep.value}={numbers}" if has_numbers else self.keep.value
        return keep if self.keep is Keep.SOME else f"{keep} {','.join(b.value for b in self.bytes)}"


KILL = Cut(Keep.KILL)


def parse_cut(words: list[str]) -> Cut:
    """Return the cut that the first one or two of `words` name; they are taken off."""
    word, _, numbers = words.pop(0).partition("=")
    keep = Keep(word)
    given = tuple(int(number) for number in numbers.split(",") if number)
    if keep in (Keep.KILL, Keep.SOME):
        return Cut(keep, given)
    return Cut(keep, given, tuple(map(Bytes, words.pop(0).split(","))))


def every_cut(pending: int, files: int) -> Iterator[Cut]:
    """Yield the cuts that are tried one by one where chance must not choose.

    All changes, none, each prefix, each one alone and all but each; every subset of a few. The
    content of files is tried in full with all changes, and in turn with the rest.
    """
    kinds = list(Bytes) if files else [Bytes.WHOLE]
    for kind in kinds:
        yield Cut(Keep.ALL, (), (kind,))
    if files > 1:
        # The last one torn and the others whole, and the other way round.
        yield Cut(Keep.ALL, (), (*[Bytes.WHOLE] * (files - 1), Bytes.HALF))
        yield Cut(Keep.ALL, (), (Bytes.HALF, Bytes.WHOLE))
    if not pending:
        return
    yield Cut(Keep.NONE)
    for turn, kept in enumerate(_subsets(pending)):
        yield Cut(Keep.ONLY, kept, (kinds[turn % len(kinds)],))


def _subsets(pending: int) -> Iterator[tuple[int, ...]]:
    """Without the full and the empty one."""
    every = range(pending)
    if pending <= FEW_CHANGES:
        for size in range(1, pending):
            yield from combinations(every, size)
        return
    seen: set[tuple[int, ...]] = set()
    for kept in (
        *(tuple(every[:size]) for size in range(1, pending)),
        *((one,) for one in every),
        *(tuple(number for number in every if number != one) for one in every),
    ):
        if kept not in seen:
            seen.add(kept)
            yield kept
