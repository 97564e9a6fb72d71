"""All short histories: every sequence of up to four operations, in every setting, by number.

A history is a scene and a few lines from an alphabet. What can happen in its last line is tried at
every place; what can happen before is the business of the shorter histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from acts import History, Line, Plot, parse_lines

LONGEST = 4

SCENES = (
    "",
    # One single message, one batch.
    "send q 1 5 0; send q 3 5 0; reap",
    # The same with deduplication ids, one of them in a segment only.
    "send-id q 1 5 0; send-id q 3 5 1; delete-id q 0 1; reap",
    # Both leased: nothing is left to be received, all can be changed.
    "send q 1 5 0; send q 3 5 0; receive 0 q 9 0; reap",
    # A batch that some were taken out of, one of them is leased; one delayed.
    "send q 3 5 0; receive 0 q 1 0; receive 0 q 1 0; delete 0 held 0 1; send q 2 5 10000; reap",
    # Two sets are reserved, of a batch and of what was taken from another.
    "send q 3 5 0; receive 0 q 1 0; change 0 held 0 1 0; send q 3 5 0; reserve s q 0 4 0; "
    "reserve s q 1 9 60000",
    # Two stages, of two queues; a writer who has published before.
    "stage s 0 q 2 0; publish 0 1 s; stage s 0 q 2 0; stage s 1 d 1 10000; stage t 0 q 1 0",
)
ALPHABET = (
    "send q 1 5 0",
    "send q 3 5 0",
    "send q 2 5 10000",
    "send-id q 1 5 0",
    "send-id q 3 5 0",
    "receive 0 q 1 0",
    "receive 0 q 9 0",
    "receive 1 q 9 0",
    "delete 0 held 0 1",
    "delete 0 held 0 0",
    "delete-id q 0 1",
    "delete-id q 0 9",
    "change 0 held 0 1 60000",
    "change 0 held 0 0 60000",
    "change 0 held 0 1 0",
    "change 0 held 0 0 0",
    "give-back 0 held 0 1",
    "give-back 0 held 0 0",
    "purge q",
    "delete-queue q",
    "create q",
    "update q 10000",
    "later 30000",
    "later 90000000",
    "reap",
    "put q 5",
    "reserve s q 0 9 0",
    "reserve s q 1 2 60000",
    "confirm s 0 90000",
    "confirm s 0 5000",
    "mark-read s 0",
    "release s 0",
    "commit s 0",
    "commit s 1",
    "stage s 2 q 2 0",
    "stage s 0 q 2 0",
    "publish 0 1 st",
    "publish 0 0 s",
    "abort s",
)
AWAITED = (
    "send q 1 5 0 + receive 0 q 9 0",
    "send q 3 5 0 + receive 0 q 9 0",
    # Each is leased by another, and one is left for its queue.
    "send-id q 1 5 0 + send q 8 5 0 + send r 1 5 0 + receive 0 q 1 5000 + receive 1 q 8 0",
)
"""What is received in the commit that sends it, if nothing is ready before."""
SETTINGS = tuple((sync, relaxed) for relaxed in (False, True) for sync in (True, False))


@dataclass(frozen=True, slots=True)
class Workload:
    history: History
    tried: Line
    """The last line, in which everything is tried."""


def count(length: int) -> int:
    """How many there are of this length."""
    return len(SETTINGS) * len(SCENES) * prod([len(ALPHABET)] * length)


TOTAL = sum(count(length) for length in range(1, LONGEST + 1))
_STRIDE = 2_400_011
"""A prime: its multiples go through all numbers before one comes again."""


def workload(number: int) -> Workload:
    """The one with this number, from 0 on, the shorter ones first."""
    length = 1
    while number >= count(length):
        number -= count(length)
        length += 1
    number, setting = divmod(number, len(SETTINGS))
    number, scene = divmod(number, len(SCENES))
    return workload_of(_sequence(number, length), scene, setting)


def spread(number: int, *, from_length: int = 1) -> Workload:
    """As many different ones as there are, but neighbouring numbers give ones far apart."""
    skipped = sum(count(length) for length in range(1, from_length))
    return workload(skipped + number * _STRIDE % (TOTAL - skipped))


def workload_of(sequence: Sequence[int], scene: int, setting: int) -> Workload:
    can_sync_all, relaxed = SETTINGS[setting]
    operations = [_parsed(ALPHABET[letter])[0] for letter in sequence]
    plot = Plot(can_sync_all=can_sync_all, relaxed=relaxed)
    lines = (*_parsed(SCENES[scene]), *operations[:-1])
    return Workload(History(plot, lines), operations[-1])


def awaited() -> Iterator[Workload]:
    """Each of `AWAITED`, in every setting, where nothing is ready; and with each operation after it."""
    for scene, text, setting in product((0, 3), AWAITED, range(len(SETTINGS))):
        (line,) = _parsed(text)
        can_sync_all, relaxed = SETTINGS[setting]
        plot = Plot(can_sync_all=can_sync_all, relaxed=relaxed)
        before = _parsed(SCENES[scene])
        yield Workload(History(plot, before), line)
        for turn, letter in enumerate(ALPHABET):
            if turn % len(SETTINGS) == setting:
                yield Workload(History(plot, (*before, line)), _parsed(letter)[0])


def sequences(length: int) -> Iterator[tuple[int, ...]]:
    """All sequences of operations of this length, by their numbers in the alphabet."""
    return product(range(len(ALPHABET)), repeat=length)


def _sequence(number: int, length: int) -> list[int]:
    letters: list[int] = []
    for _ in range(length):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(letter)
    return letters


@cache
def _parsed(text: str) -> tuple[Line, ...]:
    return tuple(parse_lines(text))
