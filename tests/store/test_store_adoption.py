"""Messages that somebody `mv`ed into `new/`: adopted when they have rested, with the same promises."""

from __future__ import annotations

import errno
import os
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from planting import Root
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.operations import DeleteQueue


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


@pytest.fixture
def rig(root: Root) -> EngineRig:
    return root.start()


def put(root: Root, content: bytes, queue: str = "q") -> Path:
    """As `mv` does: the whole file appears at once."""
    outside = root.path.parent / "outside"
    outside.write_bytes(content)
    target = root.path / f"new/{queue}:{uuid4()}"
    outside.rename(target)
    return target


def rest(rig: EngineRig, *, looks: int = 3) -> None:
    for _ in range(looks):
        rig.tick()
        rig.clock.advance(1_000)


def test_a_file_that_rested_for_two_seconds_becomes_a_message(root: Root, rig: EngineRig) -> None:
    path = put(root, b"from a shell")
    rig.tick()
    rig.clock.advance(1_999)
    rig.tick()
    assert rig.receive() == []
    rig.clock.advance(1)
    rig.tick()
    (message,) = rig.receive()
    assert (message.body, message.sent_at) == (b"from a shell", rig.clock.wall())
    assert not path.exists()
    rig.check()
    rig.restart()
    assert rig.engine.quarantined == 0
    assert len(rig.states()) == 1


def test_an_adopted_message_stands_behind_those_that_were_sent_before(
    root: Root, rig: EngineRig
) -> None:
    put(root, b"adopted")
    rest(rig, looks=2)
    rig.send(b"sent")
    rest(rig, looks=1)
    assert rig.bodies() == [b"sent", b"adopted"]


def test_a_file_that_still_grows_is_left_alone(root: Root, rig: EngineRig) -> None:
    path = put(root, b"")
    for at in range(6):
        with path.open("ab") as file:
            file.write(b"more")
        os.utime(path, ns=(at, at))  # Another change time, whatever the clock's grain is.
        rest(rig, looks=2)
    assert rig.receive() == []
    rest(rig)
    assert [message.body for message in rig.receive()] == [b"more" * 6]


def test_a_file_with_a_second_name_is_left_alone_until_that_is_gone(root: Root, rig: EngineRig) -> None:
    path = put(root, b"linked")
    second = root.path.parent / "second"
    second.hardlink_to(path)
    rest(rig)
    assert rig.receive() == []
    second.unlink()
    rest(rig)
    assert [message.body for message in rig.receive()] == [b"linked"]


@pytest.mark.parametrize("size", [0, 10, 11])
def test_a_file_of_any_size_that_the_queue_takes_is_adopted_and_a_larger_one_put_aside(
    root: Root, rig: EngineRig, size: int
) -> None:
    rig.create("small", max_message_size=10)
    put(root, b"x" * size, "small")
    rest(rig)
    taken = size <= 10
    assert len(rig.receive(queue="small")) == taken
    assert rig.engine.quarantined == (not taken)


def test_links_pipes_and_folders_are_never_adopted(root: Root, rig: EngineRig) -> None:
    (root.path / f"new/q:{uuid4()}").symlink_to("/etc/passwd")
    (root.path / f"new/q:{uuid4()}").mkdir()
    os.mkfifo(root.path / f"new/q:{uuid4()}")
    rest(rig)
    assert rig.states() == {}
    assert len(os.listdir(root.path / "new")) == 3
    rig.restart()
    assert rig.engine.quarantined == 3


def test_a_file_that_came_while_nobody_served_is_adopted_after_the_start(root: Root) -> None:
    put(root, b"early")
    rig = root.start()
    rest(rig)
    assert rig.bodies() == [b"early"]


def test_a_file_for_a_queue_that_does_not_exist_yet_waits_for_it(root: Root, rig: EngineRig) -> None:
    put(root, b"patient", "later")
    rest(rig)
    rig.create("later")
    rest(rig)
    assert rig.bodies("later") == [b"patient"]


def test_a_file_on_its_way_into_a_deleted_queue_goes_with_it(root: Root, rig: EngineRig) -> None:
    put(root, b"late")
    rig.ask(DeleteQueue(name="q"))
    rig.create("q")
    rest(rig)
    assert rig.states() == {}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *product(["read", "facts", "rename"], [errno.EACCES, errno.EIO, errno.ENOENT]),
        *product(["sync_file"], [errno.EACCES, errno.EMFILE, errno.ENOENT]),
    ],
)
def test_a_file_that_cannot_be_adopted_stops_nothing(root: Root, name: str, code: int) -> None:
    disk = FaultyDisk(LocalDisk(root.path))
    rig = EngineRig(disk)
    path = put(root, b"stubborn")
    disk.fail(code, name, path=path.name)
    rest(rig)
    rig.send(b"a")
    assert [message.body for message in rig.receive(5)] == [b"a"]
    disk.heal()
    rest(rig, looks=4)
    assert [message.body for message in rig.receive(5)] == [b"stubborn"]
    rig.check()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_of_a_file_ends_all_promises_instead_of_being_repeated(
    root: Root, code: int
) -> None:
    disk = FaultyDisk(LocalDisk(root.path))
    rig = EngineRig(disk)
    path = put(root, b"not on the disk")
    disk.fail(code, "sync_file", path=path.name, times=1)
    with pytest.raises(SyncFailed):
        rest(rig)
    assert path.exists()


def test_a_kill_after_the_new_name_and_before_the_publication_loses_nothing(
    root: Root, rig: EngineRig
) -> None:
    put(root, b"adopted")
    rest(rig, looks=2)
    rig.engine.tick()
    rig.engine.apply([])
    rig.restart()
    assert rig.bodies() == [b"adopted"]
    rig.check()
