"""How many ready messages are how old: Postfix's qshape, from names in memory. Pure.

An id begins with the time of its send, and names stand in the order of their ids, so that the messages
between two moments are counted by two searches. For singles that is exact. A batch folder stands by its
first message, with as many as it has: up to `WEIGHED` folders between two moments are added up, of more
so many are taken, evenly spread, and the sum is estimated from these and then brought to what is known
of all folders together. Where folders differ in size as much as their mean, that errs by about 1 in
the square root of `WEIGHED`: 6 %. A million messages cost 0.2 ms, and 3 ms in a quarter of a million
folders: no more than some thousand names are looked at, however they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from ..model.clock import Millis
from ..model.overview import Ages
from .order import SortedNames
from .ready import Ready

WEIGHED: Final = 256
"""Folders that are looked at, between two moments."""


def ages_of(ready: Ready, now: Millis, bounds: Sequence[Millis]) -> Ages:
    """The messages by age at the Unix time `now`; `bounds` are ages, which ascend."""
    # Names in the order of ids are the oldest first.
    starts = [_id_from(now - bound) for bound in reversed(bounds)]
    singles, folders, unlisted = ready.singles_in_order, ready.firsts_in_order, ready.unlisted_in_order
    counts = _between(singles, starts)
    known = ready.count - len(singles)
    if known > 0:
        weighed = [
            _weigh(folders, starts, ready.size_of_folder),
            _weigh(unlisted, starts, ready.size_of_unlisted),
        ]
        exact = [sum(each) for each in zip(*(exact for exact, _ in weighed), strict=True)]
        guessed = [sum(each) for each in zip(*(guessed for _, guessed in weighed), strict=True)]
        for at, more in enumerate(exact):
            counts[at] += more
        for at, more in enumerate(_scaled(guessed, known - sum(exact))):
            counts[at] += more
        is_exact = not any(guessed)
    else:
        is_exact = True
    return Ages(counts=tuple(reversed(counts)), is_exact=is_exact)


def _id_from(moment: int) -> str:
    """What stands below all ids of the Unix time `moment` and later, and above the earlier ones."""
    digits = f"{max(moment, 0):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _between(names: SortedNames, starts: Sequence[str]) -> list[int]:
    places = [0, *names.counts_below(starts), len(names)]
    return [end - first for first, end in pairwise(places)]


def _weigh(
    names: SortedNames, starts: Sequence[str], size: Callable[[str], int]
) -> tuple[list[int], list[float]]:
    """The messages between the bounds: those that were counted, and those that were estimated."""
    exact: list[int] = []
    guessed: list[float] = []
    first = 0
    for count in _between(names, starts):
        looked_at = names.sample(first, first + count, WEIGHED)
        weight = sum(map(size, looked_at))
        is_all = count <= WEIGHED
        exact.append(weight if is_all else 0)
        guessed.append(0.0 if is_all else weight / len(looked_at) * count)
        first += count
    return exact, guessed


def _scaled(guessed: Sequence[float], total: int) -> list[int]:
    """Whole numbers in the proportions of `guessed` whose sum is `total`."""
    whole = sum(guessed)
    if whole <= 0 or total <= 0:
        return [0] * len(guessed)
    scaled = []
    passed, given = 0.0, 0
    for each in guessed:
        passed += each
        scaled.append(round(passed / whole * total) - given)
        given += scaled[-1]
    return scaled
