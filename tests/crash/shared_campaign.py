"""The long run of the simulator with several engines: one seed after the other.

An odd seed tells a random story of two or three engines, an even one tries everything in a few pairs
of operations, so that `SEEDS` seeds from any on try each pair once in every order and setting. A
failure is made as small as it gets, and told with the command that shows it again.
"""

from __future__ import annotations

import logging
import sys

from campaign import Campaign, count
from shared_every import TOTAL, spread, try_deaths
from shared_random import random_shared_history
from shared_telling import tell_shared
from tally import Tally, run_campaign
from telling import BrokenStory
from trying import SomeDeaths

NAME = "simulated crashes of several"
WORKLOADS = 2
SHARE = 0.05
"""At so many of the places where somebody may die in a random story, the power is cut."""
SEEDS = 2 * -(-TOTAL // WORKLOADS)


class SharedCampaign(Campaign):
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
        history = random_shared_history(seed)
        trying = SomeDeaths(seed, share=SHARE)
        try:
            count(tally, tell_shared(history, trying=trying, tried=range(len(history.lines)))[0])
        except BrokenStory as broken:
            self.note(broken, tally)

    def _workload(self, number: int, tally: Tally) -> None:
        try:
            count(tally, try_deaths(spread(number % TOTAL)))
        except BrokenStory as broken:
            self.note(broken, tally)


def main() -> int:
    logging.disable(logging.CRITICAL)  # The store complains of what is done to it.
    return run_campaign(NAME, SharedCampaign().once)


if __name__ == "__main__":
    sys.exit(main())
