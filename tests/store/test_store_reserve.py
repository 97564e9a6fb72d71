"""The room that is kept back, on disks that refuse on demand; `tests/faults` has real full ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.files.disk import LocalDisk, Space
from spoolrack_store.files.reserve import BIT, RESERVE_BYTES
from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.errors import DiskFull
from spoolrack_store.model.operations import ById, CreateQueue, Delete, DeleteQueue
from spoolrack_store.model.settings import QueueSettings

FULL = Space(bytes=0, files=0, unlimited=False)
STEPS = RESERVE_BYTES // BIT


@pytest.fixture
def memory() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def disk(memory: MemoryDisk) -> FaultyDisk:
    return FaultyDisk(memory)


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create()
    return rig


def held(rig: EngineRig) -> int:
    return rig.disk.facts("RESERVE").size


def test_a_move_on_a_full_disk_gets_as_much_of_the_reserve_as_it_needs(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk
) -> None:
    (id,) = rig.send(b"x")
    assert held(rig) == RESERVE_BYTES
    memory.room = FULL
    disk.fail(errno.ENOSPC, "rename", times=3)
    assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None]
    assert held(rig) == RESERVE_BYTES - 3 * BIT
    rig.tick()
    assert held(rig) == RESERVE_BYTES - 3 * BIT, "there is no room for it yet"
    memory.room = Space(bytes=1 << 30, files=1 << 20, unlimited=False)
    rig.tick()
    assert held(rig) == RESERVE_BYTES


def test_a_reserve_that_is_used_up_gives_its_own_file_at_last_and_then_says_no(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk
) -> None:
    (id,) = rig.send(b"x")
    memory.room = FULL
    fault = disk.fail(errno.ENOSPC, "rename")
    (result,) = rig.ask(Delete(queue="q", targets=[ById(id)]))
    assert isinstance(result, DiskFull)
    assert fault.met == STEPS + 2
    assert "RESERVE" not in {found.name for found in rig.disk.scan(".")}
    rig.check()
    disk.heal()
    rig.restart()
    assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None]


def test_what_takes_room_for_good_gets_nothing_of_the_reserve(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.ENOSPC, "create", "make_folder")
    with pytest.raises(DiskFull):
        rig.ask(CreateQueue(name="other", settings=QueueSettings()))
    with pytest.raises(AssertionError, match="full"):
        rig.send(b"x")
    with pytest.raises(AssertionError, match="full"):
        rig.send(b"x", b"y")
    assert held(rig) == RESERVE_BYTES


def test_the_end_of_a_queue_gets_room_from_the_reserve(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"x", b"y")
    disk.fail(errno.ENOSPC, "create", path="config/", times=1)
    rig.ask(DeleteQueue(name="q"))
    assert held(rig) == RESERVE_BYTES - BIT
    rig.restart()
    assert rig.engine.catalog.queues == {}


def test_a_start_on_a_full_disk_gets_room_from_the_reserve(rig: EngineRig, disk: FaultyDisk) -> None:
    (id,) = rig.send(b"x")
    disk.fail(errno.ENOSPC, "create", path="owners/", times=STEPS + 1)
    rig.restart()
    assert rig.states() == {id: "ready"}


def test_a_start_after_a_purge_on_a_full_disk_needs_no_room_for_the_queues_folder(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    rig.disk.remove_folder("queues/q")
    disk.fail(errno.ENOSPC, "make_folder")
    rig.restart()
    disk.heal()
    rig.send(b"x")
    assert rig.bodies() == [b"x"]
    rig.check()


def test_what_is_given_up_counts_only_once_it_is_synced(rig: EngineRig, disk: FaultyDisk) -> None:
    (id,) = rig.send(b"x")
    disk.fail(errno.ENOSPC, "rename", times=1)
    disk.fail(errno.EIO, "sync_file", path="RESERVE")
    with pytest.raises(SyncFailed):
        rig.ask(Delete(queue="q", targets=[ById(id)]))


@pytest.mark.parametrize("calls", [("set_aside",), ("set_aside", "facts"), ("set_aside", "space")])
def test_without_a_reserve_everything_works_but_on_a_full_disk(
    memory: MemoryDisk, calls: tuple[str, ...]
) -> None:
    disk = FaultyDisk(memory)
    disk.fail(errno.EOPNOTSUPP, *calls, path="RESERVE")
    rig = EngineRig(disk)
    rig.create()
    (id,) = rig.send(b"x")
    rig.tick()
    rig.restart()
    assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_stands_where_the_reserve_should_be_stops_nothing(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    root = tmp_path / "root"
    root.mkdir()
    rig = EngineRig(LocalDisk(root))
    place = root / "RESERVE"
    place.unlink()
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(victim)
    else:
        os.mkfifo(place)
    rig.restart()
    rig.create()
    rig.send(b"x")
    rig.tick()
    assert victim.read_bytes() == b"mine"


def test_a_copy_of_the_reserve_with_holes_is_filled_up_by_the_next_start(tmp_path: Path) -> None:
    rig = EngineRig(LocalDisk(tmp_path))
    place = tmp_path / "RESERVE"
    place.unlink()
    with place.open("wb") as file:
        file.truncate(RESERVE_BYTES)
    assert place.stat().st_blocks == 0
    rig.restart()
    facts = place.stat()
    assert (facts.st_size, facts.st_blocks * 512 >= RESERVE_BYTES) == (RESERVE_BYTES, True)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_a_folder_that_cannot_be_opened_for_its_sync_is_synced_with_everything(
    rig: EngineRig, disk: FaultyDisk, code: int
) -> None:
    disk.fail(code, "sync_folder")
    disk.forget()
    rig.send(b"x")
    assert "sync_all" in [call.name for call in disk.calls]
    disk.fail(errno.EIO, "sync_all")
    with pytest.raises(SyncFailed):
        rig.send(b"y")
