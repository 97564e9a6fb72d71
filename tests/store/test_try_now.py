"""A plain request in its caller's thread: its answer is durable, it comes only while nothing else is at
work, and what it leaves is done by the driver."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.errors import OutcomeUnknown, StoreFailed
from spoolrack_store.model.operations import CreateQueue, Delete, Purge, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import (
    GIVE_UP,
    CallersDriver,
    FrontRig,
    bodies_of,
    opened,
    receipts_of,
    taken_lock,
)

SEND = Send(queue="q", bodies=[b"x"])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FrontRig]:
    with opened(tmp_path, ManualClock()) as rig:
        rig.in_turn()
        yield rig


def sent(rig: FrontRig, body: bytes = b"x") -> str:
    """Send in this thread; the driver may be about to do what the request before has left."""
    send, pause = Send(queue="q", bodies=[body]), threading.Event()
    for _ in range(10_000):
        answer = rig.store.try_now(send, math.inf)
        if answer is not None:
            return str(answer.results[0])
        pause.wait(0.001)
    raise AssertionError("the store doesn't come to rest")


def until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(10_000):
        if is_so():
            return
        pause.wait(0.002)
    raise AssertionError("it never comes")


def test_an_answer_is_durable(rig: FrontRig) -> None:
    before = rig.disk.syncs
    sent(rig)
    assert rig.disk.syncs > before


def test_a_failed_sync_leaves_the_outcome_unknown_and_stops_the_store(rig: FrontRig) -> None:
    sent(rig)
    rig.disk.fails = True
    with pytest.raises(OutcomeUnknown):
        sent(rig)
    assert isinstance(rig.store.failure, StoreFailed)
    assert rig.store.try_now(SEND, math.inf) is None
    rig.disk.fails = False
    with pytest.raises(StoreFailed):
        rig.send(b"y")


def test_nothing_is_done_beside_a_commit_however_often_it_is_tried(rig: FrontRig) -> None:
    reached, advance = threading.Event(), threading.Event()

    def hold() -> None:
        rig.disk.before_sync = None
        reached.set()
        assert advance.wait(GIVE_UP)

    rig.disk.before_sync = hold
    first = rig.store.submit(Send(queue="q", bodies=[b"first"]))
    assert reached.wait(GIVE_UP)
    tried = [rig.store.try_now(SEND, math.inf) for _ in range(3)]
    advance.set()
    first.result(GIVE_UP)
    assert tried == [None, None, None]
    assert bodies_of(rig.receive(9)) == [b"first"]


def test_nothing_is_done_before_what_waits(rig: FrontRig) -> None:
    with rig.store._committer._guard:  # The driver takes nothing meanwhile.
        earlier = rig.store.submit(Send(queue="q", bodies=[b"earlier"]))
        assert rig.store.try_now(SEND, math.inf) is None
    earlier.result(GIVE_UP)


def test_what_is_sent_beside_a_receive_that_waits_is_given_to_it(rig: FrontRig) -> None:
    waiting = rig.wait_for()
    assert rig.store.try_now(SEND, math.inf) is None
    rig.send(b"x")
    assert bodies_of(waiting.result(GIVE_UP)) == [b"x"]


def test_nothing_is_done_where_the_disk_is_slower_than_the_caller_bears(rig: FrontRig) -> None:
    assert rig.store.try_now(SEND, 0) is None


def test_what_is_not_plain_is_not_done(rig: FrontRig) -> None:
    assert rig.store.try_now(Purge(queue="q"), math.inf) is None


def test_nothing_is_done_after_a_drain_and_a_close(rig: FrontRig) -> None:
    rig.store.drain()
    assert rig.store.try_now(SEND, math.inf) is None
    rig.store.close()
    assert rig.store.try_now(SEND, math.inf) is None


def test_nothing_is_done_while_another_process_holds_the_lock(rig: FrontRig) -> None:
    lock = taken_lock(rig.path)
    try:
        assert rig.store.try_now(SEND, math.inf) is None
    finally:
        lock.release()
    sent(rig)


def test_what_was_sent_is_published_without_another_request(rig: FrontRig) -> None:
    sent(rig)
    rig.manual_clock.advance(100)
    until(lambda: not list((rig.path / "new").iterdir()))
    assert len(list((rig.path / "queues" / "q").iterdir())) == 1


def test_what_was_deleted_is_unlinked_without_another_request(rig: FrontRig) -> None:
    sent(rig)
    found = rig.receive()
    delete = Delete(queue="q", receipts=receipts_of(found))
    until(lambda: rig.store.try_now(delete, math.inf) == [None])
    rig.manual_clock.advance(100)
    until(lambda: not list((rig.path / "remove").iterdir()))


def test_a_lease_ends_without_another_request(rig: FrontRig) -> None:
    sent(rig)
    until(lambda: bool(rig.store.try_now(Receive(queue="q"), math.inf)))
    assert not list((rig.path / "queues" / "q").iterdir())
    rig.manual_clock.advance(30_000)
    until(lambda: len(list((rig.path / "queues" / "q").iterdir())) == 1)


class WokenDriver(CallersDriver):
    """Counts how often it is woken."""

    woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_a_delete_wakes_the_driver_for_a_receive_that_waits_for_its_credit(tmp_path: Path) -> None:
    driver, credits = WokenDriver(), Credits(1, lambda: None)
    with Store.open(tmp_path / "root", clock=ManualClock(), driver=driver) as store:
        for name in ("q", "other"):
            store.submit(CreateQueue(name=name, settings=QueueSettings()))
        ask = [Receive(queue="q", wait=None, credits=credits) for _ in range(2)]
        first = store.submit(ask[0])
        for body in (b"first", b"second"):
            store.submit(Send(queue="q", bodies=[body]))
            driver.run()
        waiting = store.submit(ask[1])
        driver.run()
        # It looks soon: another caller may come before.
        assert store.try_now(Send(queue="other", bodies=[b"x"]), math.inf) is not None
        assert driver.committer.poll_work()[0] is False
        driver.woken = 0
        delete = Delete(queue="q", receipts=receipts_of(first.result(0)))
        assert store.try_now(delete, math.inf) == [None]
        assert driver.woken > 0
        driver.run()
        assert bodies_of(waiting.result(0)) == [b"second"]
