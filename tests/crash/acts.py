"""What can happen in a story, as values with a text: a history is printed, cut down and told again.

    plot 5 any-subset syncfs strict 2; send q 3 5 0; crash 2 only=0 whole; receive 0 q 9 0

is a plot and its lines. A line is one commit, of one request or of several joined by `+`, or something
else that happens. What an act is about is said by numbers that fit any state, such as "the third of
the receipts that consumer 0 holds, counted round", so that a line can be dropped and the rest be told.

Where the plot has several engines on one disk, they are called a, b and c, and a line says whose it is.
Each can stop after the first or the second part of a commit, while others go on:

    plot 5 any-subset syncfs strict 2 of 2; a: apply send q 3 5 0; b: tick; die a 1 kill; a: sync
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuts import Cut, Model, parse_cut
from step_disk import Fault, Torn

REQUESTS = {
    "send": "queue count size delay",
    "send-id": "queue count size first",
    "receive": "consumer queue most visibility",
    "delete": "consumer whose pick count",
    "delete-id": "queue pick count",
    "change": "consumer whose pick count visibility",
    "give-back": "consumer whose pick count",
    "reserve": "stream queue seq most hold",
    "confirm": "stream seq hold",
    "release": "stream seq",
    "mark-read": "stream seq",
    "commit": "stream up-to",
    "purge": "queue",
    "delete-queue": "queue",
    "create": "queue",
    "update": "queue timeout",
    "stage": "stage chunk queue count delay",
    "publish": "writer step stages",
    "abort": "stage",
    "redrive": "queue destination rate",
    "end-redrive": "queue",
}
"""Requests, with what their arguments say. `whose` is `held` or `old`: of the receipts that the
consumer believes in, or of those that it has used up. A count of 0 is the whole batch of the one
picked. A visibility of 0 is the queue's own in a receive, and a release in a change, and
a hold of 0 is the usual one. Each letter of
`stages` is a stage, and the epoch is so many `step`s after the writer's last. `send-id` gives each
message one of a few deduplication ids, counted round from the first. A `redrive` whose destination is
`-` moves each message back to the queue that it came from; one that goes on can be ended."""
EVENTS = {
    "pass": "millis",
    "later": "millis",
    "wall": "millis",
    "tick": "",
    "reap": "",
    "put": "queue size",
    "heal": "",
    "heed": "",
    "lose": "",
    "deafen": "",
}
"""What else happens. `later` ticks, lets time pass, and ticks; `put` puts a file into `new/` by
hand. With several engines, one can `heed` what the others did, or `lose` all that it hasn't heard yet;
one that is `deafen`ed isn't told of anything any more, and lists the folders every second."""
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


@dataclass(frozen=True, slots=True)
class Turn:
    """One of several engines does something: a whole commit, or the next part of one."""

    who: str
    part: str
    """`apply`, `sync` or `finish`; empty: all of it."""
    acts: tuple[Act, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (f"{self.who}:", self.part, " + ".join(map(str, self.acts)))))


@dataclass(frozen=True, slots=True)
class Death:
    """One of several dies during what it does next: after a kill the others go on; after a power cut
    the first one starts again."""

    who: str
    place: Place

    def __str__(self) -> str:
        return f"die {self.who} {self.place}"


@dataclass(frozen=True, slots=True)
class Opening:
    """One of several that is dead, or failed, starts again, beside those who live."""

    who: str

    def __str__(self) -> str:
        return f"open {self.who}"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Calls of one of several fail, as with `Fail`; the others' don't."""

    who: str
    fault: Fault
    skip: int
    times: int

    def __str__(self) -> str:
        return f"trouble {self.who} {self.fault.value} {self.skip} {self.times}"


SharedLine = Turn | Death | Opening | Trouble
Line = tuple[Act, ...] | Crash | Fail | SharedLine
PARTS = ("apply", "sync", "finish")
ENGINES = "abc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What kind of root the story is about."""

    seed: int = 1
    """Of ids and tokens."""
    model: Model = Model.ANY_SUBSET
    can_sync_all: bool = True
    relaxed: bool = False
    max_receives: int = 2
    engines: int = 1

    def __str__(self) -> str:
        syncs = "syncfs" if self.can_sync_all else "fsync"
        leases = "relaxed" if self.relaxed else "strict"
        several = "" if self.engines == 1 else f" of {self.engines}"
        return f"plot {self.seed} {self.model.value} {syncs} {leases} {self.max_receives}{several}"

    @property
    def names(self) -> str:
        """Those of the engines, a letter each."""
        return ENGINES[: self.engines]


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
    if words[0].endswith(":"):
        return _parse_turn(words[0][:-1], words[1:])
    match words[0]:
        case "die":
            return Death(words[1], _parse_place(words[2:]))
        case "open":
            return Opening(words[1])
        case "trouble":
            return Trouble(words[1], Fault(words[2]), int(words[3]), int(words[4]))
        case "crash":
            places = [_parse_place(part.split()) for part in " ".join(words[1:]).split("&")]
            return Crash(tuple(places))
        case "fail":
            cut = parse_cut(words[4:])
            return Fail(Fault(words[1]), int(words[2]), int(words[3]), cut)
        case _:
            return tuple(map(parse_act, text.split("+")))


def _parse_turn(who: str, words: Sequence[str]) -> Turn:
    part, rest = (words[0], words[1:]) if words[0] in PARTS else ("", words)
    acts = " ".join(rest).split("+") if rest else ()
    return Turn(who, part, tuple(map(parse_act, acts)))


def _parse_place(words: Sequence[str]) -> Place:
    changes, _, name = words[0].partition("/")
    what: Torn | Fault | None = None
    if name:
        what = Fault(name) if name in Fault.__members__ else Torn(name)
    return Place(int(changes), what, parse_cut(list(words[1:])))


def _parse_plot(words: Sequence[str]) -> Plot:
    word, seed, model, syncs, leases, most, *several = words
    if word != "plot":
        raise ValueError(f"a history begins with its plot: {' '.join(words)}")
    return Plot(
        seed=int(seed),
        model=Model(model),
        can_sync_all=syncs == "syncfs",
        relaxed=leases == "relaxed",
        max_receives=int(most),
        engines=int(several[1]) if several else 1,
    )
