"""The recordings of an engine hold: its answers, the calls of the disk in their order, log, times,
and the effect of each call that the disk refuses."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.store.drawn_stories import DRAWN, SEEDS, changed, digests
from tests.store.recorder import RECORDINGS, Story, inspect, path_of, record
from tests.store.stories import STORIES
from tests.store.test_store_fsck_damage import INSPECTED

pytestmark = pytest.mark.timeout(300)  # A story of hundreds of refused calls takes five seconds.


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_is_as_it_was_recorded(story: Story) -> None:
    assert record(story).splitlines() == path_of(story).read_text().splitlines(), (
        "if the change is meant: python -m tests.store.recorder, and read the difference"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_story_is_as_it_was_recorded(seed: int, tmp_path: Path) -> None:
    steps, told = digests(seed)
    known = DRAWN.read_text().splitlines()[seed].split()
    if told == known:
        return
    try:
        shown = changed(seed, tmp_path)
    except (OSError, CalledProcessError):  # It isn't a checkout.
        first = next(place for place, pair in enumerate(zip_longest(told, known)) if len({*pair}) > 1)
        shown = "".join(steps[first : first + 1])
    pytest.fail(f"if the change is meant: python -m tests.store.recorder, and read it:\n{shown}")


def test_an_inspection_is_as_it_was_recorded(tmp_path: Path) -> None:
    told = inspect(tmp_path, INSPECTED).splitlines()
    assert told == (RECORDINGS / "fsck.txt").read_text().splitlines(), (
        "if the change is meant: python -m tests.store.recorder, and read the difference"
    )
