"""Stages are published whole or not at all, through power cuts, and through deaths at any step, alone
and beside other processes; and each condition of it is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from spoolrack_store.engine import stages
from spoolrack_store.engine.stages import EndState, Stages, _End, _OpenStage
from spoolrack_store.model.manifest import Manifest
from spoolrack_store.model.stage_requests import Publish, Published

from tests.proof.crash.planted import Bug, expect_broken, expect_relisted
from tests.proof.crash.stage_story import StageStory
from tests.support.engine_story import caching, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)
MOST_STORIES = 400


def _tell(model: Model, **named: bool | int) -> None:
    told = tell(caching(StageStory), SEEDS, model, steps=100, **named)
    assert told.least("crashes", "arrived", "dropped", "published", "repeated") >= len(SEEDS)
    assert told["taken"]


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_publication_is_whole_or_nothing(model: Model, can_sync_all: bool) -> None:
    _tell(model, can_sync_all=can_sync_all)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_share_its_stages(model: Model, processes: int) -> None:
    _tell(model, processes=processes)


@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_history_that_has_found_a_fault_is_told_again(model: Model) -> None:
    StageStory(46, model, processes=3).run(100)


def test_a_process_that_others_have_overtaken_reads_the_stages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expect_relisted(monkeypatch, StageStory, 2_000)


# Planted bugs.

_finish = Stages._finish
_publish = Stages.publish
_leave_end = Stages._leave_end
_owns = stages._owns


def _not_waiting_for_the_record(self: Stages) -> None:
    for end in self._unfinished_ends:
        if end.state is EndState.WRITTEN:
            end.since = 0
    _advance(self)


_advance = Stages.advance


def _not_waiting_for_the_moves(self: Stages, end: _End, most: int) -> int:
    count = _finish(self, end, most)
    return count + _finish(self, end, most) if end.state is EndState.EMPTIED else count


def _taken_at_once(self: Stages, end: _End) -> None:
    _leave_end(self, end)
    for life in end.lives:
        self._ends_by_life.pop(life, None)


def _older_first(self: Stages, request: Publish) -> Published:
    published = _publish(self, request)
    for older in self._writers[request.writer][:-1]:
        if older.state is EndState.EMPTIED and older.since <= self._moves.synced:
            self._moves.unlink_file(older.path)
            self._leave_end(older)
    return published


def _unlinked_one_by_one(self: Stages, stage: _OpenStage) -> None:
    for chunk in list(stage.chunks.values()):
        self._moves.unlink_file(chunk.path)
        self._leave_chunk(chunk)


def _owned_by_this_process(request: Publish, last: Manifest, last_epoch: int) -> bool:
    return _owns(request, replace(last, owner=""), last_epoch)


PLANTED: Final[dict[str, Bug]] = {
    "chunks moved before the manifest is durable": Bug(
        Stages, "advance", _not_waiting_for_the_record, first=9
    ),
    "a record unlinked before its chunks are durably gone": Bug(
        Stages, "_finish", _not_waiting_for_the_moves
    ),
    "an epoch forgotten before the next is durable": Bug(Stages, "publish", _older_first),
    "a manifest made before its chunks are durable": Bug(
        Stages, "_sync", lambda self, stages: None, first=293
    ),
    "a chunk kept that a power cut has torn": Bug(
        Stages, "_is_whole", lambda self, chunk: True, first=11
    ),
    "a chunk kept that a death has torn": Bug(stages, "_is_short", lambda chunk, size: False),
    "a stage that begins a life whose record may come back": Bug(
        Stages, "_leave_end", _taken_at_once, first=395
    ),
    "another process's files not heard of": Bug(Stages, "path_changed", lambda self, path: None),
    "a stage dropped without a record": Bug(Stages, "_drop", _unlinked_one_by_one),
    "the younger of two stages kept": Bug(Stages, "_drop_doubles", lambda self: None, first=284),
    "an owner forgotten with the process": Bug(stages, "_owns", _owned_by_this_process),
    "a chunk not compared": Bug(Stages, "_holds", lambda self, chunk, request: True),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(seed: int, model: Model) -> StageStory:
        StageStory(seed, model, processes=2).run(120)
        return StageStory(seed, model, processes=1)

    expect_broken(monkeypatch, PLANTED[planted], of, MOST_STORIES)
