"""What can happen in a story, as values with a text: a history is printed, cut down and told again.

    plot 5 any-subset syncfs strict 2; send q 3 5 0; crash 2 only=0 whole; receive 0 q 9 0

is a plot and its lines. A line is one commit, of one request or of several joined by `+`, or something
else that happens. What an act is about is said by numbers that fit any state, such as "the third of
the receipts that consumer 0 holds, counted round", so that a line can be dropped and the rest be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuts import Cut, Model, parse_cut
from step_disk import Fault, Torn

REQUESTS = {
    "send": "queue count size delay",
    "receive": "consumer queue most visibility",
    "delete": "consumer whose pick count",
    "delete-id": "queue pick count",
    "change": "consumer whose pick count visibility",
    "give-back": "consumer whose pick count",
    "purge": "queue",
    "delete-queue": "queue",
    "create": "queue",
    "update": "queue timeout",
}
"""Requests, with what their arguments say. `whose` is `held` or `old`: of the receipts that the
consumer believes in, or of those that it has used up. A count of 0 is the whole batch of the one
picked. A visibility of 0 is the queue's own in a receive, and a release in a change."""
EVENTS = {
    "pass": "millis",
    "later": "millis",
    "wall": "millis",
    "tick": "",
    "reap": "",
    "put": "queue size",
    "heal": "",
}
"""What else happens. `later` ticks, lets time pass, and ticks; `put` puts a file into `new/` by
hand."""
WORDS = REQUESTS | EVENTS


@dataclass(frozen=True, slots=True)
class Act:
    word: str
    args: tuple[int | str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.args) != len(WORDS[self.word].split()):
            raise ValueError(f"{self.word} takes {WORDS[self.word] or 'nothing'}: {self.args}")

    def __str__(self) -> str:
        return " ".join(map(str, (self.word, *self.args)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process dies, and what it leaves."""

    changes: int
    """It dies after so many changes of the disk; with a fault, after so many calls that this fits."""
    what: Torn | Fault | None
    """How far the creation of a file has come; or that a call fails, which must end a start if
    anything does, and a kill follows."""
    cut: Cut

    @property
    def torn(self) -> Torn | None:
        return self.what if isinstance(self.what, Torn) else None

    def __str__(self) -> str:
        what = "" if self.what is None else f"/{self.what.value}"
        return f"{self.changes}{what} {self.cut}"


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies during what follows, and with more places than one at its next starts, too."""

    places: tuple[Place, ...]

    def __str__(self) -> str:
        return f"crash {' & '.join(map(str, self.places))}"


@dataclass(frozen=True, slots=True)
class Fail:
    """Calls fail during what follows: those that `fault` fits, after `skip`, `times` of them."""

    fault: Fault
    skip: int
    times: int
    cut: Cut
    """What is left if a sync fails, which ends the process."""

    def __str__(self) -> str:
        return f"fail {self.fault.value} {self.skip} {self.times} {self.cut}"


Line = tuple[Act, ...] | Crash | Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What kind of root the story is about."""

    seed: int = 1
    """Of ids and tokens."""
    model: Model = Model.ANY_SUBSET
    can_sync_all: bool = True
    relaxed: bool = False
    max_receives: int = 2

    def __str__(self) -> str:
        syncs = "syncfs" if self.can_sync_all else "fsync"
        leases = "relaxed" if self.relaxed else "strict"
        return f"plot {self.seed} {self.model.value} {syncs} {leases} {self.max_receives}"


@dataclass(frozen=True, slots=True)
class History:
    plot: Plot
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "; ".join([str(self.plot), *map(text_of, self.lines)])


def text_of(line: Line) -> str:
    return " + ".join(map(str, line)) if isinstance(line, tuple) else str(line)


def parse_history(text: str) -> History:
    """The history that prints as `text`; raises `ValueError`."""
    first, *rest = [part.strip() for part in text.split(";") if part.strip()]
    return History(_parse_plot(first.split()), tuple(parse_lines("; ".join(rest))))


def parse_lines(text: str) -> list[Line]:
    return [_parse_line(part.strip()) for part in text.split(";") if part.strip()]


def parse_act(text: str) -> Act:
    word, *args = text.split()
    return Act(word, tuple(int(arg) if arg.lstrip("-").isdigit() else arg for arg in args))


def _parse_line(text: str) -> Line:
    words = text.split()
    match words[0]:
        case "crash":
            places = [_parse_place(part.split()) for part in " ".join(words[1:]).split("&")]
            return Crash(tuple(places))
        case "fail":
            cut = parse_cut(words[4:])
            return Fail(Fault(words[1]), int(words[2]), int(words[3]), cut)
        case _:
            return tuple(map(parse_act, text.split("+")))


def _parse_place(words: Sequence[str]) -> Place:
    changes, _, name = words[0].partition("/")
    what: Torn | Fault | None = None
    if name:
        what = Fault(name) if name in Fault.__members__ else Torn(name)
    return Place(int(changes), what, parse_cut(list(words[1:])))


def _parse_plot(words: Sequence[str]) -> Plot:
    word, seed, model, syncs, leases, most = words
    if word != "plot":
        raise ValueError(f"a history begins with its plot: {' '.join(words)}")
    return Plot(
        seed=int(seed),
        model=Model(model),
        can_sync_all=syncs == "syncfs",
        relaxed=leases == "relaxed",
        max_receives=int(most),
    )
