"""The recordings of an engine hold: its answers, the calls of the disk in their order, log, times,
and the effect of each call that the disk refuses."""

from __future__ import annotations

import pytest

from tests.store.recorder import Story, path_of, record
from tests.store.stories import STORIES

pytestmark = pytest.mark.timeout(300)  # A story of hundreds of refused calls takes five seconds.


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_is_as_it_was_recorded(story: Story) -> None:
    assert record(story).splitlines() == path_of(story).read_text().splitlines(), (
        "if the change is meant: python -m tests.store.recorder, and read the difference"
    )
