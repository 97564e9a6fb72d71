"""A queue holds no more than its limits, whichever process and way its messages come."""

from __future__ import annotations

import pytest
from spoolrack_store.engine import effort
from spoolrack_store.engine.effort import FILES
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import SECOND, Millis
from spoolrack_store.model.operations import Receive, Send
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig
from tests.support.engines import applied

LIMITED = {
    "few": QueueSettings(max_messages=5),
    "small": QueueSettings(max_bytes=5),
    "old": QueueSettings(retention=Millis(60 * SECOND)),
}


def stored(answer: object) -> list[bool]:
    return [isinstance(each, str) for each in answer.results]  # type: ignore[attr-defined]


def total(engine: Engine, queue: str) -> int:
    return engine.index.queue(queue).total


@pytest.mark.parametrize("queue", ["few", "small"])
def test_what_another_process_has_sent_and_not_published_takes_room(queue: str) -> None:
    rig = EngineRig(LIMITED)
    other = rig.join()
    send = Send(queue=queue, bodies=[b"x"] * 3)
    assert stored(rig.ask(send)) == [True] * 3
    # The file is answered, and in `new/` until the next commit of its process.
    assert len(rig.names("new")) == 1
    assert stored(rig.ask(send, other)) == [True, True, False]
    assert stored(rig.ask(send)) == [False] * 3
    rig.settle()
    rig.settle(other)
    rig.tick()
    assert total(rig.engine, queue) == total(other, queue) == 5


def test_what_another_process_has_leased_as_it_was_sent_is_counted_once() -> None:
    rig = EngineRig(LIMITED)
    other = rig.join()
    rig.ask(Receive(queue="few", max_messages=2))
    applied(rig.engine, Send(queue="few", bodies=[b"x"] * 3), Receive(queue="few", max_messages=2))
    assert len(rig.names("new")) == 2  # A name of all, and one of those that are leased.
    assert stored(rig.ask(Send(queue="few", bodies=[b"x"] * 3), other)) == [True, True, False]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("queue", ["few", "small"])
def test_what_a_dead_process_has_sent_takes_room_before_it_is_in_its_queue(
    queue: str, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "FILES", 1)  # A commit publishes one of its files.
    rig = EngineRig(LIMITED)
    other = rig.join() if beside else None
    for _ in range(4):
        work = applied(rig.engine, Send(queue=queue, bodies=[b"x"]))  # No commit is finished.
        assert work.barrier is not None
        work.barrier.sync()
    assert len(rig.names("new")) == 4
    rig.living -= {"p1"}
    rig.disk.free_locks()
    rig.engine = other or rig.join()
    rig.tick()
    assert len(rig.names("new")) > 1
    sent = [rig.ask(Send(queue=queue, bodies=[b"x"])) for _ in range(3)]
    assert sum(sum(stored(each)) for each in sent) <= 1
    for _ in range(3):
        rig.settle()
    rig.ask(Send(queue=queue, bodies=[b"x"] * 3))
    rig.settle()
    assert total(rig.engine, queue) == 5


# Background work that a process leaves to others.


def test_a_process_that_brings_nothing_back_does_not_while_a_queue_waits_for_expiry() -> None:
    rig = EngineRig(LIMITED, background=BackgroundWork(brings_back=False))
    for _ in range(2 * FILES):
        rig.ask(Send(queue="old", bodies=[b"x"]))
    rig.ask(Send(queue="few", bodies=[b"x"]))
    rig.settle()
    rig.ask(Receive(queue="few", max_messages=1, visibility_timeout=SECOND))
    rig.clock.now += 60 * SECOND
    # More than one commit may delete is too old.
    rig.commit(Receive(queue="old", max_messages=1))
    assert rig.names("queues/old")
    for _ in range(10):
        rig.commit()
    assert rig.names("queues/old") == []
    assert len(rig.names("delay")) == 1
