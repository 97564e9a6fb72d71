"""The long run of the simulator: one seed after the other, a random story or some short workloads.

An odd seed tells a random story with many deaths on the way. An even one tries everything in a few of
all the short workloads, spread over them, so that `SEEDS` seeds from any on try each once. A failure is
made as small as it gets, and told with the command that shows it again.
"""

from __future__ import annotations

import logging
import sys

from every_history import TOTAL, spread
from random_history import random_history
from shrinking import command_for, smallest
from tally import Tally, run_campaign
from telling import BrokenStory, Told, tell
from trying import SomeDeaths, try_deaths, try_errors

NAME = "simulated crashes"
WORKLOADS = 24
"""So many are tried for each seed; most of them are idle, which costs little."""
DEEP = 16
SHARE = 0.15
"""At so many of the places where the process may die in a random story, it does."""
ERRORS_IN = 12
"""In one of so many workloads every error is tried, too, which costs more than all deaths."""
SEEDS = 2 * -(-TOTAL // WORKLOADS)
SHRUNK = 3
"""So many failures are made smaller: one fault of the store breaks many stories."""


class Campaign:
    def __init__(self) -> None:
        self._shrunk = 0

    def once(self, seed: int) -> Tally:
        tally = Tally(campaign=NAME)
        if seed % 2:
            self._story(seed, tally)
        else:
            first = seed // 2 * WORKLOADS
            for number in range(first, first + WORKLOADS):
                self._workload(number, tally)
        return tally

    def _story(self, seed: int, tally: Tally) -> None:
        try:
            count(tally, tell(random_history(seed), trying=SomeDeaths(seed, share=SHARE)))
        except BrokenStory as broken:
            self.note(broken, tally)

    def _workload(self, number: int, tally: Tally) -> None:
        work = spread(number % TOTAL)
        try:
            count(tally, try_deaths(work, deep=DEEP, first=number))
            if number % ERRORS_IN == 0:
                count(tally, try_errors(work))
        except BrokenStory as broken:
            self.note(broken, tally)

    def note(self, broken: BrokenStory, tally: Tally) -> None:
        """Count a broken promise, with the smallest history that breaks it."""
        if self._shrunk < SHRUNK:
            self._shrunk += 1
            broken = smallest(broken)
        kind = broken.kind.value
        setattr(tally, kind, getattr(tally, kind) + 1)
        tally.runs += 1
        tally.broken.append(f"{broken}\n  {command_for(broken.history)}")


def count(tally: Tally, told: Told) -> None:
    """Add what was told."""
    tally.runs += told.stories
    tally.crashes += told.crashes
    tally.messages += told.messages


def main() -> int:
    logging.disable(logging.CRITICAL)  # The store complains of what is done to it.
    return run_campaign(NAME, Campaign().once)


if __name__ == "__main__":
    sys.exit(main())
