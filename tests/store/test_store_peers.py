"""Several engines on one root: what one does the others hear of, and no message is in two hands."""

from __future__ import annotations

import os
from random import Random

import pytest
from engine_rig import EngineRig
from memory_disk import File, MemoryDisk, MemoryWatch
from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueNotFound, StaleReceipt
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    Outgoing,
    Purge,
    Send,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.testing import ManualClock


class Several:
    """Engines that share a disk and a clock."""

    def __init__(self, count: int = 2, seed: int = 0) -> None:
        self._seed = seed * 100
        self.disk = MemoryDisk()
        self.clock = ManualClock(wall=Millis(1_700_000_000_000))
        self.rigs: list[EngineRig] = []
        for _ in range(count):
            self.join()
        self.meet()

    def join(self) -> EngineRig:
        self._seed += 1
        rig = EngineRig(self.disk, seed=self._seed, watch=self.disk.watch, clock=self.clock)
        self.rigs.append(rig)
        return rig

    def meet(self) -> None:
        for rig in self.rigs:
            rig.tick()

    def check(self) -> None:
        for rig in self.rigs:
            rig.commit()
            rig.check()


@pytest.fixture
def several() -> Several:
    several = Several()
    several.rigs[0].create("q")
    return several


def receipts(messages: list[Message]) -> list[ByReceipt]:
    return [ByReceipt(str(message.receipt)) for message in messages]


def test_a_queue_that_one_makes_the_others_know(several: Several) -> None:
    one, other = several.rigs
    other.send(b"x")

    assert [m.body for m in one.receive()] == [b"x"]
    several.check()


def test_a_message_that_one_has_leased_nobody_else_gets(several: Several) -> None:
    one, other = several.rigs
    one.send(*(b"%d" % n for n in range(7)))
    one.send(b"alone")

    mine = one.receive(5)
    theirs = other.receive(100)

    assert [m.body for m in mine] == [b"%d" % n for n in range(5)]
    assert [m.body for m in theirs] == [b"5", b"6", b"alone"]
    several.check()


def test_a_lease_can_be_extended_released_and_deleted_through_another(several: Several) -> None:
    one, other = several.rigs
    one.send(b"a", b"b", b"c")
    leased = one.receive(3)

    changes = [VisibilityChange(str(leased[0].receipt), Millis(90_000))]
    assert isinstance(other.ask(ChangeVisibility(queue="q", changes=changes))[0], int)
    release = [VisibilityChange(str(leased[1].receipt), Millis(0))]
    assert other.ask(ChangeVisibility(queue="q", changes=release)) == [None]
    assert other.ask(Delete(queue="q", targets=receipts(leased[2:]))) == [None]
    several.check()

    assert [m.body for m in one.receive(9)] == [b"b"]
    assert one.ask(Delete(queue="q", targets=receipts(leased[:1]))) == [None]
    several.check()
    assert len(other.sights()) == 1


def test_the_receipt_of_a_lease_that_is_over_works_with_nobody(several: Several) -> None:
    one, other = several.rigs
    one.send(b"a")
    (first,) = one.receive()
    several.clock.advance(Millis(30_000))
    assert other.receive() == [], "the lease is another's: its own server comes first"
    several.clock.advance(Millis(1_000))
    (second,) = other.receive()
    assert second.receives == 2

    for rig in several.rigs:
        (result,) = rig.ask(Delete(queue="q", targets=receipts([first])))
        assert isinstance(result, StaleReceipt)
    assert one.ask(Delete(queue="q", targets=receipts([second]))) == [None]
    several.check()


def test_what_a_dead_process_has_leased_comes_back(several: Several) -> None:
    one, other = several.rigs
    one.send(*(b"%d" % n for n in range(4)))
    one.receive(4)
    one.die()

    several.clock.advance(Millis(31_000))

    assert len(other.receive(9)) == 4
    other.tick()
    other.check()


def test_what_a_dead_process_had_sent_and_not_published_is_delivered_by_another(
    several: Several,
) -> None:
    one, other = several.rigs
    work = one.engine.apply([Send(queue="q", messages=_outgoing(3)), Send(queue="q", messages=[])])
    one.engine.sync(work)  # Acknowledged from here on.
    one.die()
    assert other.receive(9) == []

    other.tick()

    assert len(other.receive(9)) == 3
    assert other.disk.scan(layout.NEW) == []
    assert [f.name for f in other.disk.scan(layout.OWNERS)] == [other.tenancy and other.tenancy.owner]


def test_what_a_living_process_writes_is_left_alone(several: Several) -> None:
    one, other = several.rigs
    work = one.engine.apply([Send(queue="q", messages=_outgoing(3))])

    other.tick()

    assert other.receive(9) == []
    assert len(other.disk.scan(layout.NEW)) == 1
    one.complete(work)
    assert len(other.receive(9)) == 3
    several.check()


def test_a_purge_takes_what_all_have(several: Several) -> None:
    one, other = several.rigs
    one.send(b"a", b"b")
    other.send(b"c")
    one.receive(1)

    assert other.ask(Purge(queue="q")) == 3

    assert one.receive(9) == []
    one.send(b"d")
    assert [m.body for m in other.receive(9)] == [b"d"]
    several.check()


def test_settings_that_one_changes_hold_for_all(several: Several) -> None:
    one, other = several.rigs
    one.ask(UpdateQueue(name="q", changes={"visibility_timeout": 5_000}))
    other.ask(UpdateQueue(name="q", changes={"retention": 7_000_000}))

    assert one.engine.catalog.require("q").settings.retention == 0
    one.commit()
    for rig in several.rigs:
        settings = rig.engine.catalog.require("q").settings
        assert (settings.visibility_timeout, settings.retention) == (5_000, 7_000_000)
    several.check()


def test_two_who_create_the_same_queue_have_one(several: Several) -> None:
    one, other = several.rigs
    same = CreateQueue(name="new", settings=QueueSettings())

    assert one.ask(same).name == other.ask(same).name
    one.send(b"x", queue="new")
    assert [m.body for m in other.receive(queue="new")] == [b"x"]
    several.check()


def test_a_queue_whose_settings_were_read_while_they_were_written_is_known_soon(
    several: Several,
) -> None:
    one, other = several.rigs
    one.create("new")
    (path,) = (f"config/{f.name}" for f in several.disk.scan("config") if f.name.startswith("new."))
    file = several.disk.node(path)
    assert isinstance(file, File)
    whole, file.content = file.content, b""
    other.commit()
    assert "new" not in other.engine.catalog.queues

    file.content = whole
    other.commit()

    assert "new" in other.engine.catalog.queues
    several.check()


def test_a_deleted_queue_is_gone_for_all_and_starts_empty_when_it_is_made_again(
    several: Several,
) -> None:
    one, other = several.rigs
    one.send(b"a")
    other.send(b"b")
    other.receive(1)
    work = other.engine.apply([Send(queue="q", messages=_outgoing(2))])
    other.engine.sync(work)

    one.ask(DeleteQueue(name="q"))
    with pytest.raises(QueueNotFound):
        one.receive()
    other.engine.finish(work)
    other.settle()
    with pytest.raises(QueueNotFound):
        other.receive()
    one.tick()
    one.tick()
    one.create("q")

    assert other.receive(9) == []
    assert one.receive(9) == []
    several.check()


def test_who_has_not_heard_of_a_deletion_sends_nothing_into_the_queue_made_again(
    several: Several,
) -> None:
    one, other = several.rigs
    several.check()
    deaf = other.engine.peers.listen
    other.engine.peers.listen = lambda: None  # type: ignore[method-assign]
    one.ask(DeleteQueue(name="q"))
    one.tick()
    one.create("q")

    (refused,) = other.ask(Send(queue="q", messages=_outgoing(1)))

    assert isinstance(refused, QueueNotFound)
    other.engine.peers.listen = deaf  # type: ignore[method-assign]
    assert one.receive(9) == []
    several.check()


def test_a_message_is_found_by_id_wherever_others_have_moved_it(several: Several) -> None:
    one, other = several.rigs
    ids = one.send(b"a", b"b", b"c")
    one.receive(1)

    assert other.ask(Delete(queue="q", targets=[ById(id) for id in ids])) == [None] * 3

    assert one.receive(9) == []
    several.check()


def test_what_was_lost_on_the_way_is_found_by_listing(several: Several) -> None:
    one, other = several.rigs
    one.send(b"a", b"b", b"c")
    several.clock.advance(Millis(1))
    other.send(b"d")
    one.receive(2)
    for watch in several.disk._watches:
        watch.has_lost = True
        watch._changes.clear()

    several.check()
    assert [m.body for m in other.receive(9)] == [b"c", b"d"]


@pytest.mark.parametrize("seed", range(int(os.environ.get("SPOOLRACK_PEER_STORIES", "60"))))
def test_random_work_of_several_puts_no_message_into_two_hands(seed: int) -> None:
    random = Random(seed)
    several = Several(random.choice((2, 3)), seed)
    several.rigs[0].create("q", visibility_timeout=30_000)
    several.check()
    held: dict[str, tuple[str, int]] = {}
    owed: set[str] = set()
    for _ in range(120):
        rig = random.choice(several.rigs)
        now = several.clock.monotonic()
        match random.randrange(9):
            case 0 | 1:
                owed.update(rig.send(*(random.randbytes(4) for _ in range(random.choice((1, 2, 6))))))
            case 2 | 3:
                for message in rig.receive(random.choice((1, 3, 10))):
                    assert message.id in owed, "deleted, and delivered"
                    assert message.id not in held or held[message.id][1] <= now, "in two hands"
                    held[message.id] = (str(message.receipt), now + 30_000)
            case 4 if held:
                some = random.sample(sorted(held), min(len(held), random.choice((1, 2, 5))))
                live = [id for id in some if held[id][1] > now]
                targets = [ByReceipt(held[id][0]) for id in live]
                assert rig.ask(Delete(queue="q", targets=targets)) == [None] * len(live)
                for id in live:
                    owed.discard(id)
                    del held[id]
            case 5 if held:
                id = random.choice(sorted(held))
                if held[id][1] > now:
                    span = Millis(random.choice((0, 60_000)))
                    change = VisibilityChange(held[id][0], span)
                    (end,) = rig.ask(ChangeVisibility(queue="q", changes=[change]))
                    assert end is None or isinstance(end, int)
                    held[id] = (held[id][0], now + span)
            case 6 if random.random() < 0.3:
                several.rigs.remove(rig)
                rig.die()
                watch = rig.engine.peers._watch
                assert isinstance(watch, MemoryWatch)
                watch.close()
                several.join()
            case 7:
                for watch in several.disk._watches:
                    if random.random() < 0.3:
                        watch.changes()
                        watch.has_lost = True
            case _:
                several.clock.advance(Millis(random.choice((10, 1_000, 31_000))))
                rig.tick()
    several.meet()
    several.check()
    several.clock.advance(Millis(100_000))
    found: set[str] = set()
    for _ in range(200):
        got = random.choice(several.rigs).receive(10)
        found.update(message.id for message in got)
    assert found == owed
    several.check()


def _outgoing(count: int) -> list[Outgoing]:
    return [Outgoing(body=b"%d" % n) for n in range(count)]
