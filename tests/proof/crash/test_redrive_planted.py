"""Each condition of a redrive, and of a second death, is needed: without it, a story ends badly."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.redriver import Redriver

from tests.proof.crash.planted import Bug, expect_broken
from tests.proof.crash.redrive_story import RedriveStory

MOST_STORIES = 400


def _created_unsynced(self: Moves, path: str, content: bytes, *, sync: bool = False) -> None:
    _create_file(self, path, content)


_create_file = Moves.create_file


def _ended_early(self: Redriver, drive: object, most: int, allowed: int) -> object:
    looked, picks, _ = _pick(self, drive, 1, allowed)  # type: ignore[arg-type]
    return looked, picks, True


_pick = Redriver._pick
_candidates = Redriver._candidates

PLANTED: Final[dict[str, Bug]] = {
    "a record that is renamed before its content is durable": Bug(
        Moves, "create_file", _created_unsynced, first=71, is_alone=True
    ),
    "a redrive of another process not heard of": Bug(
        Redriver, "path_changed", lambda self, path: None, first=4
    ),
    "a redrive that no start knows": Bug(Redriver, "recover", lambda self: None),
    "all messages of a file moved, whichever are selected": Bug(
        Redriver,
        "_candidates",
        lambda self, drive: (
            (entry, entry.held, at + 1, after)
            for entry, _, at, after in _candidates(self, drive)
            if entry.name.queue == drive.order.queue
        ),
    ),
    "a pass that ends with its first portion": Bug(Redriver, "_pick", _ended_early),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_redrive_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], RedriveStory, MOST_STORIES, processes=2)
