"""A queue with `expires` is removed once it is idle for so long, and never while it is of use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import HOUR, SECOND, Millis
from spoolrack_store.model.errors import QueueNotFound
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Receive, Send, UpdateQueue
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Stage

from tests.store.front_rig import opened
from tests.store.trouble_rig import Rig, TwoProcesses
from tests.support.engines import begun, commit

EXPIRES = Millis(40 * SECOND)
STEP = 10 * SECOND
SETTINGS = QueueSettings(expires=EXPIRES)


@pytest.fixture
def rig() -> Rig:
    rig = Rig(expires=EXPIRES)
    rig.commit()
    return rig


def has_queue(engine: Engine) -> bool:
    return "q" in engine.catalog.records


def pass_time(rig: Rig, millis: int) -> None:
    for _ in range(millis // STEP):
        rig.advance(STEP)
        rig.tick()


def test_an_idle_queue_is_removed_when_it_has_expired_and_no_sooner(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pass_time(rig, EXPIRES - STEP)
    assert has_queue(rig.engine)
    assert "is removed" not in caplog.text
    pass_time(rig, 2 * STEP)
    assert not has_queue(rig.engine)
    assert "the queue q is removed: it was idle for its expires of" in caplog.text
    for _ in range(4):
        rig.tick()
    assert rig.paths("config", "queues") == []
    with pytest.raises(QueueNotFound):
        rig.send(b"late")


def test_a_queue_that_does_not_expire_stays() -> None:
    rig = Rig()
    pass_time(rig, HOUR)
    assert has_queue(rig.engine)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: Receive(queue="q", max_messages=1),
        lambda: CreateQueue(name="q", settings=SETTINGS),
        lambda: Send(queue="q", bodies=[]),
        lambda: Stage(stage="s", chunk_number=0, queue="q", bodies=[b"a"], time_to_live=Millis(HOUR)),
    ],
    ids=["a receive that finds nothing", "a declaration", "a send", "a chunk"],
)
def test_each_request_for_a_queue_counts_as_use(rig: Rig, request_of: Callable[[], Any]) -> None:
    for _ in range(3):
        pass_time(rig, EXPIRES - STEP)
        rig.commit(request_of())
    assert has_queue(rig.engine)
    pass_time(rig, EXPIRES + STEP)
    assert not has_queue(rig.engine)


@pytest.mark.parametrize("state", ["ready", "leased", "delayed"])
def test_a_queue_with_a_message_stays_and_expires_after_it_is_gone(rig: Rig, state: str) -> None:
    delays = {0: Millis(HOUR)} if state == "delayed" else {}
    rig.ask(Send(queue="q", bodies=[b"a"], delays=delays))
    rig.commit()
    if state == "leased":
        rig.ask(Receive(queue="q", max_messages=1, visibility_timeout=Millis(HOUR)))
    pass_time(rig, 3 * EXPIRES)
    assert has_queue(rig.engine)
    rig.advance(HOUR)
    rig.tick()
    ((receipt, _),) = rig.receive().values()
    rig.delete(receipt)
    pass_time(rig, EXPIRES - STEP)
    assert has_queue(rig.engine)
    pass_time(rig, 2 * STEP)
    assert not has_queue(rig.engine)


def test_a_start_counts_as_use(rig: Rig) -> None:
    pass_time(rig, EXPIRES - STEP)
    rig.start()
    rig.commit()
    pass_time(rig, EXPIRES - STEP)
    assert has_queue(rig.engine)


def test_a_queue_that_was_made_anew_or_changed_expires_by_its_own_time(rig: Rig) -> None:
    pass_time(rig, EXPIRES - STEP)
    rig.ask(DeleteQueue(name="q"))
    while rig.engine.catalog.is_being_deleted("q"):
        rig.tick()
    rig.ask(CreateQueue(name="q", settings=SETTINGS))
    pass_time(rig, EXPIRES - STEP)
    assert has_queue(rig.engine)
    rig.ask(UpdateQueue(name="q", changes={"expires": 0}))
    pass_time(rig, 3 * EXPIRES)
    assert has_queue(rig.engine)


def test_a_queue_with_a_schedule_or_one_that_takes_dead_letters_stays(rig: Rig) -> None:
    rig.add("work", max_receives=1, dead_letter_queue="q")
    rig.ask(CreateQueue(name="daily", settings=SETTINGS))
    rig.ask(CreateSchedule(queue="daily", name="s", cron="0 0 * * *", time_zone="UTC", body=b"a"))
    pass_time(rig, 3 * EXPIRES)
    assert {"q", "daily"} <= rig.engine.catalog.records.keys()


def test_a_queue_stays_as_long_as_a_receive_waits(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        rig.ask(UpdateQueue(name="q", changes={"expires": EXPIRES}))
        waiting = rig.wait_for()
        rig.in_turn()
        for _ in range(20):
            clock.advance(STEP)
            rig.in_turn()
        (id,) = rig.send(b"a")
        assert [each.ids[0] for each in waiting.result(5)] == [id]


def pass_both(both: TwoProcesses, millis: int, use: Callable[[], object] = lambda: None) -> None:
    for _ in range(millis // STEP):
        both.clock.now += STEP
        use()
        commit(both.first, tick=True)
        commit(both.second, tick=True)


@pytest.mark.parametrize("user", ["first", "second"])
def test_a_use_in_any_process_keeps_the_queue(user: str) -> None:
    both = TwoProcesses(expires=EXPIRES)
    pass_both(both, STEP)
    engine = getattr(both, user)
    receive = Receive(queue="q", max_messages=1)
    pass_both(both, 5 * EXPIRES, lambda: commit(engine, receive))
    assert has_queue(both.first)
    assert has_queue(both.second)
    pass_both(both, 3 * EXPIRES)
    assert not has_queue(both.first)
    assert not has_queue(both.second)


def test_uses_that_follow_each_other_are_shown_to_other_processes_by_one_change_of_the_folder() -> None:
    both = TwoProcesses(expires=EXPIRES)
    pass_both(both, STEP)
    both.disk.called.clear()
    for _ in range(5):
        commit(both.first, Receive(queue="q", max_messages=1))
    assert [call for call in both.disk.called if call[0] == "touch"] == [("touch", ("queues/q",))]


def test_a_receive_that_waits_in_one_process_keeps_the_queue_for_all() -> None:
    both = TwoProcesses(expires=EXPIRES)
    both.first.expiry.is_awaited = lambda queue: queue == "q"
    pass_both(both, 5 * EXPIRES)
    assert has_queue(both.second)


def test_a_message_that_another_process_has_not_published_keeps_the_queue() -> None:
    both = TwoProcesses(expires=EXPIRES)
    pass_both(both, EXPIRES)
    work = begun(both.first, Send(queue="q", bodies=[b"a"]))
    both.first.finish(work)
    for _ in range(20):
        both.clock.now += STEP
        commit(both.second, tick=True)
    assert has_queue(both.second)
    commit(both.first, tick=True)
    assert both.received() == [b"a"]
