"""The cost of what dashboards and metrics ask, counted as lines of the store that run: it grows with
the answer, and with nothing that waits.
"""

from __future__ import annotations

from threading import RLock
from typing import Any

import pytest
from spoolrack_store.committer import Committer
from spoolrack_store.engine.questions import Questions
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import DeleteQueue, MessageFilter, Purge, UpdateQueue
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store_metrics import StoreMetrics
from spoolrack_store.thread_driver import ThreadDriver

from tests.support.dead_letter_rig import Rig
from tests.support.steps import steps_of

BOUNDS = [Millis(15_000 << place) for place in range(5)]


def _steps_of_ages(messages: int) -> int:
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    rig.send(*[b"x"] * messages)
    rig.after(20_000)
    views = rig.engine.views
    ages = views.ages("q", BOUNDS)
    assert ages is not None
    assert ages.counts == (0, messages, 0, 0, 0, 0)
    return steps_of(lambda: views.ages("q", BOUNDS))


def test_the_ages_of_a_queue_cost_the_same_however_many_messages_wait() -> None:
    assert _steps_of_ages(1_000) == _steps_of_ages(10)


def test_ages_are_told_to_an_eighth_of_a_second() -> None:
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    for _ in range(30):
        rig.send(b"x")
        rig.after(10_000)
    views, bounds = rig.engine.views, [Millis(100_000), Millis(200_000)]
    rig.after(128)
    ages = views.ages("q", bounds)
    assert ages is not None
    assert ages.counts == (9, 10, 11)
    rig.receive(most=11)
    ages = views.ages("q", bounds)
    assert ages is not None
    assert ages.counts == (9, 10, 0)


def _steps_of_looks(queues: int) -> int:
    names = {f"q-{number}": QueueSettings() for number in range(queues)}
    dying = QueueSettings(max_receives=1, dead_letter_queue="q-0")
    rig = Rig({**names, "dying": dying})
    engine = rig.engine

    def look() -> None:
        engine.catalog.has_writer("w")
        list(engine.catalog.sources["q-0"])
        engine.views.queues("", "", 3)

    return steps_of(look)


def test_what_is_asked_of_all_queues_costs_the_same_however_many_there_are() -> None:
    assert _steps_of_looks(200) == _steps_of_looks(20)


def test_the_sources_of_a_dead_letter_queue_are_the_queues_that_name_it() -> None:
    rig = Rig()
    assert rig.engine.catalog.sources == {"dead": {"q": None, "other": None}}
    rig.ask(DeleteQueue(name="q"))
    rig.ask(UpdateQueue(name="third", changes={"max_receives": 1, "dead_letter_queue": "dead"}))
    rig.ask(UpdateQueue(name="other", changes={"max_receives": 0, "dead_letter_queue": ""}))
    assert rig.engine.catalog.sources == {"dead": {"third": None}}


def _steps_of_metrics(removed: int) -> int:
    """Return the cost of the root's metrics while so many files wait to be unlinked."""
    rig, lock = Rig({"q": QueueSettings(messages_per_file=1)}), RLock()
    committer = Committer(rig.engine, rig.clock, lock, ThreadDriver())
    questions = Questions(rig.engine, rig.disk, lock)
    metrics = StoreMetrics(rig.engine, rig.disk, questions, committer, "root", None)
    rig.send(*[b"x"] * removed)
    rig.ask(Purge(queue="q"))
    assert metrics.root().to_be_unlinked == removed
    return steps_of(metrics.root)


def test_metrics_cost_the_same_however_many_files_wait_to_be_unlinked() -> None:
    assert _steps_of_metrics(100) == _steps_of_metrics(10)


def _most_steps_at_once(messages: int, wanted: MessageFilter, skip: int) -> int:
    """Return the most that a page of a queue costs while commits wait."""
    rig, lock = Rig({"q": QueueSettings(messages_per_file=1)}), RLock()
    for _ in range(messages // 500):
        rig.send(*[b"x"] * 500)
    steps: list[int] = []

    class Counted(Questions):
        def _locate_some(self, *asked: Any) -> list[Any]:
            found: list[Any] = []
            steps.append(steps_of(lambda: found.extend(super(Counted, self)._locate_some(*asked))))
            return found

    page = Counted(rig.engine, rig.disk, lock).page("q", wanted, "", skip, 1, 0)
    assert (len(page.messages), page.last) == (0, "")
    return max(steps)


@pytest.mark.parametrize(
    ("wanted", "is_skipped"),
    [(MessageFilter(), True), (MessageFilter(group="g"), False)],
    ids=["skipped", "filtered"],
)
def test_a_page_keeps_commits_waiting_for_no_longer_the_more_messages_it_passes_over(
    wanted: MessageFilter, is_skipped: bool
) -> None:
    few, many = (
        _most_steps_at_once(messages, wanted, messages if is_skipped else 0)
        for messages in (1_000, 3_000)
    )
    assert many < 1.1 * few
