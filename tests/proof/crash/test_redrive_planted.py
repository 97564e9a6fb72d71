"""Each condition of a redrive, and of a second death, is needed: without it, a story ends badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.redriver import Redriver

from tests.proof.crash.redrive_story import RedriveStory
from tests.support.engine_story import Broken, seeds_from
from tests.support.power_disk import Model

MOST_STORIES = 400


def _created_unsynced(self: Moves, path: str, content: bytes, *, sync: bool = False) -> None:
    _create_file(self, path, content)


_create_file = Moves.create_file


def _ended_early(self: Redriver, drive: object, most: int, allowed: int) -> object:
    looked, picks, _ = _pick(self, drive, 1, allowed)  # type: ignore[arg-type]
    return looked, picks, True


_pick = Redriver._pick
_candidates = Redriver._candidates

PLANTED: dict[str, tuple[object, str, Callable[..., object], bool]] = {
    "a record that is renamed before its content is durable": (
        Moves,
        "create_file",
        _created_unsynced,
        False,
    ),
    "a redrive of another process not heard of": (
        Redriver,
        "path_changed",
        lambda self, path: None,
        True,
    ),
    "a redrive that no start knows": (Redriver, "recover", lambda self: None, True),
    "all messages of a file moved, whichever are selected": (
        Redriver,
        "_candidates",
        lambda self, drive: (
            (entry, entry.held, at + 1, after)
            for entry, _, at, after in _candidates(self, drive)
            if entry.name.queue == drive.order.queue
        ),
        True,
    ),
    "a pass that ends with its first portion": (Redriver, "_pick", _ended_early, True),
}


STARTS: Final = {"a record that is renamed before its content is durable": 43}
"""The stories that found them. After a change of the engine others may: all are told, these first."""


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_redrive_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken, can_sync_all = PLANTED[planted]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(Broken):
        _tell(STARTS.get(planted, 0), can_sync_all)


def _tell(first: int, can_sync_all: bool) -> None:
    processes = 2 if can_sync_all else 1
    for seed in seeds_from(first, MOST_STORIES):
        story = RedriveStory(seed, Model.ANY_SUBSET, processes=processes, can_sync_all=can_sync_all)
        story.run(120)
