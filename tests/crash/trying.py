"""Tries all that can happen in the last line of a workload: death at every step, and every error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from acts import Crash, Fail, History, Line, Place
from cuts import KILL, Cut, Keep, every_cut
from every_history import Workload
from power_disk import PowerDisk
from step_disk import FITS, Fault, Step, Torn
from telling import Told, tell

OFTEN = 1 << 20
MOST_CALLS = 1_000
DEEPER = 0.05
"""So many of the starts in a random story die everywhere, too."""
_ENDS = (KILL, Cut(Keep.NONE), Cut(Keep.ALL))
"""What is left where not everything is tried."""


class EveryDeath:
    """All that may be left, at every place. At every `deep`th, the next start dies everywhere, too."""

    def __init__(self, deep: int, first: int = 0) -> None:
        self._deep = deep
        self._places = first

    def cuts(self, step: Step, disk: PowerDisk) -> Iterator[Cut]:
        self._places += 1
        yield KILL
        # Of a file that was written in part, a power cut leaves no more than of one that was written
        # whole and not synced.
        if step.torn is not Torn.HALF:
            yield from every_cut(disk.pending, disk.unsynced_files)

    def deeper(self, step: Step, cut: Cut) -> bool:
        return self._places % self._deep == 0 and cut in _ENDS

    def cuts_of_a_start(self) -> Iterator[Cut]:
        yield from _ENDS


class SomeDeaths:
    """At a share of the places, by chance, along a whole story."""

    def __init__(self, seed: int, *, share: float) -> None:
        self._share = share
        self._random = Random(f"deaths {seed}")

    def cuts(self, step: Step, disk: PowerDisk) -> Iterator[Cut]:
        if self._random.random() < self._share:
            yield KILL
            if step.torn is not Torn.HALF:
                yield from (self._chance() for _ in range(3))

    def deeper(self, step: Step, cut: Cut) -> bool:
        return self._random.random() < DEEPER

    def cuts_of_a_start(self) -> Iterator[Cut]:
        yield self._random.choice((*_ENDS, self._chance()))

    def _chance(self) -> Cut:
        return Cut(Keep.SOME, (self._random.getrandbits(30),))


def try_deaths(workload: Workload, *, deep: int, first: int = 0) -> Told:
    """Let the process die at every place of the last line, and judge what may be left.

    Raises `BrokenStory`.
    """
    lines = (*workload.history.lines, workload.tried)
    history = replace(workload.history, lines=lines)
    trying = EveryDeath(deep, first)
    return tell(history, trying=trying, tried_from=len(lines) - 1, only_busy=True)


def try_errors(workload: Workload) -> Told:
    """Let every call of the last line fail in every way, once and for good; then let a start fail.

    Raises `BrokenStory`.
    """
    sum = Told()
    base, tried = workload.history, workload.tried
    for fault in Fault:
        for times in (OFTEN,) if fault is Fault.FULL else (1, OFTEN):
            for cut in (KILL, Cut(Keep.NONE)) if FITS[fault] & {"sync_all"} else (KILL,):
                _try_each(base, partial(_failing, fault, times, cut), tried, sum)
    for fault in (Fault.EIO, Fault.ENOSPC, Fault.EMFILE):
        # The whole line was done, and neither synced more than it was promised, nor lost.
        _try_each(base, partial(_failing_start, fault), tried, sum)
    return sum


def _failing(fault: Fault, times: int, cut: Cut, skip: int) -> Fail:
    return Fail(fault, skip, times, cut)


def _failing_start(fault: Fault, skip: int) -> Crash:
    return Crash((Place(OFTEN, None, KILL), Place(skip, fault, KILL)))


def _try_each(base: History, fault_at: Callable[[int], Line], tried: Line, sum: Told) -> None:
    """One call after the other, until there is none left to fail."""
    for skip in range(MOST_CALLS):
        lines = (*base.lines, fault_at(skip), tried)
        told = tell(replace(base, lines=lines), only_busy=True)
        sum.add(told)
        if not told.failures:
            return
    raise AssertionError(f"{MOST_CALLS} calls, and no end of them")
