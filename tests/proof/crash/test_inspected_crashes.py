"""An inspection raises no false alarm, whatever death or power cut came before."""

from __future__ import annotations

from spoolrack_store.files.layout import FOLDERS
from spoolrack_store.fsck.inspection import inspect
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.settings import Record, encode

from tests.proof.crash.stories import ALONE_AND_SHARED, Run
from tests.support.engine_story import QUEUES, SETTINGS, Story


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
        for folder in FOLDERS:
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


@ALONE_AND_SHARED
def test_no_crash_leaves_a_problem(run: Run) -> None:
    told = run.tell(InspectedStory, 4, steps=40)
    assert told["inspected"] > 10 * told["stories"]
