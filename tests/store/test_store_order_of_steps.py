"""Steps that must wait for another or leave something alone, and whose absence no answer would show."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from planting import Root
from spoolrack_store.files import layout
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.folders import Folders
from spoolrack_store.files.opening import take
from spoolrack_store.files.syncer import Syncer
from spoolrack_store.model.ids import IdMaker
from spoolrack_store.model.operations import ById, Delete
from spoolrack_store.model.transitions import Move, State
from spoolrack_store.testing import ManualClock


def test_nothing_is_given_to_the_reaper_before_its_delete_is_durable() -> None:
    rig = EngineRig(MemoryDisk())
    rig.create()
    (id,) = rig.send(b"body")

    work = rig.engine.apply([Delete(queue="q", targets=[ById(id)])])
    assert rig.engine.reaper.waiting == 0
    rig.engine.sync(work)
    assert rig.engine.reaper.waiting == 0
    rig.engine.finish(work)
    assert rig.engine.reaper.waiting == 1


def test_an_emptied_folder_is_removed_when_the_moves_out_of_it_are_durable() -> None:
    memory = MemoryDisk()
    for folder in (*layout.ALL, "queues/q", "queues/q/batch"):
        memory.make_folder(folder)
    memory.create("queues/q/batch/entry", [b""], sync=True)
    disk = FaultyDisk(memory)
    folders = Folders(disk, Syncer(disk), IdMaker(ManualClock(), Random(1)))
    folders.move(Move.DELETE, State.READY, "queues/q/batch/entry", State.REMOVED, "remove/q:entry")

    folders.drop_folder("queues/q/batch")

    steps = [(call.name, *call.paths) for call in disk.calls if call.name != "rename"]
    assert steps == [
        ("sync_folder", "queues/q/batch"),
        ("sync_folder", "remove"),
        ("remove_folder", "queues/q/batch"),
    ]


@pytest.mark.parametrize("can_sync_all", [True, False])
def test_a_start_makes_durable_what_it_reads_though_it_finds_nothing_to_do(can_sync_all: bool) -> None:
    """A process that was killed may have moved what lies there, and never have synced it."""
    disk = FaultyDisk(MemoryDisk(can_sync_all=can_sync_all))
    rig = EngineRig(disk)
    rig.create()
    rig.send(b"ready")
    rig.send(b"a", b"batch")
    disk.forget()

    rig.restart()

    if can_sync_all:
        assert disk.called("sync_all")
    else:
        (batch,) = (found.name for found in disk.scan("queues/q") if ",n" in found.name)
        synced = {call.paths[0] for call in disk.called("sync_folder")}
        assert synced >= {*layout.ALL, "queues/q", f"queues/q/{batch}"}


def test_an_adopted_file_is_synced_before_it_gets_its_name(tmp_path: Path) -> None:
    """It was written by somebody else, so the store's own commits may not cover it."""
    root = Root(tmp_path / "root")
    disk = FaultyDisk(LocalDisk(root.path))
    rig = EngineRig(disk)
    path = f"new/q:{uuid4()}"
    root.file(path, b"from a shell")
    rig.tick()
    rig.clock.advance(2_000)
    disk.forget()

    rig.tick()

    calls = [(call.name, call.paths[0]) for call in disk.called("sync_file", "rename")]
    assert calls[:2] == [("sync_file", path), ("rename", path)]


def test_who_starts_alone_forgets_the_dead() -> None:
    disk = MemoryDisk()
    take(disk, "the root", Random(1)).end()
    disk.create("owners/dead", [b""], sync=False)

    tenancy = take(disk, "the root", Random(2))

    assert tenancy.is_alone
    assert [found.name for found in disk.scan("owners")] == [tenancy.owner]


def test_who_starts_beside_a_living_owner_leaves_the_dead_to_whoever_inherits_from_them() -> None:
    disk = MemoryDisk()
    take(disk, "the root", Random(1)).end()
    for owner in ("alive", "dead"):
        disk.create(f"owners/{owner}", [b""], sync=False)
    lock = disk.lock("owners/alive")
    assert lock is not None

    tenancy = take(disk, "the root", Random(2))

    assert not tenancy.is_alone
    assert {found.name for found in disk.scan("owners")} == {"alive", "dead", tenancy.owner}


def test_of_two_things_of_one_name_that_are_put_aside_none_replaces_the_other(tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    for content in (b"one", b"other"):
        root.file("queues/q/not a name", content)
        root.start().die()

    assert root.put_aside() == ["not a name"] * 2
    kept = {path.read_bytes() for path in root.path.glob("quarantine/*/not a name")}
    assert kept == {b"one", b"other"}
