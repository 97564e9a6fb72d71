"""How a process becomes one of a root's owners while others look who is there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from spoolrack_store.files import layout
from spoolrack_store.files.disk import LocalDisk, Lock
from spoolrack_store.store import Store


class ProbedDisk(LocalDisk):
    """Others hear of a new owner at once, and look at its lock before it has it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._other = LocalDisk(root)
        self._held: Lock | None = None
        self.probed = 0

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        super().create(path, parts, sync=sync)
        if path.startswith("owners/") and self.probed < 3:
            self.probed += 1
            self._held = self._other.lock(path)

    def lock(self, path: str) -> Lock | None:
        found = super().lock(path)
        if path.startswith("owners/") and self._held is not None:
            self._held.release()
            self._held = None
        return found


def test_who_is_looked_at_while_it_starts_starts_all_the_same(tmp_path: Path) -> None:
    disk = ProbedDisk(tmp_path)
    with Store.open(tmp_path, disk=disk):
        assert disk.probed == 3
        assert len(list((tmp_path / "owners").iterdir())) == 1
    assert list((tmp_path / "owners").iterdir()) == []


class CrowdedDisk(LocalDisk):
    """Whatever it is about to make, somebody else has just made."""

    def make_folder(self, path: str) -> None:
        if "/" not in path:
            super().make_folder(path)
        super().make_folder(path)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if path == layout.FORMAT and layout.FORMAT not in {found.name for found in self.scan(".")}:
            super().create(path, parts, sync=sync)
        super().create(path, parts, sync=sync)


def test_a_root_that_somebody_else_makes_at_the_same_time_is_opened(tmp_path: Path) -> None:
    with Store.open(tmp_path, disk=CrowdedDisk(tmp_path)) as store:
        assert store.queues() == []


def test_many_may_make_a_root_at_the_same_time(tmp_path: Path) -> None:
    together = threading.Barrier(6)
    failures: list[BaseException] = []

    def open_it() -> None:
        try:
            together.wait()
            with Store.open(tmp_path / "root") as store:
                together.wait()
                assert store.queues() == []
        except BaseException as error:
            failures.append(error)
            together.abort()
            raise

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert list((tmp_path / "root" / "owners").iterdir()) == []
