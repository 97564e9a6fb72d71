"""Each tick of a schedule is sent once, through power cuts and deaths at any step, alone and beside
other processes; and each condition of it is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from spoolrack_store.engine.catalog import Catalog, QueueRecord
from spoolrack_store.engine.schedule_catalog import ScheduleCatalog
from spoolrack_store.engine.stages import Stages, _End
from spoolrack_store.model.schedule_requests import Fire
from spoolrack_store.model.stage_requests import Publish

from tests.proof.crash.planted import Bug, expect_broken
from tests.proof.crash.schedule_story import ScheduleStory
from tests.support.engine_story import seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(25)
MOST_STORIES = 600


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_tick_is_sent_once(model: Model, can_sync_all: bool) -> None:
    told = tell(ScheduleStory, SEEDS, model, can_sync_all=can_sync_all)
    assert told.least("crashes", "ticks_sent", "ticks_received", "repeated") >= len(SEEDS)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_processes_that_share_a_root_send_a_tick_once(model: Model, processes: int) -> None:
    told = tell(ScheduleStory, SEEDS, model, processes=processes)
    assert told.least("crashes", "ticks_sent", "ticks_received", "repeated") >= len(SEEDS)


def _forgotten_with_its_schedule_not_durably_gone(self: Catalog, writer: str) -> bool:
    return any(
        each.writer == writer for record in self.records.values() for each in record.schedules.values()
    )


def _forgotten_in_time(self: Catalog, writer: str) -> bool:
    return False


def _an_older_one_forgotten_in_time(self: Stages, end: _End) -> bool:
    if end.manifest is None or end.manifest.expires_at > self._clock.wall():
        return False
    return self._last_of(end.writer) is not end or not self._catalog.has_writer(end.writer)


def _not_synced(self: Stages, stages: object) -> None:
    pass


def _staged_although_it_is_paused(self: ScheduleCatalog, request: Fire) -> Publish | None:
    record, _ = self._require(request.queue, request.name)
    self._catalog.records[record.name] = _resumed(record, request.name)
    try:
        return _stage(self, request)
    finally:
        self._catalog.records[record.name] = record


def _resumed(record: QueueRecord, name: str) -> QueueRecord:
    there = replace(record.schedules[name], is_paused=False)
    return replace(record, schedules={**record.schedules, name: there})


_stage = ScheduleCatalog._stage

BESIDE_OTHERS = "the tick before is forgotten before the last one is durable"
PLANTED: Final[dict[str, Bug]] = {
    "its last tick is forgotten before its end is durable": Bug(
        Catalog, "has_writer", _forgotten_with_its_schedule_not_durably_gone, first=374
    ),
    "its last tick is forgotten in time": Bug(Catalog, "has_writer", _forgotten_in_time),
    BESIDE_OTHERS: Bug(Stages, "_is_to_be_forgotten", _an_older_one_forgotten_in_time, first=538),
    "a manifest before its chunk": Bug(Stages, "_sync", _not_synced, first=136),
    "a pause that stops nothing": Bug(ScheduleCatalog, "_stage", _staged_although_it_is_paused),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    # One process alone meets that in one story of 600.
    processes = 3 if planted == BESIDE_OTHERS else 1
    expect_broken(monkeypatch, PLANTED[planted], ScheduleStory, MOST_STORIES, processes=processes)
