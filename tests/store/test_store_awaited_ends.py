"""What is leased by the commit that sends it, when that ends badly, and beside other processes."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from awaited_rig import awaited_rig, delete, disk_of, sending
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.fsck.inspection import Inspector
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.names import parse_filed
from spoolrack_store.model.operations import (
    ByReceipt,
    ChangeVisibility,
    Delete,
    DeleteQueue,
    Outgoing,
    Receive,
    Send,
    Sent,
    VisibilityChange,
)
from spoolrack_store.testing import ManualClock


@pytest.fixture
def rig() -> EngineRig:
    return awaited_rig()


# What a crash leaves.


def in_new(rig: EngineRig) -> list[str]:
    return [found.name for found in rig.disk.scan("new")]


@pytest.mark.parametrize("count", [1, 3])
def test_before_the_sync_the_name_in_new_tells_of_the_lease(rig: EngineRig, count: int) -> None:
    work = rig.engine.apply([sending(*[b"x"] * count), Receive(queue="q", max_messages=9)])

    (name,) = in_new(rig)
    filed = parse_filed(name)
    (receipt, *_) = [message.receipt or "" for message in work.outcomes[1]]
    assert (filed.item.receives, filed.item.first_receive) == (1, rig.clock.wall())
    assert filed.item.owner == rig.engine._root.owner
    assert (filed.due, filed.token) == (rig.clock.wall() + 30_000, receipt.rpartition("~")[2])
    report = Inspector(rig.disk).run()
    assert not report.problems
    assert not report.leftovers
    rig.complete(work)
    assert not in_new(rig)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("part", ["applied", "synced", "answered"])
def test_a_restart_finds_the_lease_as_it_was_and_its_receipt_is_good(
    rig: EngineRig, part: str, count: int
) -> None:
    work = rig.engine.apply([sending(*[b"x"] * count), Receive(queue="q", max_messages=9)])
    if part != "applied":
        rig.engine.sync(work)
    if part == "answered":
        rig.engine.finish(work)
    messages = work.outcomes[1]
    rig.clock.advance(10_000)

    rig.restart()

    assert set(rig.states().values()) == {"leased"}
    assert {sight.entry.receives for sight in rig.sights()} == {1}
    assert {sight.due for sight in rig.sights()} == {messages[0].due}
    rig.check()
    delete(rig, messages[0])
    rig.clock.advance(19_999)
    assert rig.receive(9) == []
    rig.clock.advance(1)
    assert [message.receives for message in rig.receive(9)] == [2] * (count - 1)
    rig.check()


def test_a_lease_that_is_over_when_a_start_finds_it_in_new_comes_back_at_once(rig: EngineRig) -> None:
    rig.engine.apply([sending(b"x"), Receive(queue="q")])
    rig.clock.advance(30_000)

    rig.restart()

    (message,) = rig.receive()
    assert message.receives == 2


# What can't be made good.


@pytest.mark.parametrize("count", [1, 3])
def test_a_lease_that_cannot_be_made_good_is_told_to_nobody(rig: EngineRig, count: int) -> None:
    credits = Credits(9, lambda: None)
    disk_of(rig).fail(errno.ENOSPC, "rename", path="delay/")
    receive = Receive(queue="q", max_messages=9, credits=credits)
    work = rig.engine.apply([sending(*[b"x"] * count), receive])
    assert len(work.outcomes[1]) == count
    assert credits.in_flight == count

    results, messages = rig.complete(work)

    assert all(isinstance(result, Sent) for result in results)
    assert messages == []
    assert credits.in_flight == 0
    assert len(in_new(rig)) == 1
    disk_of(rig).heal()
    rig.tick()
    assert [message.receives for message in rig.receive(9)] == [1] * count
    rig.check()


def test_a_lease_that_nobody_was_told_of_ends_when_it_is_due_after_a_restart(rig: EngineRig) -> None:
    disk_of(rig).fail(errno.ENOSPC, "rename", path="delay/")
    _, messages = rig.commit(sending(b"x"), Receive(queue="q"))
    assert messages == []
    disk_of(rig).heal()

    rig.restart()

    assert rig.receive() == []
    rig.clock.advance(30_000)
    (message,) = rig.receive()
    assert message.receives == 2
    rig.check()


@pytest.mark.parametrize("count", [1, 3])
def test_what_cannot_be_leased_at_once_is_sent_all_the_same(rig: EngineRig, count: int) -> None:
    disk_of(rig).fail(errno.EIO, "rename", path="~")
    results, messages = rig.commit(sending(*[b"x"] * count), Receive(queue="q", max_messages=9))

    assert messages == []
    assert all(isinstance(result, Sent) for result in results)
    disk_of(rig).heal()
    assert [message.receives for message in rig.receive(9)] == [1] * count
    rig.check()


# Beside others.


@pytest.fixture
def two() -> tuple[EngineRig, EngineRig]:
    disk, clock = MemoryDisk(), ManualClock(wall=Millis(1_700_000_000_000))
    one = EngineRig(disk, seed=1, watch=disk.watch, clock=clock)
    other = EngineRig(disk, seed=2, watch=disk.watch, clock=clock)
    one.tick()
    one.create(visibility_timeout=30_000)
    other.tick()
    return one, other


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("part", ["applied", "synced"])
def test_whoever_takes_over_from_the_dead_goes_on_with_the_lease(
    two: tuple[EngineRig, EngineRig], part: str, count: int
) -> None:
    one, other = two
    work = one.engine.apply([sending(*[b"x"] * count), Receive(queue="q", max_messages=9)])
    if part == "synced":
        one.engine.sync(work)
    messages = work.outcomes[1]
    one.die()

    other.tick()

    assert set(other.states().values()) == {"leased"}
    receipt = str(messages[0].receipt)
    (due,) = other.ask(ChangeVisibility(queue="q", changes=[VisibilityChange(receipt, Millis(60_000))]))
    assert due == other.clock.wall() + 60_000
    delete(other, messages[0])
    other.check()


def test_an_heir_beside_others_gives_the_lease_of_the_dead_a_second_more(
    two: tuple[EngineRig, EngineRig],
) -> None:
    one, other = two
    third = EngineRig(one.disk, seed=3, watch=one.watch, clock=one.clock)
    work = one.engine.apply([sending(b"x"), Receive(queue="q")])
    one.engine.sync(work)
    one.die()
    other.tick()
    third.tick()

    other.clock.advance(30_999)
    assert (other.receive(), third.receive()) == ([], [])
    other.clock.advance(1)
    assert len(other.receive() + third.receive()) == 1


def test_what_is_leased_at_once_nobody_else_gets_and_all_know_of(
    two: tuple[EngineRig, EngineRig],
) -> None:
    one, other = two
    work = one.engine.apply([sending(b"x"), Receive(queue="q")])
    assert other.receive() == []
    _, messages = one.complete(work)

    assert other.receive() == []
    other.check()
    assert other.ask(Delete(queue="q", targets=[ByReceipt(str(messages[0].receipt))])) == [None]
    one.commit()
    one.check()


def test_what_another_deletes_with_its_queue_meanwhile_is_told_to_nobody(
    two: tuple[EngineRig, EngineRig],
) -> None:
    one, other = two
    work = one.engine.apply([sending(b"x"), Receive(queue="q")])
    other.ask(DeleteQueue(name="q"))
    one.engine.heed()

    _, messages = one.complete(work)

    assert messages == []
    for _ in range(3):
        one.tick()
        other.tick()
    assert [found.name for found in one.disk.scan("delay")] == []
    assert in_new(one) == []


def test_a_key_is_known_to_who_joins_while_its_message_is_leased_in_new() -> None:
    disk, clock = MemoryDisk(), ManualClock(wall=Millis(1_700_000_000_000))
    one = EngineRig(disk, seed=1, watch=disk.watch, clock=clock)
    one.create()
    send = Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id="a")])
    work = one.engine.apply([send, Receive(queue="q")])
    other = EngineRig(disk, seed=2, watch=disk.watch, clock=clock)

    (again,) = other.ask(send)

    assert isinstance(again, Sent)
    assert again.is_duplicate
    assert again.id == work.outcomes[0][0].id


class Interrupted(FaultyDisk):
    """Lets something happen right before the first call that begins so."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.before: dict[tuple[str, str], Callable[[], None]] = {}

    def _do(self, name: str, *paths: str) -> None:
        for (call, path), act in list(self.before.items()):
            if call == name and paths[0].startswith(path):
                del self.before[call, path]
                act()
        super()._do(name, *paths)


def test_a_key_is_found_though_its_message_is_leased_while_it_is_looked_for() -> None:
    disk, clock = MemoryDisk(), ManualClock(wall=Millis(1_700_000_000_000))
    one = EngineRig(disk, seed=1, watch=disk.watch, clock=clock)
    one.create()
    interrupted = Interrupted(disk)
    other = EngineRig(interrupted, seed=2, watch=disk.watch, clock=clock)
    send = Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id="a")])
    sent: list[str] = []

    def write_and_die() -> None:
        ((result,),) = one.engine.apply([send]).outcomes
        sent.append(result.id)
        one.die()

    def lease() -> None:
        # As if it had come to that before it died.
        ((name,),) = [in_new(one)]
        disk.rename(f"new/{name}", f"new/{name}@{clock.wall() + 30_000}~{'0' * 13}")

    interrupted.before[("lock", "keys/LOCK")] = write_and_die
    interrupted.before[("read", "new/")] = lease

    (again,) = other.ask(send)

    assert not interrupted.before
    assert isinstance(again, Sent)
    assert (again.is_duplicate, again.id) == (True, sent[0])
