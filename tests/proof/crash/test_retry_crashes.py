"""Releases, rejections and back-offs keep their promises through power cuts and deaths, and planted
bugs are found."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine.dead_letters import DeadLetters
from spoolrack_store.engine.leaser import Leaser
from spoolrack_store.engine.moves import Moves

from tests.proof.crash.planted import Bug, expect_broken
from tests.proof.crash.retry_story import RetryStory
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_released_and_rejected_messages_stay_as_answered_through_crashes(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    told = tell(RetryStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert told.least("hidden", "rejected", "crashes") > len(SEEDS)
    assert told["told_why"]


_bury = DeadLetters.bury
_postpone = Leaser._postpone

PLANTED: Final[dict[str, Bug]] = {
    "a back-off counts from when the first process sees that the lease is over": Bug(
        Leaser,
        "_postpone",
        lambda self, entry, members, until, receives: _postpone(
            self, entry, members, (until[0] + 1, until[1] + 1), receives
        ),
    ),
    "a name refers to a dead-letter file before its content is durable": Bug(
        Moves, "sync_now", lambda self, _, folders: list(map(self.disk.sync_folder, folders))
    ),
    "a rejection is answered, and its message left to the end of its lease": Bug(
        DeadLetters,
        "bury",
        lambda self, wanted, **how: [None for _ in wanted] if how else _bury(self, wanted, **how),
    ),
    "a receive that was released as uncounted is counted": Bug(
        Leaser,
        "_postpone",
        lambda self, entry, members, until, receives: _postpone(
            self, entry, members, until, entry.name.receives
        ),
    ),
}
MOST_STORIES: Final = 100


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], RetryStory, MOST_STORIES)
