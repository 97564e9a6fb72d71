"""Who comes and goes between two looks of a store that was alone: what he did is seen all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import ById, Delete, Message
from test_store_peers import Several, receipts


def leave(several: Several) -> None:
    """As `Store.close` does: nobody can tell afterwards that there was anybody."""
    tenancy = several.rigs.pop().tenancy
    assert tenancy is not None
    tenancy.end()


def test_what_a_visitor_has_sent_is_delivered_though_he_left_before_anybody_looked() -> None:
    several = Several(1)
    (one,) = several.rigs
    one.create("q")
    several.join().send(b"a")
    leave(several)
    one.engine.heed()
    one.tick()
    assert [message.body for message in one.receive(9)] == [b"a"]
    several.check()


def test_what_a_visitor_has_sent_can_be_deleted_by_its_id_before_anybody_looked() -> None:
    several = Several(1)
    (one,) = several.rigs
    one.create("q")
    (id,) = several.join().send(b"a")
    assert one.ask(Delete(queue="q", targets=[ById(id)])) == [None]
    leave(several)
    one.tick()
    assert one.receive(9) == []


class Doorkeeper(MemoryDisk):
    """Tries the gate whenever something moves."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[tuple[str, bool]] = []

    def rename(self, source: str, target: str) -> None:
        lock = self.lock(layout.FORMAT)
        self.moves.append((source, lock is None))
        if lock is not None:
            lock.release()
        super().rename(source, target)


def test_nobody_comes_in_while_one_who_is_alone_takes_messages_out_of_a_batch() -> None:
    disk = Doorkeeper()
    alone = EngineRig(disk, watch=disk.watch)
    alone.create("q")
    alone.send(b"a", b"b", b"c")
    disk.moves.clear()
    assert len(alone.receive(2)) == 2
    assert [is_shut for _, is_shut in disk.moves] == [True, True]


def test_what_is_put_into_a_queues_folder_and_is_nobodys_harms_nobody_who_hears_of_it() -> None:
    several = Several(2)
    one, other = several.rigs
    one.create("q")
    ids = one.send(b"a", b"b")
    several.disk.create("queues/q/a stranger whose name is as long as an id's", [b"x"], sync=True)
    several.disk.make_folder("queues/q/a stranger")
    for rig in (one, other):
        rig.tick()
        assert list(rig.states()) == ids
    several.disk.unlink("queues/q/a stranger whose name is as long as an id's")
    several.disk.remove_folder("queues/q/a stranger")
    several.check()


def test_what_somebody_put_into_a_batch_of_nobody_is_put_aside_and_not_unlinked() -> None:
    several = Several(1)
    (one,) = several.rigs
    one.create("q")
    batch = "new/q:01900000-0000-7000-8000-000000000001,n2,oabcdefgh"
    several.disk.make_folder(batch)
    several.disk.create(f"{batch}/a stranger", [b"mine"], sync=True)
    several.join().send(b"a")
    leave(several)
    one.engine.heed()
    for _ in range(3):
        one.tick()
        one.engine.reaper.reap(100)
    assert [message.body for message in one.receive(9)] == [b"a"]
    assert not several.disk.scan("new")
    contents = [
        several.disk.read(f"quarantine/{place.name}/{found.name}")
        for place in several.disk.scan("quarantine")
        for found in several.disk.scan(f"quarantine/{place.name}")
    ]
    assert b"mine" in contents
    several.check()


class Interrupted(MemoryDisk):
    """Lets somebody else be faster with the next rename."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], object] | None = None

    def rename(self, source: str, target: str) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()
        super().rename(source, target)


@pytest.mark.parametrize("by_lease", [True, False])
def test_a_lost_race_for_one_message_of_a_batch_costs_none_when_the_others_are_deleted(
    by_lease: bool,
) -> None:
    several = Several(0)
    several.disk = disk = Interrupted()
    one, other = several.join(), several.join()
    several.meet()
    one.create("q", visibility_timeout=30_000)
    several.meet()
    first, *rest = one.send(b"a", b"b", b"c")
    several.meet()
    held: list[Message] = []
    disk.before = lambda: held.extend(one.receive(3))
    assert other.receive(1) == []
    assert [message.id for message in held] == [first, *rest]
    targets = receipts(held[1:]) if by_lease else [ById(id) for id in rest]
    assert other.ask(Delete(queue="q", targets=targets)) == [None, None]
    several.clock.advance(Millis(40_000))
    several.meet()
    assert [message.id for message in one.receive(3)] == [first]
    several.check()
