"""The long run of the simulator, story after story: a campaign of `make torture`.

    campaign.py [--shared] [--seconds S] [--seed N] [--runs N]

A story is a random history of all features on a simulated disk, with power cuts, deaths in a commit and
calls that the disk refuses; with `--shared` of two or three processes on one root. Four seeds in a row
tell the four kinds of disk: with and without syncfs(2), and both models of what a cut leaves.
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.proof.crash.everything_story import EverythingStory
from tests.support.engine_story import Broken
from tests.support.power_disk import Model
from tests.support.run_counts import Tally, run_campaign

STEPS = 100
MODELS = list(Model)


def once(seed: int, *, is_shared: bool) -> Tally:
    name = "simulated crashes of several" if is_shared else "simulated crashes"
    tally = Tally(campaign=name, runs=1)
    processes = 2 + seed // 4 % 2 if is_shared else 1
    model, can_sync_all = MODELS[seed % len(MODELS)], is_shared or seed // 2 % 2 == 0
    try:
        story = EverythingStory(
            seed,
            model,
            processes=processes,
            can_sync_all=can_sync_all,
            cache_bytes=10_000 * (seed // 8 % 2),
        )
        story.run(STEPS)
    except Broken as broken:
        again = f"-m tests.proof.crash.campaign {'--shared ' * is_shared}--seed {seed} --runs 1"
        tally.other, tally.broken = 1, [f".venv/bin/python {again}:\n{broken}"]
    else:
        tally.crashes, tally.messages = story.crashes + story.refused, len(story.answered)
    return tally


def main() -> int:
    logging.disable(logging.CRITICAL)  # The store complains of what is done to it.
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--shared", action="store_true", help="two or three processes share the root")
    own, others = parser.parse_known_args()
    return run_campaign("simulated crashes", lambda seed: once(seed, is_shared=own.shared), others)


if __name__ == "__main__":
    sys.exit(main())
