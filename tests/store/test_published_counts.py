"""Counts are published at the end of each commit, and a look at them waits for no commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.reservation_requests import CommitReservations, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.store import Store
from spoolrack_store.thread_driver import run_whole

from tests.budget.test_calls import CallersDriver
from tests.store.front_rig import GIVE_UP
from tests.support.dead_letter_rig import Rig
from tests.support.steps import steps_of

HOLD = Millis(60_000)


class HeldDisk(LocalDisk):
    """A disk that keeps a commit at its work."""

    is_held = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_at_work = Event()
        self.goes_on = Event()

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if self.is_held:
            self.is_at_work.set()
            assert self.goes_on.wait(GIVE_UP)
        super().create(path, parts, sync=sync)


@pytest.fixture
def looker() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Return what looks from another thread, and fails if it has to wait."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda look: thread.submit(look).result(GIVE_UP / 2)


def test_a_look_during_a_commits_work_returns_what_the_last_one_published(
    tmp_path: Path, looker: Callable[[Callable[[], Any]], Any]
) -> None:
    disk = HeldDisk(tmp_path)
    with Store.open(tmp_path, disk=disk) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result(GIVE_UP)
        store.submit(Send(queue="q", bodies=[b"x", b"y"])).result(GIVE_UP)
        disk.is_held = True
        sent = store.submit(Send(queue="q", bodies=[b"z"]))
        assert disk.is_at_work.wait(GIVE_UP)
        try:
            looks = (
                lambda: store.summary("q").counts.ready_count,
                lambda: store.queue("q").counts.ready_count,
                lambda: store.queues()[0].counts.ready_count,
                lambda: next(each.ready for each in store.metrics.queues()),
                lambda: store.metrics.root().queues + 1,
                lambda: len(store.metrics.names()) + 1,
            )
            assert [looker(look) for look in looks] == [2] * len(looks)
            assert not sent.done()
        finally:
            disk.goes_on.set()
        sent.result(GIVE_UP)
        assert store.summary("q").counts.ready_count == 3


class Stopped:
    """A store that commits only when it is told to."""

    def __init__(self, root: Path) -> None:
        self.driver = CallersDriver()
        self.store = Store.open(root, clock=ManualClock(), driver=self.driver)
        self.driver.run()

    def ask(self, request: Any) -> Any:
        """Return the answer of a request, and do nothing after it."""
        answer = self.store.submit(request)
        run_whole(self.driver.committer)
        return answer.result(0)

    def counts(self, queue: str = "q") -> tuple[int, int, int]:
        counts = self.store.summary(queue).counts
        return counts.ready_count, counts.leased_count, counts.delayed_count


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Stopped]:
    stopped = Stopped(tmp_path / "root")
    with stopped.store:
        stopped.ask(CreateQueue(name="q", settings=QueueSettings()))
        yield stopped


def test_what_was_answered_is_counted_by_a_look_right_after_it(stopped: Stopped) -> None:
    stopped.ask(Send(queue="q", bodies=[b"x", b"yy"], delays={1: HOLD}))
    assert stopped.counts() == (1, 0, 1)
    summary = stopped.store.summary("q")
    assert (summary.counts.byte_count, summary.traffic.entered) == (3, 2)
    assert summary.counts.oldest is not None
    (message,) = messages_of(stopped.ask(Receive(queue="q")))
    assert stopped.counts() == (0, 1, 1)
    stopped.ask(Delete(queue="q", receipts=[message.receipt]))
    assert stopped.counts() == (0, 0, 1)
    stopped.ask(UpdateQueue(name="q", changes={"sending": "paused"}))
    assert stopped.store.summary("q").settings.sending == "paused"
    assert [each.reason for each in stopped.store.queue("q").obstacles] == [
        "SENDING_PAUSED",
        "NOTHING_READY",
    ]
    stopped.ask(DeleteQueue(name="q"))
    assert stopped.store.queues() == stopped.store.metrics.names() == []


def test_a_published_stage_and_a_committed_set_are_counted_right_after_their_answers(
    stopped: Stopped,
) -> None:
    stopped.ask(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"1", b"2"]))
    assert stopped.counts() == (0, 0, 0)
    stopped.ask(Publish(stages=["s"], writer="w", epoch=1))
    assert stopped.counts() == (2, 0, 0)
    stopped.driver.run()
    stopped.ask(Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD))
    stopped.driver.run()
    assert stopped.counts() == (0, 2, 0)
    assert [each.reason for each in stopped.store.queue("q").obstacles] == ["NOTHING_READY", "RESERVED"]
    stopped.ask(CommitReservations(stream="s", last_sequence_number=0))
    assert stopped.counts() == (0, 0, 0)


def _steps_of_a_publication(queues: int, messages: int) -> int:
    names = {f"q-{number}": QueueSettings(messages_per_file=1) for number in range(queues)}
    rig = Rig(names)
    for name in names:
        rig.ask(Send(queue=name, bodies=[b"x"] * messages))
    rig.ask()
    rig.engine.index.outdated_queues["q-1"] = None
    return steps_of(rig.engine.update_metrics)


def test_a_commit_publishes_at_a_cost_of_the_queues_that_it_has_changed() -> None:
    assert _steps_of_a_publication(3, 2) == _steps_of_a_publication(30, 20)


def test_an_answered_send_that_another_process_purges_is_counted_no_more() -> None:
    rig = Rig({"q": QueueSettings()})
    other = rig.join("p2")
    rig.ask(Send(queue="q", bodies=[b"x"]))
    assert rig.engine.views.metrics("q").ready == 1
    other.ask(Purge(queue="q"))
    assert rig.engine.with_exact_index(rig.engine.update_metrics) is None
    assert rig.engine.views.metrics("q").ready == 0


def test_a_look_while_the_store_closes_returns_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path)
    store.submit(CreateQueue(name="q", settings=QueueSettings())).result(GIVE_UP)
    store.submit(Send(queue="q", bodies=[b"x"])).result(GIVE_UP)

    def closed_before(self: Sharing) -> bool:
        monkeypatch.undo()
        store.close()
        return self._changes.has_news

    monkeypatch.setattr(Sharing, "has_news", property(closed_before))
    assert store.summary("q").counts.ready_count == 1
