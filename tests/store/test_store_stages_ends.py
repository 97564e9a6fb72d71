"""Stages that are dropped, that expire, or that the disk refuses; epochs that are forgotten."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.sender import RESERVED_BYTES
from spoolrack_store.files import layout
from spoolrack_store.files.disk import Space
from spoolrack_store.model.clock import DAY, SECOND
from spoolrack_store.model.errors import (
    DiskError,
    DiskFull,
    StageNotFound,
)
from spoolrack_store.model.staging import Abort, Published
from stage_rig import chunk, names_in, publication, publish, stage

START = 1_700_000_000_000


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(MemoryDisk())


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create("q")
    rig.create("other")
    return rig


def bodies(rig: EngineRig, queue: str = "q") -> list[bytes]:
    return [message.body for message in rig.receive(100, queue=queue)]


# What the disk refuses.


@pytest.mark.parametrize(
    ("call", "code", "skip"),
    [("rename", errno.EIO, 0), ("rename", errno.EIO, 1), ("create", errno.ENOSPC, 0)],
)
def test_a_publication_that_the_disk_refuses_leaves_all_staged(
    rig: EngineRig, disk: FaultyDisk, call: str, code: int, skip: int
) -> None:
    stage(rig, "s", 0, b"a")
    stage(rig, "t", 0, b"b")
    disk.fail(code, call, skip=skip, times=1)
    with pytest.raises((DiskError, DiskFull)):
        publish(rig, "w", 0, "s", "t")
    rig.check()
    assert publish(rig, "w", 0, "s", "t") == Published(messages=2, is_already=False, last_epoch=0)
    assert bodies(rig) == [b"a", b"b"]


def test_a_chunk_leaves_room_on_the_disk_for_deletes() -> None:
    memory = MemoryDisk()
    rig = EngineRig(memory)
    rig.create("q")
    memory.room = Space(bytes=RESERVED_BYTES + 5, files=1 << 20, unlimited=False)
    with pytest.raises(DiskFull):
        stage(rig, "s", 0, b"123456")
    assert names_in(memory, "staged") == []
    assert stage(rig, "s", 0, b"12345").messages == 1


def test_a_claim_that_cannot_be_undone_is_no_missing_stage_and_comes_back(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    stage(rig, "s", 0, b"a")
    stage(rig, "t", 0, b"b")
    disk.fail(errno.EIO, "rename", skip=1)
    for request in (publication("w", 0, "s", "t"), chunk("s", 1, b"c"), Abort(stage="s")):
        with pytest.raises(DiskError):
            rig.ask(request)
    disk.heal()
    rig.tick()
    assert [info.name for info in rig.engine.staging.listed("", 10)] == ["s", "t"]
    assert publish(rig, "w", 0, "s", "t").messages == 2


def test_what_is_published_and_cannot_be_moved_yet_arrives_later(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    stage(rig, "s", 0, b"a")
    disk.fail(errno.EIO, "rename", path="queues/q")
    assert publish(rig, "w", 0, "s").messages == 1
    assert publish(rig, "w", 1).last_epoch == 1
    assert "w.0" in names_in(disk, "published")
    disk.heal()
    disk.calls.clear()
    rig.tick()
    assert bodies(rig) == [b"a"]
    assert names_in(disk, "published") == ["w.1"]
    calls = list(map(str, disk.calls))
    moved = next(at for at, call in enumerate(calls) if call.startswith("rename(published/w.0."))
    forgotten = calls.index("unlink(published/w.0)")
    assert any(call.startswith("sync_") for call in calls[moved:forgotten])


# The end of stages that nobody publishes.


def test_an_aborted_stage_is_gone_and_its_messages_are_unlinked(rig: EngineRig) -> None:
    stage(rig, "s", 0, b"a", b"b")
    stage(rig, "s", 1, b"c")
    assert rig.ask(Abort(stage="s")) == 3
    assert rig.ask(Abort(stage="s")) == 0
    with pytest.raises(StageNotFound):
        publish(rig, "w", 0, "s")
    rig.commit()
    rig.engine.reaper.reap(100)
    assert (names_in(rig.disk, "staged"), names_in(rig.disk, "remove")) == ([], [])


def test_a_stage_that_nobody_publishes_expires(rig: EngineRig) -> None:
    rig.ask(chunk("s", 0, b"a", time_to_live=SECOND * 10))
    rig.clock.advance(9_999)
    rig.tick()
    assert names_in(rig.disk, "staged") != []
    rig.clock.advance(1)
    rig.tick()
    assert names_in(rig.disk, "staged") == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stage_expires_on_time_however_the_clock_is_set(rig: EngineRig, restarts: bool) -> None:
    rig.ask(chunk("s", 0, b"a", time_to_live=SECOND * 10))
    if restarts:
        rig.restart()
    rig.tick()
    rig.clock.step_wall(3_600_000)
    rig.tick()
    assert names_in(rig.disk, "staged") != []
    rig.clock.advance(10_000)
    rig.tick()
    assert names_in(rig.disk, "staged") == []


def test_an_epoch_is_forgotten_when_its_time_has_come(rig: EngineRig) -> None:
    rig.ask(publication("w", 4, memory=60_000))
    rig.clock.advance(59_999)
    rig.tick()
    assert rig.ask(publication("w", 4)).is_already
    rig.clock.advance(1)
    rig.tick()
    assert names_in(rig.disk, "published") == []
    assert not rig.ask(publication("w", 4)).is_already


def test_the_names_of_a_stage_say_what_it_is(rig: EngineRig) -> None:
    rig.ask(chunk("my-stage_1", 12, b"a", delay=5_000))
    (name,) = names_in(rig.disk, "staged")
    assert name == f"my-stage_1@{START + DAY}"
    (inside,) = names_in(rig.disk, f"staged/{name}")
    assert inside.startswith("12+5000:q:")
    assert inside.endswith(",n1")
    assert layout.name_of(f"staged/{name}") == name
