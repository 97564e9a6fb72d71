"""A paused queue takes no sends, or hands out nothing; leases from before end as ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import SendingPaused
from spoolrack_store.model.operations import (
    CreateQueue,
    Message,
    Receive,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.store import Store

from tests.support.engines import commit
from tests.support.root_rig import Still, lay_out, opened, settle


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    lay_out(tmp_path / "root")
    return opened(tmp_path / "root")


def set_flow(engine: Engine, **changes: str) -> None:
    commit(engine, UpdateQueue(name="q", changes=changes))


def send(engine: Engine, *bodies: bytes) -> None:
    commit(engine, Send(queue="q", bodies=list(bodies)))
    settle(engine)


def receive(engine: Engine, count: int = 10) -> Sequence[Message]:
    (found,) = commit(engine, Receive(queue="q", max_messages=count))
    return messages_of(found)


def test_a_publication_into_a_paused_queue_publishes_nothing_and_can_be_repeated(
    engine: Engine,
) -> None:
    commit(engine, Stage(stage="s", chunk_number=0, queue="q", bodies=[b"staged"]))
    settle(engine)
    set_flow(engine, sending="paused")
    publish = Publish(writer="w", epoch=1, stages=["s"])
    (refused,) = commit(engine, publish)
    assert isinstance(refused, SendingPaused)
    settle(engine)
    assert receive(engine) == []
    set_flow(engine, sending="open")
    commit(engine, publish)
    settle(engine)
    assert [each.body for each in receive(engine)] == [b"staged"]


def test_a_paused_queue_hands_out_nothing_neither_what_is_ready_nor_what_is_just_sent(
    engine: Engine,
) -> None:
    send(engine, b"ready")
    set_flow(engine, receiving="paused")
    _, found = commit(engine, Send(queue="q", bodies=[b"fresh"]), Receive(queue="q", max_messages=10))
    assert found == []
    (held,) = commit(engine, Reserve(queue="q", stream="t", sequence_number=0))
    assert held is None
    set_flow(engine, receiving="open")
    settle(engine)
    assert [each.body for each in receive(engine)] == [b"ready", b"fresh"]


def test_a_lease_of_a_paused_queue_expires_and_is_counted_as_ready(tmp_path: Path) -> None:
    lay_out(tmp_path / "root")
    clock = Still()
    engine = opened(tmp_path / "root", clock)
    send(engine, b"a")
    assert len(receive(engine)) == 1
    set_flow(engine, receiving="paused")
    clock.now = Millis(clock.now + 2 * HOUR)
    settle(engine)
    counts = engine.views.queue(engine.catalog.require("q")).counts
    assert (counts.ready_count, counts.leased_count) == (1, 0)
    assert receive(engine) == []


def test_a_receive_that_waits_is_answered_when_receiving_is_resumed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "root") as store, Store.open(tmp_path / "root") as other:
        paused = QueueSettings(receiving="paused")
        store.submit(CreateQueue(name="q", settings=paused)).result(60)
        store.submit(Send(queue="q", bodies=[b"waits"])).result(60)
        here = store.submit(Receive(queue="q", wait=None))
        # It is parked: a later request of the same store was answered.
        store.submit(Send(queue="q", bodies=[b"too"])).result(60)
        assert not here.done()
        other.submit(UpdateQueue(name="q", changes={"receiving": "open"})).result(60)
        assert [each.body for each in messages_of(here.result(60))] == [b"waits"]
