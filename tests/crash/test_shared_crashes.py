"""Two and three engines on one disk: what any of them has acknowledged is so, whoever dies, and where.

`SPOOLRACK_STORY=<seed>` tells the random story of that seed again, `SPOOLRACK_STORIES=<number>` tells
more of them. All pairs of operations, in all orders, are too many for a quick run: see
`shared_campaign.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pytest
from shared_every import SharedWorkload, of_one_operation, some_pairs, try_deaths
from shared_random import random_shared_history
from shared_telling import tell_shared
from telling import BrokenStory, Told
from test_crashes import chosen, report
from trying import SomeDeaths

PARTS = 4
PAIRS = 12
SHARE = 0.02
"""At so many of the places where somebody may die, the power is cut."""


def try_all(works: Iterable[SharedWorkload]) -> Told:
    sum = Told()
    for work in works:
        try:
            sum.add(try_deaths(work))
        except BrokenStory as broken:
            pytest.fail(report(broken))
    return sum


def tell_seed(seed: int) -> int:
    """How many acknowledged sends were kept."""
    trying = SomeDeaths(seed, share=SHARE)
    history = random_shared_history(seed)
    try:
        return tell_shared(history, trying=trying, tried=range(len(history.lines)))[0].messages
    except BrokenStory as broken:
        pytest.fail(f"the story of the seed {seed} breaks a promise: {report(broken)}")


@pytest.mark.parametrize("seeds", chosen(), ids=lambda seeds: f"seeds-{seeds.start}")
def test_what_one_of_several_has_acknowledged_survives_the_deaths_of_a_random_story(
    seeds: range,
) -> None:
    assert sum(tell_seed(seed) for seed in seeds) >= len(seeds)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operation_breaks_a_promise_wherever_its_process_dies_beside_another(part: int) -> None:
    told = try_all(islice(of_one_operation(), part, None, PARTS))
    assert told.stories > 50
    assert told.crashes > 500


def test_a_sample_of_two_operations_at_once_breaks_no_promise_wherever_one_process_dies() -> None:
    told = try_all(some_pairs(PAIRS))
    assert told.crashes > 500
