"""The engine keeps its promises through power cuts, and through deaths at any step, alone and beside
others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest
from spoolrack_store.engine import recovery, sharing
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.entries import Entry
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.sender import Sender
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.files import changes
from spoolrack_store.files.changes import Change, Changes

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken, expect_relisted
from tests.support.engine_story import Story, caching


@ALONE
def test_every_message_is_found_as_it_was_promised(run: Run) -> None:
    told = run.tell(caching(Story), 8, steps=80)
    assert told["crashes"] > told["stories"]


@SHARED
def test_processes_that_share_a_root_know_exactly_what_is_there(run: Run) -> None:
    told = run.tell(caching(Story), 8)
    assert told.least("crashes", "replayed") > told["stories"]
    assert told["buried"] > 0


def _marked_at_once(self: Changes, change: Change) -> None:
    _intend(self, change)
    if self.is_shared:
        self._done = self._head
        self._write_header()


_intend = Changes.intend
_begin_sync = Moves.begin_sync
_read_rest = Sharing._read_rest


def _synced_too_early(self: Moves) -> object:
    number, commit = _begin_sync(self)
    self.synced = number
    return number, commit


def _published_unsynced(self: Sender) -> None:
    self.in_new = dict.fromkeys(self.in_new, 0)
    _publish(self)


def _listed_as_at_its_start(self: Sharing) -> None:
    self.has_opened = False
    _read_rest(self)


def _leases_left_in_new(self: Sender, entries: Iterable[Entry]) -> object:
    return _publish_all(self, [entry for entry in entries if not entry.name.token])


_publish, _publish_all = Sender.advance, Sender.enqueue


PLANTED: Final[dict[str, Bug]] = {
    "an answer before its sync": Bug(Engine, "_needs_sync", lambda self, requests, outcomes: False),
    "an answer that rests on unsynced moves of others": Bug(
        Sharing, "_built_on_others", lambda self: None
    ),
    "a move in doubt taken for made": Bug(Changes, "in_doubt", lambda self: self.decide(True)),
    "a move in doubt taken for not made": Bug(Changes, "in_doubt", lambda self: self.decide(False)),
    "a move marked as made with its record": Bug(Changes, "intend", _marked_at_once, first=14),
    "a process that is alone isn't told of another": Bug(
        Changes, "is_shared", property(lambda self: False)
    ),
    "a torn file published": Bug(recovery, "_is_whole", lambda moves, batch: True),
    "a file published before it is durable": Bug(Sender, "advance", _published_unsynced, first=8),
    "a commit taken for synced when its sync begins": Bug(
        Moves, "begin_sync", _synced_too_early, first=8
    ),
    "a lease answered before other processes can find it": Bug(Sender, "enqueue", _leases_left_in_new),
    "the dead's sends left in new/": Bug(sharing, "listed_orphans", lambda moves, dead: []),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], Story, processes=2)


@pytest.mark.parametrize("ring", [1_600, 2_000])
def test_a_process_that_others_have_overtaken_lists_the_root(
    ring: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_relisted(monkeypatch, Story, ring)


def test_what_a_process_lists_that_was_overtaken_is_synced_before_it_answers_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "RING", 1_600)
    bug = Bug(Sharing, "_read_rest", _listed_as_at_its_start, first=1_400)
    expect_broken(monkeypatch, bug, Story, processes=3)
