"""Bodies that are written before they are sent survive power cuts and deaths once they are answered,
and leave nothing behind when they aren't sent; and each condition of that is needed."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import adoption, recovery
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.layout import BODY
from spoolrack_store.model.operations import WrittenBody

from tests.proof.crash.body_story import BodyStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_written_bodies_are_sent_whole_or_leave_nothing_behind(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    found = tell(BodyStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert found.least("written", "unsent", "crashes") > len(SEEDS) // 2


_make = Moves.make
_remove_bodies_left = recovery._remove_bodies_left
_unlink_file = Moves.unlink_file


def _unlinked_but_for_bodies(self: Moves, path: str) -> None:
    if not path.endswith(BODY):
        _unlink_file(self, path)


def _made_unsynced(
    self: Moves, *arguments: object, written: WrittenBody | None = None, **more: object
) -> object:
    entry = _make(self, *arguments, written=written, **more)  # type: ignore[arg-type]
    if written is not None:
        self.syncer._files.pop(entry.name.path, None)
        self.syncer._files_unsynced = False
    return entry


PLANTED: Final[dict[str, Bug]] = {
    "a start takes every body for one of a dead process": Bug(
        recovery, "body_owner", lambda name: "", first=7
    ),
    "a start takes the body of a dead process for a foreign file": Bug(
        adoption, "body_owner", lambda name: ""
    ),
    "the unfinished body of a dead process stays": Bug(Moves, "unlink_file", _unlinked_but_for_bodies),
    "the file beside a body is not synced": Bug(Moves, "make", _made_unsynced),
    "the folder of the bodies is not synced": Bug(
        Moves,
        "_place_body",
        lambda self, source, target: self.disk.rename_new(source, target),
        first=17,
    ),
    "a start takes a file for sent whose body has no name yet": Bug(
        recovery, "_has_body", lambda moves, stem: True, first=117
    ),
    "a start leaves a body without a message": Bug(
        recovery, "_remove_bodies_left", lambda moves, sent_by_others: None, first=11
    ),
    "a start unlinks the bodies of messages that a living process has in new/": Bug(
        recovery,
        "_remove_bodies_left",
        lambda moves, sent_by_others: _remove_bodies_left(moves, set()),
        first=28,
    ),
    "the body goes with the file that a dead letter was copied from": Bug(
        Moves, "is_body_left", lambda self, entry: entry.batch.stem.is_external
    ),
    "the body stays when its message is gone": Bug(Moves, "is_body_left", lambda self, entry: False),
}
MOST_STORIES: Final = 200


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(seed: int, model: Model) -> BodyStory:
        BodyStory(seed, model, processes=2).run(120)
        return BodyStory(seed, model, can_sync_all=False)

    expect_broken(monkeypatch, PLANTED[planted], of, MOST_STORIES)
