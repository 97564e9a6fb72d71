"""Makes a failing history as small as it gets: fewer lines and requests, earlier deaths, fewer losses.

Delta debugging after Zeller: parts are left out as long as what is left fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from acts import Act, Crash, Death, Fail, History, Line, Opening, Place, Plot, Trouble, Turn
from cuts import KILL, Bytes, Cut, Keep
from promises import Kind
from shared_telling import tell_shared
from telling import BrokenStory, Told, tell

MOST_TELLINGS = 3_000

Fails = Callable[[History], BrokenStory | None]


def tell_any(history: History) -> Told:
    """Tell it to its end, whether it is about one engine or about several; raises `BrokenStory`."""
    return tell(history) if history.plot.engines == 1 else tell_shared(history)[0]


def failure(history: History) -> BrokenStory | None:
    """How the history fails, if it does."""
    try:
        tell_any(history)
    except BrokenStory as broken:
        return broken
    return None


def smallest(broken: BrokenStory, fails: Fails = failure) -> BrokenStory:
    """A failure of the same kind, by a history of which nothing can be left out.

    `broken` itself if that can't be shown again.
    """
    return _Shrinking(broken, fails).shrink()


def command_for(history: History) -> str:
    """What shows the failure again."""
    return f"SPOOLRACK_STORY='{history}' .venv/bin/python -m pytest tests/crash/test_crashes.py"


class _Shrinking:
    def __init__(self, broken: BrokenStory, fails: Fails) -> None:
        self._kind: Kind = broken.kind
        self._fails = fails
        self._left = MOST_TELLINGS
        self._best = broken

    def shrink(self) -> BrokenStory:
        if not self._is_kept(self._best.history):
            return self._best
        while self._shrink_lines() or self._simplify():
            pass
        return self._best

    def _is_kept(self, history: History) -> bool:
        """Whether it fails in the same way; it is the best one then."""
        if self._left <= 0:
            return False
        self._left -= 1
        found = self._fails(history)
        if found is None or found.kind is not self._kind:
            return False
        self._best = found
        # What was told until then is mostly enough; but a failure in the finale needs what came last.
        if found.history != history and self._fails(found.history) is None:
            found.history = history
        return True

    def _shrink_lines(self) -> bool:
        """Leave out ever smaller runs of lines."""
        has_shrunk = False
        size = max(1, len(self._best.history.lines) // 2)
        while size:
            at = 0
            while at < len(self._best.history.lines):
                history = self._best.history
                lines = history.lines[:at] + history.lines[at + size :]
                if self._is_kept(replace(history, lines=lines)):
                    has_shrunk = True
                else:
                    at += size
            size //= 2
        return has_shrunk

    def _simplify(self) -> bool:
        """Make one thing simpler; False if all is as simple as it gets."""
        history = self._best.history
        for plot in _simpler_plots(history.plot):
            if self._is_kept(replace(history, plot=plot)):
                return True
        for at, line in enumerate(history.lines):
            for simpler in _simpler_lines(line):
                lines = (*history.lines[:at], simpler, *history.lines[at + 1 :])
                if self._is_kept(replace(history, lines=lines)):
                    return True
        return False


def _simpler_plots(plot: Plot) -> Iterator[Plot]:
    plain = Plot(engines=min(2, plot.engines))
    for name in ("engines", "relaxed", "can_sync_all", "model", "max_receives", "seed"):
        if getattr(plot, name) != getattr(plain, name):
            yield replace(plot, **{name: getattr(plain, name)})


def _simpler_lines(line: Line) -> Iterator[Line]:
    match line:
        case Crash(places=places):
            for at, place in enumerate(places):
                if at:
                    yield Crash(places[:at] + places[at + 1 :])
                for simpler in _simpler_places(place, is_first=at == 0):
                    yield Crash((*places[:at], simpler, *places[at + 1 :]))
        case Fail():
            if line.times > 1:
                yield replace(line, times=1)
            if line.cut != KILL:
                yield replace(line, cut=KILL)
            if line.skip:
                yield replace(line, skip=line.skip // 2)
                yield replace(line, skip=line.skip - 1)
        case Turn():
            if line.part == "apply":
                yield replace(line, part="")
            for acts in _fewer_acts(line.acts):
                yield replace(line, acts=acts)
        case Death():
            for simpler in _simpler_places(line.place, is_first=True):
                yield replace(line, place=simpler)
        case Trouble():
            if line.times > 1:
                yield replace(line, times=1)
            if line.skip:
                yield replace(line, skip=line.skip // 2)
                yield replace(line, skip=line.skip - 1)
        case Opening():
            pass
        case _:
            yield from _fewer_acts(line)


def _fewer_acts(acts: tuple[Act, ...]) -> Iterator[tuple[Act, ...]]:
    """Without one of them, or with a simpler one."""
    for at, act in enumerate(acts):
        if len(acts) > 1:
            yield acts[:at] + acts[at + 1 :]
        for simple in _simpler_acts(act):
            yield (*acts[:at], simple, *acts[at + 1 :])


def _simpler_places(place: Place, *, is_first: bool) -> Iterator[Place]:
    if place.what is not None and is_first:
        yield replace(place, what=None)
    if place.changes:
        yield replace(place, changes=place.changes // 2)
        yield replace(place, changes=place.changes - 1)
    for cut in _simpler_cuts(place.cut):
        yield replace(place, cut=cut)


def _simpler_cuts(cut: Cut) -> Iterator[Cut]:
    """A kill is the simplest; then few losses, then few survivors, the files whole."""
    if cut == KILL:
        return
    yield KILL
    whole = (Bytes.WHOLE,)
    if cut.keep is not Keep.ALL:
        yield Cut(Keep.ALL, (), cut.bytes)
    if cut.bytes != whole:
        yield replace(cut, bytes=whole)
        for one in dict.fromkeys(cut.bytes):
            if cut.bytes != (one,):
                yield replace(cut, bytes=(one,))
    match cut.keep:
        case Keep.ONLY:
            yield Cut(Keep.NONE, (), cut.bytes)
            if cut.numbers:
                lost = sorted(set(range(max(cut.numbers))) - set(cut.numbers))
                if len(lost) < len(cut.numbers):
                    yield Cut(Keep.BUT, tuple(lost), cut.bytes)
            yield from _with_fewer(cut)
        case Keep.BUT:
            yield from _with_fewer(cut)
        case _:
            pass


def _with_fewer(cut: Cut) -> Iterator[Cut]:
    for at in range(len(cut.numbers)):
        yield replace(cut, numbers=cut.numbers[:at] + cut.numbers[at + 1 :])


_SIMPLEST: dict[str, tuple[int | str, ...]] = {
    "send": ("q", 1, 5, 0),
    "receive": (0, "q", 1, 0),
    "delete": (0, "held", 0, 1),
    "delete-id": ("q", 0, 1),
    "change": (0, "held", 0, 1, 0),
    "give-back": (0, "held", 0, 1),
    "put": ("q", 5),
    "pass": (1,),
    "later": (2_000,),
}


def _simpler_acts(act: Act) -> Iterator[Act]:
    """Each argument as in the simplest act of its kind, or nearer to it."""
    for at, plain in enumerate(_SIMPLEST.get(act.word, ())):
        here = act.args[at]
        if here == plain:
            continue
        yield Act(act.word, (*act.args[:at], plain, *act.args[at + 1 :]))
        if isinstance(here, int) and isinstance(plain, int) and here > plain + 1 and here < 100:
            yield Act(act.word, (*act.args[:at], here - 1, *act.args[at + 1 :]))
