"""An inspection raises no false alarm, whatever death or power cut came before."""

from __future__ import annotations

from typing import Final

import pytest
from spoolrack_store.fsck.inspection import KNOWN, inspect
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.settings import Record, encode

from tests.support.engine_story import QUEUES, SETTINGS, Story, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


class InspectedStory(Story):
    """Each step, each death and each power cut leaves a root without a problem."""

    inspected = 0

    def _check(self, engine: object) -> None:
        super()._check(engine)  # type: ignore[arg-type]
        self._inspect()

    def _power_cut(self, cut: object) -> None:
        super()._power_cut(cut)  # type: ignore[arg-type]
        self._inspect()

    def _inspect(self) -> None:
        there = {found.name for found in self.disk.scan(".")}
        for folder in KNOWN:
            if folder not in there:
                self.disk.make_folder(folder)
        for queue in QUEUES:
            content = encode(Record(settings=SETTINGS[queue], created_at=Millis(1)))
            try:
                self.disk.create(f"config/{queue}.1.json", [content], sync=True)
            except FileExistsError:
                continue
        report = inspect(self.disk, self.clock)  # type: ignore[arg-type]
        assert report.problems == [], report.problems
        assert report.unchecked == 0
        self.inspected += 1


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("model", list(Model))
def test_no_crash_leaves_a_problem(model: Model, processes: int) -> None:
    told = tell(InspectedStory, SEEDS, model, steps=40, processes=processes)
    assert told["inspected"] > 10 * len(SEEDS)
