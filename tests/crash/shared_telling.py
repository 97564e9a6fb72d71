"""Tells a history of several engines: its lines one after the other, and where it says so, one dies.

After a kill the others go on; a power cut ends all, and two start again. As with one engine, what other
power cuts would have left can be judged on the way (`Trying`). Other kills need the story told again,
because those who live go on: where they can come is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from acts import Act, Crash, Death, Fail, History, Line, Opening, Place, Trouble, Turn
from cuts import KILL, Keep
from faulty_disk import Killed
from power_disk import PowerDisk
from shared_finale import finish
from shared_story import SharedStory
from spoolrack_store.files.syncer import SyncFailed
from step_disk import Failing, Left, Step, Torn
from telling import BrokenStory, Told, Trying, broken_story, explicit, left_by

NOWHERE: Container[int] = ()


def tell_shared(
    history: History,
    *,
    trying: Trying | None = None,
    tried: Container[int] = NOWHERE,
) -> tuple[Told, list[tuple[int, Death]]]:
    """Tell it to its end; raises `BrokenStory`.

    In the lines with the numbers `tried`, other power cuts are judged, and the places are noted where
    whoever is at work can be killed: each is the number of a line, and a death in it.
    """
    teller = _Teller(history, trying, tried)
    return teller.tell(), teller.places


class _Teller:
    def __init__(self, history: History, trying: Trying | None, tried: Container[int]) -> None:
        self.places: list[tuple[int, Death]] = []
        self._history = history
        self._trying = trying
        self._tried = tried
        self._told = Told()
        self._lines: list[Line] = []
        """What was told, with the deaths as they came."""
        self._deaths: dict[str, Death] = {}
        """What will come, by who dies."""
        self._who = ""
        """Who is at work."""
        self._number = 0
        """The line's."""
        self._began = 0
        """So many changes that one had made before this line."""
        self._judged: set[tuple[object, ...]] = set()

    def tell(self) -> Told:
        try:
            self._story = SharedStory(self._history.plot)
            for number, line in enumerate(self._history.lines):
                self._number = number
                self._tell(line)
            for who, death in self._deaths.items():
                if self._story.can_work(who):
                    self._began = self._story.ones[who].disk.changes
                    self._die(death)
            finish(self._story)
        except BrokenStory:
            raise
        except Exception as error:
            raise broken_story(error, self._so_far()) from error
        self._told.stories = 1
        self._told.messages = self._story.hearing.messages
        return self._told

    def _so_far(self) -> History:
        return replace(self._history, lines=tuple(self._lines))

    def _tell(self, line: Line) -> None:
        story = self._story
        match line:
            case Death(who=who):
                self._deaths[who] = line
                if story.can_work(who):
                    story.ones[who].disk.die_after(line.place.changes, line.place.torn)
                return
            case Crash() | Fail():
                raise ValueError(f"whose is it? {line}")
        self._lines.append(line)
        match line:
            case Turn(who=who, part=part, acts=acts):
                self._play(who, lambda: story.turn(who, part, acts))
            case Opening(who=who) if who in story.plot.names:
                death = self._deaths.get(who)
                if who in story.ones:
                    story.kill(who)
                self._play(who, lambda: story.open(who, None if death is None else death.place))
            case Trouble(who=who):
                story.trouble(who, Failing(line.fault, line.skip, line.times))
            case Opening():
                pass  # There are fewer of them in this plot.
            case _:
                for act in line:
                    self._happen(act)

    def _happen(self, act: Act) -> None:
        match act.word, act.args:
            case "pass", (int(millis),):
                self._story.wait(millis)
            case "put", (str(queue), int(size)):
                self._story.put(queue, size)
            case _:
                raise ValueError(f"whose is it? {act}")

    def _play(self, who: str, do: Callable[[], object]) -> None:
        story = self._story
        self._who = who
        self._began = story.ones[who].disk.changes if who in story.ones else 0
        self._judged.clear()
        is_tried = self._trying is not None and self._number in self._tried
        story.on_step = self._try if is_tried else None
        failed = len(story.ones[who].disk.failed) if who in story.ones else 0
        try:
            do()
            if is_tried and who in story.ones:
                disk = story.ones[who].disk
                self._try(Step(disk.changes, "the next", ()), lambda: story.power)
        except Killed:
            self._die(self._deaths.pop(who))
        except SyncFailed:
            self._told.failures += 1
            story.fail(who)
        else:
            if who in story.ones:
                self._told.failures += len(story.ones[who].disk.failed) - failed
        finally:
            story.on_step = None
            for one in story.ones.values():
                one.disk.on_step = None

    def _die(self, death: Death) -> None:
        """It dies now; that is noted as it came."""
        story, cut = self._story, explicit(death.place.cut, self._story.power)
        disk = story.ones[death.who].disk if death.who in story.ones else story.at_work
        torn = death.place.what if disk.died_torn else None
        place = Place(disk.changes - self._began, torn, cut)
        self._lines.insert(len(self._lines) - 1, Death(death.who, place))
        self._told.crashes += 1
        if cut.keep is Keep.KILL:
            story.kill(death.who)
        else:
            story.restart(left_by(story.power, cut))

    def _try(self, step: Step, left: Left) -> None:
        assert self._trying is not None
        if step.torn is not Torn.WRITTEN:
            place = Place(step.number - self._began, step.torn, KILL)
            self.places.append((self._number, Death(self._who, place)))
        power = left()
        for cut in self._trying.cuts(step, power):
            if cut.keep is not Keep.KILL:
                found = power.cut(cut)
                key = (self._story.phase, self._story.latest, found.signature())
                if key not in self._judged:
                    self._judged.add(key)
                    place = Place(step.number - self._began, step.torn, explicit(cut, power))
                    self._try_restart(found, Death(self._who, place))

    def _try_restart(self, found: PowerDisk, death: Death) -> None:
        try:
            self._story.fork().restart(found)
        except Exception as error:
            lines = (*self._lines[:-1], death, *self._lines[-1:])
            raise broken_story(error, replace(self._history, lines=lines)) from error
        self._told.crashes += 1
