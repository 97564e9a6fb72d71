"""What others do is taken in no sooner than needed: their batches, and what a lost race tells of."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueFull
from spoolrack_store.model.operations import ById, ByReceipt, Delete, Outgoing, Send
from spoolrack_store.testing import ManualClock


class Beside:
    """Two engines on one root; the second sees the disk through one that tells what it was asked."""

    def __init__(self) -> None:
        memory, clock = MemoryDisk(), ManualClock(wall=Millis(1_700_000_000_000))
        self.disk = FaultyDisk(memory)
        self.one = EngineRig(memory, watch=memory.watch, clock=clock)
        self.other = EngineRig(self.disk, seed=2, watch=memory.watch, clock=clock)
        self.meet()

    def meet(self) -> None:
        for rig in (self.one, self.other):
            rig.tick()
            rig.clock.advance(Millis(1))
        self.disk.forget()

    def check(self) -> None:
        for rig in (self.one, self.other):
            rig.commit()
            rig.check()


@pytest.fixture
def beside() -> Beside:
    beside = Beside()
    beside.one.create("q")
    beside.meet()
    return beside


def test_a_batch_that_another_takes_whole_is_not_looked_into(beside: Beside) -> None:
    beside.one.send(b"a", b"b", b"c")
    beside.one.clock.advance(Millis(1))
    beside.other.send(b"d")
    leased = beside.one.receive(3)
    targets = [ByReceipt(str(message.receipt)) for message in leased]
    assert beside.one.ask(Delete(queue="q", targets=targets)) == [None] * 3

    beside.other.commit()

    assert beside.disk.called("scan") == []
    assert [m.body for m in beside.other.receive(9)] == [b"d"]
    beside.check()


def test_a_batch_is_looked_into_when_its_turn_comes(beside: Beside) -> None:
    beside.other.send(b"a")
    beside.other.clock.advance(Millis(1))
    beside.one.send(b"b", b"c")

    assert [m.body for m in beside.other.receive(1)] == [b"a"]
    assert beside.disk.called("scan") == []
    assert beside.other.engine.ready("q") == 2
    assert [m.body for m in beside.other.receive(9)] == [b"b", b"c"]
    beside.check()


def test_who_asks_for_a_message_or_a_list_learns_of_all(beside: Beside) -> None:
    ids = beside.one.send(b"a", b"b", b"c")
    assert beside.other.ask(Delete(queue="q", targets=[ById(ids[1])])) == [None]
    beside.one.clock.advance(Millis(1))
    beside.one.send(b"dd", b"ee")
    beside.other.commit()

    assert [sight.entry.size for sight in beside.other.sights()] == [1, 1, 2, 2]
    beside.check()


def test_a_limit_counts_the_bytes_that_others_have_sent(beside: Beside) -> None:
    beside.one.create("small", max_bytes=10)
    beside.meet()
    beside.one.send(b"1234", b"5678", queue="small")

    (refused,) = beside.other.ask(Send(queue="small", messages=[Outgoing(body=b"abc")]))
    assert isinstance(refused, QueueFull)


def test_a_batch_that_can_not_be_looked_into_holds_nobody_up_and_is_found_later(
    beside: Beside,
) -> None:
    beside.one.send(b"a", b"b")
    beside.one.clock.advance(Millis(1))
    beside.one.send(b"c")
    beside.disk.fail(errno.EMFILE, "scan", path="queues/q/")

    assert [m.body for m in beside.other.receive(9)] == [b"c"]
    assert beside.other.engine.ready("q") == 0, "it would be tried over and over"

    beside.disk.heal()
    beside.other.tick()
    assert [m.body for m in beside.other.receive(9)] == [b"a", b"b"]
    beside.check()


def test_who_is_left_alone_knows_all(beside: Beside) -> None:
    beside.one.send(b"a", b"b")
    beside.one.die()
    beside.other.tick()

    assert len(beside.other.sights()) == 2
    assert [m.body for m in beside.other.receive(9)] == [b"a", b"b"]
    beside.other.check()


def test_who_has_lost_a_race_hears_what_else_is_gone_before_the_next_claim(beside: Beside) -> None:
    for body in (b"a", b"b", b"c", b"d"):
        beside.one.send(body)
        beside.one.clock.advance(Millis(1))
    beside.other.commit()
    listen = beside.other.engine.peers.listen

    def too_late() -> None:
        """The others are faster than what is said of them."""
        beside.other.engine.peers.listen = listen  # type: ignore[method-assign]
        assert len(beside.one.receive(3)) == 3

    beside.other.engine.peers.listen = too_late  # type: ignore[method-assign]

    assert [m.body for m in beside.other.receive(4)] == [b"d"]
    assert beside.other.engine.lost_races == 1
    beside.check()
