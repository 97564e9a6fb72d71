"""Who comes and goes between two looks of a store that was alone: what he did is seen all the same."""

from __future__ import annotations

from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.files import layout
from spoolrack_store.model.operations import ById, Delete
from test_store_peers import Several


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
