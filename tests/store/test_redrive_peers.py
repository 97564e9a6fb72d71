"""Several engines on one root: one of them drives a redrive, anybody sees and cancels it."""

from __future__ import annotations

import pytest
from dead_letter_rig import LEASE, RedriveRig
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import RedriveRunning, StaleReceipt
from spoolrack_store.model.operations import ById, ByReceipt, Delete, DeleteQueue, Purge, Receive
from spoolrack_store.model.redriving import RedriveState, StartRedrive
from spoolrack_store.testing import ManualClock


class Two:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock(wall=Millis(1_700_000_000_000))
        self.one, self.other = (
            RedriveRig(self.disk, seed=seed, watch=self.disk.watch, clock=self.clock) for seed in (1, 2)
        )
        self.meet()
        self.one.make_queues()
        self.meet()

    def meet(self) -> None:
        for rig in (self.one, self.other):
            rig.tick()

    def after(self, millis: int) -> None:
        self.clock.advance(Millis(millis))
        self.meet()

    def bury(self, count: int) -> list[str]:
        ids = self.one.bury(*(b"%d" % n for n in range(count)))
        self.meet()
        return ids


@pytest.fixture
def two() -> Two:
    return Two()


def test_one_drives_and_the_other_sees_how_far_it_is(two: Two) -> None:
    ids = two.bury(4)
    redrive = two.one.start(rate=1)
    with pytest.raises(RedriveRunning):
        two.other.start()
    assert two.other.shown(redrive.id).state is RedriveState.RUNNING
    for moved in (1, 2, 3, 4):
        two.after(1_000)
        assert len(two.one.ids("q")) == len(two.other.ids("q")) == moved
    done = two.other.shown(redrive.id)
    assert (done.state, done.moved) == (RedriveState.DONE, 4)
    assert two.other.ids("q") == ids
    two.one.check()
    two.other.check()


def test_a_redrive_of_one_who_came_and_died_unheard_is_found() -> None:
    disk, clock = MemoryDisk(), ManualClock(wall=Millis(1_700_000_000_000))
    living = RedriveRig(disk, watch=disk.watch, clock=clock)
    living.make_queues()
    living.bury(b"a", b"b")
    assert living.all_shown() == []

    passing = RedriveRig(disk, seed=2, watch=disk.watch, clock=clock)
    redrive = passing.start(rate=1)
    passing.die()

    assert living.shown(redrive.id).id == redrive.id


def test_the_other_cancels_and_nothing_more_is_moved(two: Two) -> None:
    ids = two.bury(4)
    redrive = two.one.start(rate=1)
    two.after(1_000)
    two.clock.advance(Millis(1_000))
    work = two.one.begin()
    cancelled = two.other.cancel(redrive.id)
    assert cancelled.state is RedriveState.CANCELLED
    two.one.complete(work)
    for _ in range(4):
        two.after(1_000)
    assert (two.one.ids("q"), two.one.ids("dead")) == (ids[:1], ids[1:])
    shown = two.other.shown(redrive.id)
    assert (shown.state, shown.moved) == (RedriveState.CANCELLED, 1)
    (name,) = two.one.names("redrives")
    assert ",o" not in name, "what it had moved is durable, and nobody owns it"
    assert two.one.histories() == {f"q:{ids[0]}"} | {f"dead:{id}" for id in ids[1:]}


def test_a_survivor_goes_on_with_what_a_dead_process_drove(two: Two) -> None:
    ids = two.bury(4)
    redrive = two.one.start(rate=1)
    two.after(1_000)
    two.one.die()
    for _ in range(6):
        two.clock.advance(Millis(1_000))
        two.other.tick()
    assert two.other.ids("q") == ids
    assert two.other.shown(redrive.id).state is RedriveState.DONE
    two.other.check()


def test_a_survivor_winds_up_what_was_cancelled_before_its_driver_died(two: Two) -> None:
    two.bury(3)
    redrive = two.one.start(rate=1)
    two.after(1_000)
    two.other.cancel(redrive.id)
    two.one.die()
    for _ in range(2):
        two.clock.advance(Millis(1_000))
        two.other.tick()
    (name,) = two.other.names("redrives")
    assert ",o" not in name
    assert len(two.other.ids("q")) == 1


def test_what_another_has_leased_is_not_moved(two: Two) -> None:
    ids = two.bury(3)
    two.one.start(rate=10)
    two.clock.advance(Millis(100))
    work = two.one.begin()
    (message,) = two.other.receive(queue="dead")
    assert message.id == ids[0]
    two.one.complete(work)
    two.after(100)
    two.after(100)
    assert (two.one.ids("q"), two.one.ids("dead")) == (ids[1:], ids[:1])
    assert f"dead:{ids[0]}" in two.one.histories()
    assert f"q:{ids[0]}" not in two.one.histories()
    two.one.check()
    two.other.check()


@pytest.mark.parametrize("end", ["purge", "delete", "delete-queue"])
def test_what_another_has_deleted_never_comes_back(two: Two, end: str) -> None:
    ids = two.bury(3)
    redrive = two.one.start(rate=1_000)
    two.clock.advance(Millis(100))
    work = two.one.begin()
    match end:
        case "purge":
            two.other.ask(Purge(queue="dead"))
        case "delete":
            targets = [ById(id) for id in ids]
            assert two.other.ask(Delete(queue="dead", targets=targets)) == [None] * 3
        case "delete-queue":
            two.other.ask(DeleteQueue(name="dead"))
    two.one.complete(work)
    for _ in range(3):
        two.after(1_000)
    assert not two.one.ids("q")
    assert two.one.shown(redrive.id).state is RedriveState.DONE
    assert two.one.shown(redrive.id).moved == 0
    two.one.check()


def test_a_destination_that_another_deletes_gets_none(two: Two) -> None:
    two.one.create("elsewhere")
    two.meet()
    ids = two.bury(3)
    redrive = two.one.start(rate=1_000, destination="elsewhere")
    two.clock.advance(Millis(100))
    work = two.one.begin()
    two.other.ask(DeleteQueue(name="elsewhere"))
    two.one.complete(work)
    for _ in range(2):
        two.after(1_000)
    assert two.one.ids("dead") == ids
    shown = two.one.shown(redrive.id)
    assert (shown.state, shown.moved, shown.failed) == (RedriveState.DONE, 0, 3)
    two.one.check()


def test_what_another_has_buried_again_keeps_its_newer_history(two: Two) -> None:
    (id,) = two.bury(1)
    work = two.one.begin(StartRedrive(queue="dead"))
    two.one.engine.finish(work)
    for _ in range(20):
        if two.disk.scan("queues/q"):
            break
        two.one.engine.finish(two.one.begin())
    assert two.disk.scan("queues/q"), "it was moved, and its former history is still there"
    two.other.tick()
    assert [message.id for message in two.other.receive()] == [id]
    two.clock.advance(Millis(LEASE))
    two.other.tick()
    two.other.tick()
    assert two.other.ids("dead") == [id]
    two.one.settle()
    two.meet()
    assert len(two.one.history("dead", id)) == 2
    assert two.one.histories() == {f"dead:{id}"}


def test_a_receipt_of_before_deletes_nothing_that_another_has_moved_back(two: Two) -> None:
    (id,) = two.bury(1)
    ((message,),) = two.other.commit(Receive(queue="dead", visibility=LEASE))
    two.after(LEASE)
    two.after(LEASE)
    two.one.start()
    (outcome,) = two.other.ask(Delete(queue="dead", targets=[ByReceipt(message.receipt or "")]))
    assert isinstance(outcome, StaleReceipt)
    assert two.one.ids("q") == [id]


def test_one_who_is_left_alone_goes_on_and_one_who_joins_sees_it(two: Two) -> None:
    ids = two.bury(4)
    redrive = two.one.start(rate=1)
    two.other.die()
    two.clock.advance(Millis(1_000))
    two.one.tick()
    assert not two.one.engine._root.is_shared
    third = RedriveRig(two.disk, seed=3, watch=two.disk.watch, clock=two.clock)
    two.one.tick()
    third.cancel(redrive.id)
    for _ in range(3):
        two.clock.advance(Millis(1_000))
        two.one.tick()
        third.tick()
    assert third.ids("q") == ids[:1]
    assert two.one.shown(redrive.id).state is RedriveState.CANCELLED
