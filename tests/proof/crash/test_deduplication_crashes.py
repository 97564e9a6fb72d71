"""Within its window a deduplication id has one message, through power cuts and deaths, alone and beside
other processes; and each condition of that is needed."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine.deduplication import Deduplication

from tests.proof.crash.keyed_story import KeyedStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(5)


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_an_id_has_one_message_in_its_window(model: Model, can_sync_all: bool) -> None:
    told = tell(KeyedStory, SEEDS, model, can_sync_all=can_sync_all)
    assert told.least("repetitions", "again", "crashes") > len(SEEDS)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_share_its_ids(model: Model, processes: int) -> None:
    told = tell(KeyedStory, SEEDS, model, processes=processes)
    assert told.least("repetitions", "again", "crashes") > len(SEEDS)


def _unlinked_at_once(self: Deduplication, entries: object) -> object:
    synced, self._moves.synced = self._moves.synced, self._moves.commit
    try:
        found = list(_may_unlink(self, list(entries)))  # type: ignore[call-overload]
        return [*found, *_may_unlink(self, [e for e in list(entries) if e not in found])]  # type: ignore[call-overload]
    finally:
        self._moves.synced = synced


_may_unlink = Deduplication.may_unlink

PLANTED: Final[dict[str, Bug]] = {
    "names unlinked without a segment": Bug(Deduplication, "may_unlink", lambda self, entries: entries),
    "names unlinked before their segment is durable": Bug(
        Deduplication, "may_unlink", _unlinked_at_once, first=66
    ),
    "segments not read": Bug(Deduplication, "_load_segment", lambda self, path: None),
    "files of other processes in new/ not read": Bug(
        Deduplication, "_load_new", lambda self, path: None, first=29
    ),
    "names not read": Bug(Deduplication, "_load_batch", lambda self, batch: None),
    "keys forgotten too early": Bug(Deduplication, "_oldest", lambda self: 1 << 128),
    "windows that never end": Bug(Deduplication, "_since", lambda self, record: 1),
}


MOST_STORIES: Final = 400


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_key_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(
        monkeypatch,
        PLANTED[planted],
        KeyedStory,
        MOST_STORIES,
        match=r"is stored as|is answered with",
        processes=2,
    )
