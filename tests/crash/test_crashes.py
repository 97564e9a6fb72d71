"""Random stories with crashes: what was acknowledged is so afterwards, and nothing else has come up.

A failing story prints its seed and history; `SPOOLRACK_STORY=<seed>` tells that one alone, and
`SPOOLRACK_STORIES=<number>` tells more of them than the quick run does.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from faulty_disk import Killed
from power_disk import Model
from promises import Broken
from story import Plot, Story

STORIES = int(os.environ.get("SPOOLRACK_STORIES", "300"))
CHUNK = 25
ACTS = 30
CUTS = 3
"""So many disks that a power cut might leave are judged at each crash, besides the one that goes on."""


def plot_of(seed: int) -> Plot:
    random = Random(seed)
    return Plot(
        seed=seed,
        model=random.choice(list(Model)),
        can_sync_all=random.random() < 0.5,
        relaxed=random.random() < 0.2,
    )


def tell(seed: int) -> int:
    """One story with one to four crashes; how many disks were judged."""
    random = Random(f"crashes of {seed}")
    story = Story(plot_of(seed))
    judged = 0
    try:
        for _ in range(random.randint(1, 4)):
            story.crash_after(random.randint(0, 80))
            try:
                for _ in range(ACTS):
                    story.act()
            except Killed as place:
                story.history.append(f"died before {place}")
            story.crash_after(None)
            for _ in range(CUTS):
                story.try_power_cut(Random(random.random()))
            story.recover(power_lost=random.random() < 0.8)
            judged += CUTS + 1
        story.finale()
    except Broken as broken:
        history = "\n  ".join(story.history)
        pytest.fail(f"{broken}\n{story.plot}\nSPOOLRACK_STORY={seed} tells it again:\n  {history}")
    return judged


def chosen() -> list[range]:
    if "SPOOLRACK_STORY" in os.environ:
        seed = int(os.environ["SPOOLRACK_STORY"])
        return [range(seed, seed + 1)]
    return [range(at, min(at + CHUNK, STORIES)) for at in range(0, STORIES, CHUNK)]


@pytest.mark.parametrize("seeds", chosen(), ids=lambda seeds: f"seeds-{seeds.start}")
def test_what_was_acknowledged_survives_every_crash_of_a_random_story(seeds: range) -> None:
    assert all(tell(seed) > 0 for seed in seeds)
