"""What a start could not list it promises nothing of, until it is known what is there."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.errors import DiskError, MessageNotFound
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    Delete,
    DeleteQueue,
    Purge,
)
from spoolrack_store.model.reservations import Committed
from unlistable import COMMIT, LONG, RESERVE, SEND_TWO, Two, deletes


@pytest.fixture
def alone() -> EngineRig:
    rig = EngineRig(FaultyDisk(MemoryDisk()))
    rig.create("q")
    return rig


def start_without(rig: EngineRig, path: str) -> FaultyDisk:
    """Start again while the folders whose paths contain `path` can't be listed."""
    disk = rig.disk
    assert isinstance(disk, FaultyDisk)
    disk.fail(errno.EIO, "scan", path=path)
    rig.restart()
    return disk


def test_what_a_start_could_not_list_is_not_deleted(alone: EngineRig) -> None:
    ids = alone.send(b"a", b"b")
    leased = alone.receive(2)
    disk = start_without(alone, "delay/q:")

    for target in (ByReceipt(str(leased[0].receipt)), ById(ids[1])):
        (refused,) = alone.ask(Delete(queue="q", targets=[target]))
        assert isinstance(refused, DiskError)
        assert "restart" in str(refused)

    alone.send(b"c")
    assert [m.body for m in alone.receive(9)] == [b"c"]
    disk.heal()
    alone.restart()
    assert alone.ask(deletes(*leased)) == [None, None]
    alone.clock.advance(LONG)
    alone.tick()
    assert [m.body for m in alone.receive(9)] == [b"c"]
    alone.check()


def test_what_a_start_could_not_list_of_a_queue_is_not_deleted(alone: EngineRig) -> None:
    alone.create("other")
    ids = alone.send(b"a")
    disk = start_without(alone, "queues/q")

    (refused,) = alone.ask(Delete(queue="q", targets=[ById(ids[0])]))
    assert isinstance(refused, DiskError)
    (unknown,) = alone.ask(Delete(queue="other", targets=[ById(ids[0])]))
    assert isinstance(unknown, MessageNotFound)

    disk.heal()
    alone.restart()
    assert alone.ask(Delete(queue="q", targets=[ById(ids[0])])) == [None]
    alone.check()


@pytest.mark.parametrize("where", ["delay/q:", "queues/q/", "queues/q"])
@pytest.mark.parametrize("is_deleted", [False, True], ids=["purged", "deleted"])
def test_what_a_start_could_not_list_is_purged_and_goes_with_its_queue(
    alone: EngineRig, where: str, is_deleted: bool
) -> None:
    alone.send(b"a", b"b")
    alone.send(b"c", b"d")
    alone.receive(2)
    disk = start_without(alone, where)

    if is_deleted:
        alone.ask(DeleteQueue(name="q"))
        alone.create("q")
    else:
        alone.ask(Purge(queue="q"))

    alone.send(b"new")
    disk.heal()
    alone.restart()
    alone.clock.advance(LONG)
    alone.tick()
    assert [m.body for m in alone.receive(9)] == [b"new"]
    alone.check()


def test_what_a_start_could_not_list_of_what_was_sent_is_purged(alone: EngineRig) -> None:
    alone.engine.sync(alone.engine.apply([SEND_TWO]))
    disk = start_without(alone, "new/q:")
    work = alone.engine.apply([SEND_TWO])

    alone.ask(Purge(queue="q"))

    alone.complete(work)
    disk.heal()
    alone.restart()
    assert len(alone.receive(9)) == 2, "its own are newer than the purge"
    alone.check()


def test_a_set_that_a_start_could_not_list_is_not_committed(alone: EngineRig) -> None:
    alone.send(b"a", b"b", b"c")
    alone.ask(RESERVE)
    disk = start_without(alone, "delay/q:")
    with pytest.raises(DiskError):
        alone.ask(COMMIT)

    disk.heal()
    alone.restart()
    assert alone.ask(COMMIT) == Committed(messages=3, lost=[])
    alone.check()


def test_what_of_a_committed_set_a_start_could_not_list_is_never_delivered(alone: EngineRig) -> None:
    alone.send(b"a", b"b", b"c")
    alone.ask(RESERVE)
    alone.engine.sync(alone.engine.apply([COMMIT]))
    disk = start_without(alone, "delay/q:")
    alone.tick()

    disk.heal()
    alone.restart()

    alone.clock.advance(LONG)
    alone.tick()
    assert alone.receive(9) == []
    assert alone.states() == {}
    alone.check()


@pytest.mark.parametrize("hears_all", [True, False])
def test_who_was_left_alone_has_read_everything(hears_all: bool) -> None:
    two = Two(hears_all=hears_all)
    two.one.send(b"a", b"b")
    leased = two.one.receive(2)
    two.disk.fail(errno.EIO, "scan", path="delay/q:")
    two.one.die()
    two.other.restart()
    (refused,) = two.other.ask(deletes(leased[0]))
    assert isinstance(refused, DiskError)
    two.disk.heal()

    two.one.restart()
    two.other.tick()
    two.one.die()
    two.other.tick()

    for _ in range(2):
        assert two.other.ask(deletes(*leased)) == [None, None]
    two.other.clock.advance(LONG)
    two.other.tick()
    assert two.other.receive(9) == []
    two.other.check()
