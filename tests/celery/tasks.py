"""What tasks do, whichever broker carries them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import chord

from tests.celery import celery_app
from tests.celery.worker_rig import until
from tests.support import STUCK


@pytest.mark.usefixtures("running")
class Tasks:
    """Tests over the worker of the module's fixture `running`."""

    numbers = range(20)
    """More than a child of the worker does that ends after ten tasks."""

    def test_tasks_return_their_results(self) -> None:
        results = [celery_app.add.delay(number, 1) for number in self.numbers]
        assert [result.get(timeout=STUCK) for result in results] == [
            number + 1 for number in self.numbers
        ]

    def test_a_task_that_asks_for_a_retry_runs_again(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        celery_app.third_time.delay(str(log))
        until(lambda: log.exists() and log.read_text() == "0\n1\n2\n", "the task has run three times")

    def test_a_task_with_a_countdown_or_an_eta_runs_no_earlier(self) -> None:
        before = time.time()
        counted = celery_app.now.apply_async(countdown=1)
        timed = celery_app.now.apply_async(eta=datetime.now(UTC) + timedelta(seconds=1))
        assert counted.get(timeout=STUCK) >= before + 1
        assert timed.get(timeout=STUCK) >= before + 1

    def test_a_chord_calls_its_body_with_all_results(self) -> None:
        found = chord([celery_app.add.s(number, 1) for number in self.numbers])(
            celery_app.total.s()
        ).get(timeout=STUCK)
        assert found == sum(number + 1 for number in self.numbers)
