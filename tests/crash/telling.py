"""Tells a history: its lines one after the other, and where it says so, the process dies.

Besides the crashes of the history, disks that other crashes would have left can be judged on the way
(`Trying`). Whatever breaks a promise is raised with the history that leads to it, without chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from acts import Act, Crash, Fail, History, Line, Place
from cuts import KILL, Cut, Keep
from faulty_disk import Killed
from power_disk import PowerDisk
from promises import Broken, Kind
from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.errors import StoreError
from step_disk import Failing, Left, Step
from story import Story


@dataclass(slots=True)
class Told:
    """What was counted."""

    stories: int = 0
    crashes: int = 0
    """Disks that were started on, and judged."""
    failures: int = 0
    """Calls of the disk that failed."""
    messages: int = 0
    """Acknowledged sends."""

    def add(self, other: Told) -> None:
        self.stories += other.stories
        self.crashes += other.crashes
        self.failures += other.failures
        self.messages += other.messages


class BrokenStory(AssertionError):
    """A promise was broken; `history` shows it again."""

    def __init__(self, what: Exception, kind: Kind, history: History) -> None:
        super().__init__(str(what))
        self.kind = kind
        self.history = history


def broken_story(error: Exception, history: History) -> BrokenStory:
    """Whatever the store or the rig stumbles over is a broken promise."""
    if isinstance(error, Broken):
        return BrokenStory(error, error.kind, history)
    return BrokenStory(AssertionError(f"{type(error).__name__}: {error}"), Kind.OTHER, history)


class Trying(Protocol):
    """Which deaths are tried besides those of the history."""

    def cuts(self, step: Step, disk: PowerDisk) -> Iterable[Cut]:
        """What may be left at a place where the process may die."""

    def deeper(self, step: Step, cut: Cut) -> bool:
        """Whether the start on what is left dies everywhere, too."""

    def cuts_of_a_start(self) -> Iterable[Cut]:
        """What is left of such a start."""


def tell(
    history: History,
    *,
    trying: Trying | None = None,
    tried_from: int = 0,
    only_busy: bool = False,
) -> Told:
    """Tell it to its end; raises `BrokenStory`.

    The other deaths are tried in the lines from number `tried_from` on. With `only_busy`, a story in
    which some line has nothing to do is another one's business: it ends there, and doesn't count.
    """
    return _Teller(history, trying, tried_from, only_busy).tell()


class _Idle(Exception):
    """A line had nothing to do."""


class _Teller:
    def __init__(
        self, history: History, trying: Trying | None, tried_from: int, only_busy: bool
    ) -> None:
        self._history = history
        self._trying = trying
        self._tried_from = tried_from
        self._only_busy = only_busy
        self._told = Told()
        self._lines: list[Line] = []
        """What was told, with the crashes as they came."""
        self._crash: Crash | None = None
        """What will come."""
        self._fail: Fail | None = None
        self._line_began = 0
        """So many changes had been made."""
        self._judged: set[tuple[object, ...]] = set()
        """What was found and judged in the present line: the same again would be judged the same."""

    def tell(self) -> Told:
        try:
            self._story = Story(self._history.plot)
            for number, line in enumerate(self._history.lines):
                self._tell(line, self._trying is not None and number >= self._tried_from)
            self._end()
        except _Idle:
            return Told()
        except BrokenStory:
            raise
        except Exception as error:
            raise broken_story(error, self._so_far()) from error
        self._told.stories = 1
        self._told.messages = self._story.hearing.messages
        return self._told

    def _so_far(self) -> History:
        return replace(self._history, lines=tuple(self._lines))

    def _tell(self, line: Line, is_tried: bool) -> None:
        match line:
            case Crash():
                if self._crash is not None:
                    self._die(self._crash)
                self._arm(line)
            case Fail():
                self._lines.append(line)
                self._fail = line
                self._story.disk.failing = Failing(line.fault, line.skip, line.times)
            case _:
                self._play(line, is_tried)

    def _arm(self, crash: Crash) -> None:
        self._crash = crash
        first = crash.places[0]
        self._story.disk.die_after(first.changes, first.torn)

    def _play(self, line: tuple[Act, ...], is_tried: bool) -> None:
        story = self._story
        self._line_began = story.disk.changes
        self._judged.clear()
        if is_tried:
            story.disk.on_step = self._try
        self._lines.append(line)
        failed = len(story.disk.failed)
        try:
            if not story.play(line) and self._only_busy:
                raise _Idle
            if is_tried:
                self._try(Step(story.disk.changes, "the next", ()), lambda: story.power)
        except Killed:
            assert self._crash is not None
            self._die(self._crash)
        except SyncFailed:
            assert self._fail is not None
            story.sync_failed()
            self._told.failures += 1
            self._restart((Place(0, None, self._fail.cut),))
            if self._crash is not None:
                self._arm(self._crash)
        else:
            self._told.failures += len(story.disk.failed) - failed
            story.disk.on_step = None

    def _die(self, crash: Crash) -> None:
        """The process dies now; the crash is noted as it came."""
        disk, power = self._story.disk, self._story.power
        first, *others = crash.places
        torn = first.what if disk.died_torn else None
        at = Place(disk.changes - self._line_began, torn, explicit(first.cut, power))
        self._lines.insert(max(0, len(self._lines) - 1), Crash((at, *others)))
        self._crash = None
        self._restart(crash.places)

    def _restart(self, places: Iterable[Place]) -> None:
        """Start on what is left; where the places say so, that dies, too."""
        first, *others = places
        story = self._story
        power = left_by(story.power, first.cut)
        for place in others:
            try:
                story.start(power, die_at=place)
            except (Killed, SyncFailed, StoreError, OSError):
                self._told.failures += bool(story.disk.failed)
                power = left_by(story.power, place.cut)
            else:
                break
        else:
            story.start(power)
        self._told.crashes += 1
        self._fail = None
        self._line_began = story.disk.changes

    def _end(self) -> None:
        if self._crash is not None:
            self._die(self._crash)
        if self._story.disk.failing is not None:
            self._play((Act("heal"),), is_tried=False)
        self._restart((Place(0, None, KILL),))
        self._story.finale()

    # Deaths that are tried.

    def _try(self, step: Step, left: Left) -> None:
        assert self._trying is not None
        power = left()
        for cut in self._trying.cuts(step, power):
            place = Place(step.number - self._line_began, step.torn, explicit(cut, power))
            found = power.copy() if cut.keep is Keep.KILL else power.cut(cut)
            key = (self._story.phase, self._story.now, found.signature())
            if key not in self._judged:
                self._judged.add(key)
                self._try_start(found, place, deep=self._trying.deeper(step, cut))

    def _try_start(self, found: PowerDisk, place: Place, *, deep: bool) -> None:
        fork = self._story.fork()
        try:
            if deep:
                fork.start(found, on_step=lambda step, left: self._try_again(fork, place, step, left))
            else:
                fork.start(found)
        except BrokenStory:
            raise
        except Exception as error:
            raise self._broken_at(error, place) from error
        self._told.crashes += 1

    def _try_again(self, fork: Story, place: Place, step: Step, left: Left) -> None:
        """The start on what was found dies here."""
        assert self._trying is not None
        power = left()
        for cut in self._trying.cuts_of_a_start():
            found = power.copy() if cut.keep is Keep.KILL else power.cut(cut)
            again = fork.fork()
            try:
                again.start(found)
            except Exception as error:
                again_at = Place(step.number, step.torn, explicit(cut, power))
                raise self._broken_at(error, place, again_at) from error
            self._told.crashes += 1

    def _broken_at(self, error: Exception, *places: Place) -> BrokenStory:
        lines = (*self._lines[:-1], Crash(places), *self._lines[-1:])
        return broken_story(error, replace(self._history, lines=lines))


def left_by(power: PowerDisk, cut: Cut) -> PowerDisk:
    """The disk after a death: after a kill, the same."""
    return power if cut.keep is Keep.KILL else power.cut(cut)


def explicit(cut: Cut, power: PowerDisk) -> Cut:
    """The same cut, without chance."""
    return cut.explicit(power.pending, power.unsynced_files, power.model)
