"""What is acknowledged as sent, and still in `new/`, is deleted as in every other state."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.opening import make_root
from spoolrack_store.model.errors import DiskError
from spoolrack_store.model.operations import ById, Delete, Outgoing, Purge, Send
from test_store_peers import Several


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    make_root(tmp_path / "root")
    return FaultyDisk(LocalDisk(tmp_path / "root"))


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create("q")
    return rig


def test_a_message_that_could_not_be_published_yet_is_deleted_by_its_id(
    disk: FaultyDisk, rig: EngineRig
) -> None:
    disk.fail(errno.EIO, "rename", path="new/", times=1)
    ids = rig.send(b"a")  # Acknowledged: it is on stable media.
    assert rig.ask(Delete(queue="q", targets=[ById(id) for id in ids])) == [None]
    rig.tick()
    rig.tick()
    assert rig.receive() == [], "what is deleted never comes back"


def test_a_message_that_could_not_be_published_yet_is_purged(disk: FaultyDisk, rig: EngineRig) -> None:
    disk.fail(errno.EIO, "rename", path="new/", times=1)
    rig.send(b"a")
    assert rig.ask(Purge(queue="q")) == 1
    rig.tick()
    assert rig.receive() == []


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_message_that_still_cannot_be_published_is_not_said_to_be_missing(
    disk: FaultyDisk, rig: EngineRig, bodies: list[bytes]
) -> None:
    disk.fail(errno.EIO, "rename", path="new/", times=2)
    ids = rig.send(*bodies)
    (result,) = rig.ask(Delete(queue="q", targets=[ById(ids[0])]))
    assert isinstance(result, DiskError)
    rig.tick()
    assert len(rig.receive(9)) == len(bodies), "it was refused, and nothing happened"


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_what_a_dead_process_has_left_in_new_is_not_said_to_be_missing(bodies: list[bytes]) -> None:
    several = Several(3)
    one, other, dying = several.rigs
    one.create("q")
    several.meet()
    work = dying.engine.apply([outgoing(bodies)])
    dying.engine.sync(work)  # It may have been acknowledged, and was not published.
    (outcome,) = work.outcomes
    dying.die()
    (result,) = other.ask(Delete(queue="q", targets=[ById(outcome[0].id)]))
    assert isinstance(result, DiskError)


def outgoing(bodies: list[bytes]) -> Send:
    return Send(queue="q", messages=[Outgoing(body=body) for body in bodies])
