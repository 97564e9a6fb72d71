"""Each condition of the catalogue is needed: without it, a story of queues ends badly."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.catalog import Catalog, _Tombstone
from spoolrack_store.engine.moves import Moves
from spoolrack_store.model.clock import Millis

from tests.proof.crash.catalog_story import CatalogStory
from tests.proof.crash.planted import Bug, expect_broken
from tests.support.power_disk import Model

MOST_STORIES = 2_000


def _buried_at_once(self: Catalog, name: str, tombstone: _Tombstone, most: int) -> int:
    files = _bury(self, name, tombstone, most)
    if tombstone.cleared == self._moves.commit:
        tombstone.cleared = 0
        files += _bury(self, name, tombstone, most)
    return files


def _doomed_at_once(self: Catalog, name: str, version: int, made: tuple[Millis, str]) -> None:
    _doom(self, name, version, made)
    self._tombstones[name].written = 0


def _superseded_at_once(self: Catalog) -> None:
    self._old_settings = dict.fromkeys(self._old_settings, 0)
    _advance(self)


def _only_its_own(self: Catalog, name: str) -> object:
    index = self._moves.index
    return iter(list(index.queues[name].entries) if name in index.queues else [])


def _damaged_counts(self: Moves, path: str, why: str) -> None:
    pass


def _published_anyway(moves: object, catalog: object, entry: object) -> None:
    recovery.publish(moves, entry)  # type: ignore[arg-type]


_bury, _doom, _advance = Catalog._advance_deletion, Catalog._add_tombstone, Catalog.advance


def _cleared_at_once(self: Catalog, name: str, tombstone: _Tombstone, most: int) -> int:
    files = _bury(self, name, tombstone, most)
    if tombstone.emptied == self._moves.commit:
        tombstone.emptied = 0
        files += _bury(self, name, tombstone, most)
    return files


PLANTED: Final[dict[str, Bug]] = {
    "messages deleted before the tombstone is durable": Bug(
        Catalog, "_add_tombstone", _doomed_at_once, first=50
    ),
    "a folder removed before what left it is durable": Bug(
        Catalog, "_advance_deletion", _cleared_at_once, first=441
    ),
    "a tombstone unlinked before all else is durably gone": Bug(
        Catalog, "_advance_deletion", _buried_at_once, first=20
    ),
    "old settings unlinked before newer ones are durable": Bug(Catalog, "advance", _superseded_at_once),
    "messages in new/ stay when their queue goes": Bug(Catalog, "_entries_of", _only_its_own, first=20),
    "other processes' settings aren't read": Bug(Catalog, "path_changed", lambda self, path: None),
    "torn settings stay where they are": Bug(Moves, "quarantine", _damaged_counts),
    "a message without a queue is published": Bug(
        recovery, "_publish_or_quarantine", _published_anyway, first=380
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_the_catalogue_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(seed: int, model: Model) -> CatalogStory:
        return CatalogStory(seed, model, processes=1 + seed % 3, can_sync_all=seed % 3 > 0)

    expect_broken(monkeypatch, PLANTED[planted], of, MOST_STORIES, steps=100)
