"""Races that only a real file system has: what the kernel does in several steps, others get between."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine_rig import EngineRig
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.watcher import Watcher
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError
from spoolrack_store.model.operations import Message
from spoolrack_store.testing import ManualClock


class SlowWalk(LocalDisk):
    """Renames as the kernel does: first it finds the folder, and then moves what is in it by then."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.meanwhile: list[Callable[[], None]] = []

    def rename(self, source: str, target: str) -> None:
        folder, name = os.path.split(source)
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._root)
        try:
            while self.meanwhile and source.startswith("queues/q/") and source.count("/") == 3:
                self.meanwhile.pop()()
            os.rename(name, target, src_dir_fd=found, dst_dir_fd=self._root)
        finally:
            os.close(found)


def test_nothing_is_taken_out_of_a_folder_that_another_has_just_leased_whole(tmp_path: Path) -> None:
    disk, clock = SlowWalk(tmp_path), ManualClock(wall=Millis(1_700_000_000_000))
    one, other = (
        EngineRig(disk, seed=seed, watch=lambda: Watcher(tmp_path), clock=clock) for seed in (1, 2)
    )
    one.tick()
    one.create("q")
    one.send(*(b"%d" % n for n in range(5)))
    other.commit()
    theirs: list[Message] = []

    def lease_all() -> None:
        with suppress(DiskError):  # It is being taken from: try again.
            theirs.extend(other.receive(5))

    disk.meanwhile.append(lease_all)

    mine = one.receive(1)
    theirs += other.receive(5)

    assert sorted(m.body for m in [*mine, *theirs]) == [b"%d" % n for n in range(5)]
    for rig in (one, other):
        rig.commit()
        rig.check()
