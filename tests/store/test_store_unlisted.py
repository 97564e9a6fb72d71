"""What others do is taken in no sooner than needed: their batches, and what a lost race tells of."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.leaser import OWN_AMONG
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError, QueueFull
from spoolrack_store.model.figures import QueueFigures
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    Delete,
    GiveBack,
    Message,
    Outgoing,
    Purge,
    Send,
    VisibilityChange,
)
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


@pytest.mark.parametrize(("later", "expected"), [(100, b"own"), (101, b"old")])
def test_who_has_others_takes_first_what_it_was_sent_itself_hardly_later(
    beside: Beside, later: int, expected: bytes
) -> None:
    beside.one.send(b"old", b"older")
    beside.one.clock.advance(Millis(later))
    beside.other.send(b"own")

    assert [m.body for m in beside.other.receive(1)] == [expected]
    assert bool(beside.disk.called("scan")) is (expected == b"old")
    beside.check()


def test_what_it_was_sent_itself_is_looked_for_among_the_oldest_only(beside: Beside) -> None:
    for at in range(OWN_AMONG):
        beside.one.send(b"%d" % at)
        beside.one.clock.advance(Millis(1))
    beside.other.send(b"own")

    assert [m.body for m in beside.other.receive(2)] == [b"0", b"own"]
    assert [m.body for m in beside.one.receive(1)] == [b"1"]
    beside.check()


def test_what_comes_back_is_nobodys_own(beside: Beside) -> None:
    beside.one.send(b"old")
    beside.one.clock.advance(Millis(1))
    beside.other.send(b"own")
    (own,) = beside.other.receive(1)
    release = [VisibilityChange(str(own.receipt), Millis(0))]
    assert beside.other.ask(ChangeVisibility(queue="q", changes=release)) == [None]

    assert [m.body for m in beside.other.receive(1)] == [b"old"]
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


def leased_unheard_of(beside: Beside) -> list[Message]:
    """A batch that one has leased before the other had looked into it."""
    beside.one.send(b"a", b"b", b"c")
    leased = beside.one.receive(3)
    beside.other.commit()
    assert beside.disk.called("scan") == []
    return leased


def by_receipt(*messages: Message) -> Delete:
    return Delete(queue="q", targets=[ByReceipt(str(message.receipt)) for message in messages])


def test_a_batch_that_another_leases_and_deletes_is_not_looked_into(beside: Beside) -> None:
    leased = leased_unheard_of(beside)
    assert figures_of(beside.other).leased == 3

    beside.one.ask(by_receipt(*leased))
    beside.other.commit()

    assert figures_of(beside.other).leased == 0
    assert beside.disk.called("scan") == []
    beside.check()


def test_what_another_has_leased_is_found_by_its_receipts(beside: Beside) -> None:
    first, *rest = leased_unheard_of(beside)

    assert beside.other.ask(by_receipt(first)) == [None]
    longer = [VisibilityChange(str(message.receipt), Millis(60_000)) for message in rest]
    assert (
        beside.other.ask(ChangeVisibility(queue="q", changes=longer))
        == [beside.other.clock.wall() + 60_000] * 2
    )

    beside.check()
    beside.other.clock.advance(Millis(59_000))
    assert beside.one.receive(9) == []


def test_what_another_has_leased_comes_back_when_he_is_dead(beside: Beside) -> None:
    leased = leased_unheard_of(beside)
    assert leased[0].due is not None
    beside.one.die()
    beside.other.tick()
    beside.other.clock.advance(Millis(leased[0].due - beside.other.clock.wall() - 1))
    beside.other.tick()
    assert beside.other.receive(9) == []

    beside.other.clock.advance(Millis(10_000))

    again = beside.other.receive(9)
    assert [(m.id, m.receives) for m in again] == [(m.id, 2) for m in leased]
    beside.other.check()


def test_a_lease_goes_on_where_others_extend_release_and_lease_it_again(beside: Beside) -> None:
    leased = leased_unheard_of(beside)
    longer = [VisibilityChange(str(message.receipt), Millis(90_000)) for message in leased]
    beside.one.ask(ChangeVisibility(queue="q", changes=longer))
    beside.other.commit()
    beside.one.ask(GiveBack(queue="q", receipts=[str(message.receipt) for message in leased]))
    assert figures_of(beside.other).leased == 3

    beside.other.commit()

    assert (figures_of(beside.other).leased, figures_of(beside.other).ready) == (0, 3)
    beside.one.receive(3)
    beside.other.commit()
    assert (figures_of(beside.other).leased, figures_of(beside.other).ready) == (3, 0)
    beside.check()


def test_a_lease_that_can_not_be_looked_into_comes_back_later(beside: Beside) -> None:
    leased_unheard_of(beside)
    beside.one.die()
    beside.disk.fail(errno.EMFILE, "scan", path="delay/")
    beside.other.clock.advance(Millis(100_000))
    beside.other.tick()
    assert beside.other.receive(9) == []

    beside.disk.heal()
    beside.other.clock.advance(Millis(1_000))

    assert len(beside.other.receive(9)) == 3
    beside.other.check()


def unreadable(beside: Beside) -> list[Message]:
    """A batch that one has leased, and into which the other can't look."""
    leased = leased_unheard_of(beside)
    beside.disk.fail(errno.EMFILE, "scan", path="delay/")
    return leased


def test_a_lease_that_can_not_be_looked_into_is_ready_nowhere_once_it_is_deleted(
    beside: Beside,
) -> None:
    leased = unreadable(beside)
    beside.other.sights()
    beside.one.ask(by_receipt(*leased))
    beside.other.commit()
    beside.other.tick()
    assert (figures_of(beside.other).leased, figures_of(beside.other).ready) == (0, 0)


def test_no_delete_succeeds_for_a_lease_that_can_not_be_looked_into(beside: Beside) -> None:
    first, *_ = unreadable(beside)
    (refused,) = beside.other.ask(by_receipt(first))
    assert isinstance(refused, DiskError)

    beside.disk.heal()
    assert beside.other.ask(by_receipt(first)) == [None]
    beside.check()


def test_nor_when_nobody_else_is_there_any_more(beside: Beside) -> None:
    first, *rest = unreadable(beside)
    beside.one.die()
    beside.other.tick()
    (refused,) = beside.other.ask(by_receipt(first))
    assert isinstance(refused, DiskError)

    beside.disk.heal()
    beside.other.tick()
    assert beside.other.ask(by_receipt(first)) == [None]
    beside.other.clock.advance(Millis(100_000))
    assert [m.id for m in beside.other.receive(9)] == [m.id for m in rest]
    beside.other.check()


def test_a_purge_takes_what_can_not_be_looked_into(beside: Beside) -> None:
    unreadable(beside)
    assert beside.other.ask(Purge(queue="q")) == 3
    beside.disk.heal()
    beside.other.clock.advance(Millis(100_000))
    beside.meet()
    assert beside.other.receive(9) == []
    beside.check()


def figures_of(rig: EngineRig) -> QueueFigures:
    figures = rig.engine.views.figures("q")
    assert figures is not None
    return figures
