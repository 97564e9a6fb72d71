"""All features in one history keep their promises through power cuts, deaths and refused calls, and a
process that is asked nothing brings all work to its end."""

from __future__ import annotations

import pytest
from spoolrack_store.engine.group_order import _Group

from tests.proof.crash.everything_story import CrowdedStory, EverythingStory
from tests.proof.crash.stories import ALONE_AND_SHARED, Run
from tests.support.engine_story import Broken, caching, tell
from tests.support.power_disk import Model


@ALONE_AND_SHARED
def test_all_features_together_keep_what_was_answered_and_come_to_rest(run: Run) -> None:
    told = run.tell(caching(EverythingStory), 2, steps=100)
    assert told.least("crashes", "refused") > told["stories"]
    assert told["ended"] == told["stories"]
    assert told["paused"] or told["stories"] < 20


@ALONE_AND_SHARED
def test_groups_priorities_back_offs_and_limits_stand_in_no_other_ones_way(run: Run) -> None:
    told = run.tell(CrowdedStory, 2)
    assert told["ended"] == told["stories"]


@pytest.mark.parametrize("model", [Model.ORDERED, Model.ANY_SUBSET], ids=lambda model: model.value)
@pytest.mark.parametrize(
    ("seed", "processes"),
    [
        (37, 3),  # Two records ended one life of a stage: its end was forgotten twice.
        # The folder of a queue that was never made stayed when its process died beside others.
        (2895460, 3),
        (2895577, 2),
    ],
)
def test_histories_that_have_found_faults_are_told_again(
    model: Model, seed: int, processes: int
) -> None:
    told = tell(caching(EverythingStory), [seed], model, steps=100, processes=processes)
    assert told["ended"]


def test_a_strict_group_that_a_lease_does_not_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Group, "end", None)
    with pytest.raises(Broken, match="is delivered before"):
        EverythingStory(190, Model.ORDERED).run(100)
