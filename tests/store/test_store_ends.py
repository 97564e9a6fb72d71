"""What is deleted is gone, and what is refused was never there: in the folders, not only in memory."""

from __future__ import annotations

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.model.errors import QueueBeingDeleted, QueueNotFound
from spoolrack_store.model.operations import (
    ById,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Send,
)
from spoolrack_store.model.settings import QueueSettings

LONG = 60_000


@pytest.fixture
def rig() -> EngineRig:
    rig = EngineRig(MemoryDisk())
    rig.create()
    return rig


def one_of_each(rig: EngineRig) -> list[str]:
    """Messages that are leased, delayed and ready, singly and in batches; their ids."""
    ids = rig.send(b"leased") + rig.send(b"leased", b"as a batch")
    assert len(rig.receive(10)) == len(ids)
    ids += rig.send(b"delayed", delay=LONG) + rig.send(b"delayed", b"as a batch", delay=LONG)
    ids += rig.send(b"ready") + rig.send(b"ready", b"as a batch")
    assert sorted(rig.states()) == sorted(ids)
    return ids


def is_empty_for_good(rig: EngineRig) -> bool:
    """Whether nothing is in the queue, and nothing is after a restart that is long after all dues."""
    before = rig.states()
    rig.check()
    rig.clock.advance(10 * LONG)
    rig.restart()
    rig.check()
    return not before and not rig.states()


def test_a_purge_takes_what_is_leased_and_delayed_for_good(rig: EngineRig) -> None:
    ids = one_of_each(rig)

    assert rig.ask(Purge(queue="q")) == len(ids)

    assert is_empty_for_good(rig)


def test_a_message_is_deleted_by_its_id_in_every_state_for_good(rig: EngineRig) -> None:
    for id in one_of_each(rig):
        assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None], id

    assert is_empty_for_good(rig)


def test_a_queue_that_is_made_again_is_empty_for_good(rig: EngineRig) -> None:
    one_of_each(rig)
    rig.ask(DeleteQueue(name="q"))

    rig.create()

    assert is_empty_for_good(rig)


def test_a_queue_is_not_made_again_before_the_deleted_one_is_put_away(rig: EngineRig) -> None:
    one_of_each(rig)
    under_way = rig.engine.apply([DeleteQueue(name="q")])

    (refusal,) = rig.engine.apply([CreateQueue(name="q", settings=QueueSettings())]).outcomes

    assert isinstance(refusal, QueueBeingDeleted)
    rig.complete(under_way)
    rig.create()
    assert is_empty_for_good(rig)


def test_a_send_to_a_queue_that_is_not_there_is_refused_and_leaves_nothing(rig: EngineRig) -> None:
    with pytest.raises(QueueNotFound):
        rig.ask(Send(queue="other", messages=[Outgoing(body=b"lost")]))

    assert rig.disk.scan("new") == []
    rig.create("other")
    assert rig.states("other") == {}
