"""What is acknowledged as sent, and still in `new/`, is deleted by its id as in every other state."""

from __future__ import annotations

import errno
from pathlib import Path

from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.opening import make_root
from spoolrack_store.model.operations import ById, Delete


def test_a_message_that_could_not_be_published_yet_is_deleted_by_its_id(tmp_path: Path) -> None:
    make_root(tmp_path / "root")
    disk = FaultyDisk(LocalDisk(tmp_path / "root"))
    rig = EngineRig(disk)
    rig.create("q")
    disk.fail(errno.EIO, "rename", path="new/", times=1)
    ids = rig.send(b"a")  # Acknowledged: it is on stable media.
    assert rig.ask(Delete(queue="q", targets=[ById(id) for id in ids])) == [None]
    rig.tick()
    rig.tick()
    assert rig.receive() == [], "what is deleted never comes back"
