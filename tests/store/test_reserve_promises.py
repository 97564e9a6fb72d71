"""The room that is kept back for a full disk, on disks that refuse on demand; `tests/proof/faults` has
real full ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from spoolrack_store.files.disk import Space, SyncFailed
from spoolrack_store.files.disk_room import RESERVE_BYTES, STEP_BYTES
from spoolrack_store.model.errors import DiskFull
from spoolrack_store.model.operations import CreateQueue, DeleteQueue
from spoolrack_store.model.settings import QueueSettings

from tests.store.front_rig import bodies_of, opened
from tests.store.trouble_rig import Rig

FULL = Space(bytes=0, files=0)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.tick()
    assert held(rig) == RESERVE_BYTES
    return rig


def held(rig: Rig) -> int:
    return int(rig.disk.facts("RESERVE").size)


def test_a_reserve_that_is_used_up_gives_its_own_file_and_then_the_delete_says_that_the_disk_is_full(
    rig: Rig,
) -> None:
    rig.send(b"a")
    ((_, (receipt, _)),) = rig.receive().items()
    rig.disk.disk.room = FULL
    rig.disk.fail(errno.ENOSPC, "rename_new", "link")
    assert isinstance(rig.delete(receipt)[0], DiskFull)
    assert "RESERVE" not in {each.name for each in rig.disk.scan(".")}
    rig.disk.heal()
    rig.start()
    assert rig.delete(receipt) == [None]


def test_a_send_and_a_new_queue_get_nothing_of_the_reserve(rig: Rig) -> None:
    rig.disk.fail(errno.ENOSPC, "create", "make_folder")
    with pytest.raises(DiskFull):
        rig.ask(CreateQueue(name="other", settings=QueueSettings()))
    assert isinstance(rig.send(b"a")[0], DiskFull)
    assert held(rig) == RESERVE_BYTES


def test_the_deletion_of_a_queue_gets_room_from_the_reserve(rig: Rig) -> None:
    rig.send(b"a", b"b")
    rig.disk.disk.room = FULL
    rig.disk.fail(errno.ENOSPC, "create", path="config/", times=1)
    rig.ask(DeleteQueue(name="q"))
    assert held(rig) == RESERVE_BYTES - STEP_BYTES


@pytest.mark.parametrize("calls", [("set_aside",), ("set_aside", "facts"), ("set_aside", "space")])
def test_without_a_reserve_everything_works_but_on_a_full_disk(
    rig: Rig, calls: tuple[str, ...]
) -> None:
    rig.disk.unlink("RESERVE")
    rig.disk.fail(errno.EOPNOTSUPP, *calls, path="RESERVE")
    rig.start()
    rig.tick()
    rig.send(b"a")
    ((_, (receipt, _)),) = rig.receive().items()
    assert rig.delete(receipt) == [None]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_a_foreign_entry_in_place_of_the_reserve_is_left_alone(tmp_path: Path, kind: str) -> None:
    victim, place = tmp_path / "victim", tmp_path / "root" / "RESERVE"
    victim.write_bytes(b"mine")
    with opened(tmp_path / "root"):
        pass
    place.unlink()
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(victim)
    else:
        os.mkfifo(place)
    before = place.lstat()
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
        found = rig.receive()
        assert bodies_of(found) == [b"a"]
        rig.delete(*found)
    after = place.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert victim.read_bytes() == b"mine"


def test_a_copy_of_the_reserve_with_holes_is_filled_up_by_the_next_start(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    place = tmp_path / "RESERVE"
    place.unlink()
    with place.open("wb") as file:
        file.truncate(RESERVE_BYTES)
    assert place.stat().st_blocks == 0
    with opened(tmp_path) as rig:
        rig.in_turn()
        facts = place.stat()
    assert (facts.st_size, facts.st_blocks * 512 >= RESERVE_BYTES) == (RESERVE_BYTES, True)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_a_folder_that_cannot_be_opened_for_its_sync_is_synced_with_everything(
    rig: Rig, code: int
) -> None:
    rig.disk.fail(code, "sync_folder")
    rig.disk.called.clear()
    (id,) = rig.send(b"a")
    assert "sync_all" in [name for name, _ in rig.disk.called]
    assert list(rig.receive()) == [id]
    rig.disk.fail(errno.EIO, "sync_all")
    with pytest.raises(SyncFailed):
        rig.send(b"b")
