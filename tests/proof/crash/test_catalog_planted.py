"""Each condition of the catalogue is needed: without it, a story of queues ends badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.catalog import Catalog, _Tombstone
from spoolrack_store.engine.moves import Moves
from spoolrack_store.model.clock import Millis

from tests.proof.crash.catalog_story import CatalogStory
from tests.support.engine_story import Broken, seeds_from
from tests.support.power_disk import Model

MOST_STORIES = 2_000


def _buried_at_once(self: Catalog, name: str, tombstone: _Tombstone) -> None:
    _bury(self, name, tombstone)
    if tombstone.cleared == self._moves.commit:
        tombstone.cleared = 0
        _bury(self, name, tombstone)


def _doomed_at_once(self: Catalog, name: str, version: int, made: tuple[Millis, str]) -> None:
    _doom(self, name, version, made)
    self._tombstones[name].written = 0


def _superseded_at_once(self: Catalog) -> None:
    self._old = dict.fromkeys(self._old, 0)
    _advance(self)


def _only_its_own(self: Catalog, name: str) -> object:
    index = self._moves.index
    return iter(list(index.queues[name].entries) if name in index.queues else [])


def _damaged_counts(self: Moves, path: str, why: str) -> None:
    pass


def _published_anyway(moves: object, catalog: object, entry: object) -> None:
    recovery.publish(moves, entry)  # type: ignore[arg-type]


_bury, _doom, _advance = Catalog._advance_deletion, Catalog._add_tombstone, Catalog.advance


def _cleared_at_once(self: Catalog, name: str, tombstone: _Tombstone) -> None:
    _bury(self, name, tombstone)
    if tombstone.emptied == self._moves.commit:
        tombstone.emptied = 0
        _bury(self, name, tombstone)


PLANTED: dict[str, tuple[object, str, Callable[..., object]]] = {
    "messages deleted before the tombstone is durable": (Catalog, "_add_tombstone", _doomed_at_once),
    "a folder removed before what left it is durable": (Catalog, "_advance_deletion", _cleared_at_once),
    "a tombstone unlinked before all else is durably gone": (
        Catalog,
        "_advance_deletion",
        _buried_at_once,
    ),
    "old settings unlinked before newer ones are durable": (Catalog, "advance", _superseded_at_once),
    "messages in new/ stay when their queue goes": (Catalog, "_left", _only_its_own),
    "other processes' settings aren't read": (Catalog, "path_changed", lambda self, path: None),
    "torn settings stay where they are": (Moves, "quarantine", _damaged_counts),
    "a message without a queue is published": (recovery, "_publish_or_quarantine", _published_anyway),
}


STARTS: Final = {
    "messages deleted before the tombstone is durable": 35,
    "a folder removed before what left it is durable": 441,
    "messages in new/ stay when their queue goes": 20,
    "a tombstone unlinked before all else is durably gone": 20,
    "a message without a queue is published": 380,
}
"""The stories that found them. After a change of the engine others may: all are told, these first."""


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_the_catalogue_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, broken = PLANTED[planted]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(Broken):
        _tell(STARTS.get(planted, 0))


def _tell(first: int) -> None:
    for seed in seeds_from(first, MOST_STORIES):
        CatalogStory(seed, Model.ANY_SUBSET, processes=1 + seed % 3, can_sync_all=seed % 3 > 0).run(100)
