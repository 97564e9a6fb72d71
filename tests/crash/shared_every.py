"""All pairs of operations of two engines on one disk, in every setting, by number; each in parts.

The first engine applies one operation, then the second applies another; either is synced and finished
in one of a few orders, and what comes afterwards is done by the second. `try_deaths` kills the first at
every place on the way, after which the second goes on alone; and cuts the power at every place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from acts import History, Line, Plot, parse_lines
from cuts import KILL, Bytes, Cut, Keep
from every_history import SETTINGS
from power_disk import PowerDisk
from shared_telling import tell_shared
from step_disk import Step, Torn
from telling import Told
from trying import OFTEN, EveryDeath

SCENES = (
    "a: send q 1 5 0; b: send q 3 5 0",
    "b: send q 1 5 0; a: send q 3 5 0; a: receive 0 q 9 0",
    "a: send-id q 3 5 1; b: delete-id q 0 1; b: reap",
    # A batch that some were taken out of, one of them is leased; one delayed.
    "a: send q 3 5 0; b: receive 0 q 1 0; a: receive 0 q 1 0; b: delete 0 held 0 1; "
    "a: send q 2 5 10000",
    # One has reserved a set, the other another.
    "a: send q 3 5 0; b: send q 3 5 0; a: reserve s q 0 4 0; b: reserve s q 1 9 60000; a: tick",
)
ALPHABET = (
    "send q 1 5 0",
    "send q 3 5 0",
    "send q 2 5 10000",
    "send-id q 1 5 0",
    "send-id q 3 5 0",
    "receive 0 q 1 0",
    "receive 1 q 9 0",
    "send q 1 5 0 + receive 0 q 9 0",
    "send q 3 5 0 + receive 1 q 9 0",
    "delete 0 held 0 1",
    "delete 0 held 0 0",
    "delete-id q 0 1",
    "delete-id q 0 9",
    "change 0 held 0 1 60000",
    "change 0 held 0 0 0",
    "give-back 0 held 0 0",
    "purge q",
    "delete-queue q",
    "create q",
    "update q 10000",
    "reserve s q 0 9 0",
    "confirm s 0 90000",
    "mark-read s 0",
    "release s 0",
    "commit s 0",
    "tick",
)
ORDERS = (
    "{x}: apply {X}; {y}: {Y}; {x}: sync; {x}: finish",
    "{x}: apply {X}; {y}: apply {Y}; {x}: sync; {y}: sync; {x}: finish; {y}: finish",
    "{x}: apply {X}; {y}: apply {Y}; {y}: sync; {y}: finish; {x}: sync; {x}: finish",
    "{x}: apply {X}; {x}: sync; {y}: {Y}; {x}: finish",
    "{y}: deafen; {x}: apply {X}; {y}: {Y}; {x}: sync; {x}: finish",
)
AFTERWARDS = (
    "{y}: tick",
    "{y}: receive 1 q 9 0; {y}: tick",
    "{y}: lose; {y}: tick",
    "open {x}; {y}: tick",
)
"""What is done by the second, also if the first has died; mostly, it takes over."""
ACTORS = ("ab", "ba")
TOTAL = len(SCENES) * len(ALPHABET) ** 2 * len(ORDERS) * len(AFTERWARDS) * len(ACTORS) * len(SETTINGS)
_STRIDE = 1_000_003
"""A prime: its multiples go through all numbers before one comes again."""


@dataclass(frozen=True, slots=True)
class SharedWorkload:
    history: History
    first: int
    """The number of the line from which on everything is tried."""
    then: int
    """The number of the line with which the rest begins."""
    who: str
    """Who is killed."""


def workload_of(
    pair: Sequence[int], *, scene: int, order: int, afterwards: int, actors: int, setting: int
) -> SharedWorkload:
    who, other = tuple(ACTORS[actors])
    words = {"x": who, "y": other, "X": ALPHABET[pair[0]], "Y": ALPHABET[pair[1]]}
    can_sync_all, relaxed = SETTINGS[setting]
    before = _parsed(SCENES[scene])
    during = _parsed(ORDERS[order].format(**words))
    after = _parsed(AFTERWARDS[afterwards].format(**words))
    plot = Plot(can_sync_all=can_sync_all, relaxed=relaxed, engines=2)
    history = History(plot, (*before, *during, *after))
    return SharedWorkload(history, len(before), len(before) + len(during), who)


def of_one_operation() -> Iterator[SharedWorkload]:
    """Each operation by itself, in each scene; the other engine does nothing but take over."""
    others = ALPHABET.index("tick")
    for turn, (letter, scene) in enumerate(product(range(len(ALPHABET)), range(len(SCENES)))):
        yield workload_of(
            (letter, others),
            scene=scene,
            order=turn % len(ORDERS),
            afterwards=turn % len(AFTERWARDS),
            actors=turn % len(ACTORS),
            setting=turn % 2,
        )


def some_pairs(count: int) -> Iterator[SharedWorkload]:
    """So many pairs of operations, each in one of the ways."""
    return map(spread, range(count))


def spread(number: int) -> SharedWorkload:
    """As many different ones as there are, but neighbouring numbers give ones far apart."""
    number = number * _STRIDE % TOTAL
    number, scene = divmod(number, len(SCENES))
    number, order = divmod(number, len(ORDERS))
    number, afterwards = divmod(number, len(AFTERWARDS))
    number, actors = divmod(number, len(ACTORS))
    number, setting = divmod(number, len(SETTINGS))
    pair = divmod(number, len(ALPHABET))
    return workload_of(
        pair, scene=scene, order=order, afterwards=afterwards, actors=actors, setting=setting
    )


class FewCuts:
    """What is tried where somebody has been killed before: all is lost that can be, or nothing is."""

    def cuts(self, step: Step, disk: PowerDisk) -> Iterator[Cut]:
        if step.torn is not Torn.HALF:
            yield Cut(Keep.NONE)
            yield Cut(Keep.ALL)
            if disk.unsynced_files:
                yield Cut(Keep.ALL, (), (Bytes.ZEROS,))

    def deeper(self, step: Step, cut: Cut) -> bool:
        return False

    def cuts_of_a_start(self) -> Iterator[Cut]:
        yield KILL


def try_deaths(work: SharedWorkload) -> Told:
    """Cut the power at every place on the way, and kill the first engine at every place of its.

    Raises `BrokenStory`.
    """
    lines = work.history.lines
    on_the_way = range(work.first, work.then)
    sum, places = tell_shared(work.history, trying=EveryDeath(OFTEN), tried=on_the_way)
    for number, death in places:
        if death.who == work.who:
            killed = replace(work.history, lines=(*lines[:number], death, *lines[number:]))
            rest = range(work.then + 1, len(lines) + 1)
            sum.add(tell_shared(killed, trying=FewCuts(), tried=rest)[0])
    return sum


@cache
def _parsed(text: str) -> tuple[Line, ...]:
    return tuple(parse_lines(text))
