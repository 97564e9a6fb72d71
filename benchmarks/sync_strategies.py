"""What does it cost to make a message, or a move, durable on this disk?

    python benchmarks/sync_strategies.py FOLDER

makes a folder of its own in FOLDER, prints microseconds per operation (the median of several
rounds, interleaved so that noise hits all alike), and removes it again. The store's choice between
fsync and syncfs rests on this: see docs/explanation/decisions/0001.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
BODY = b"x" * 1024
LIBC = ctypes.CDLL(None, use_errno=True)


class SyncedFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders = {}
        for name in ("new", "ready", "leased"):
            (root / name).mkdir()
            self.folders[name] = os.open(root / name, os.O_RDONLY | os.O_DIRECTORY)
        self.files_made = 0

    def path(self, folder: str) -> Path:
        self.files_made += 1
        return self.root / folder / f"{self.files_made:08d}"

    def write(self, path: Path, *, sync: bool) -> Path:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, BODY)
        if sync:
            os.fsync(file)
        os.close(file)
        return path

    def sync_folder(self, *names: str) -> None:
        for name in names:
            os.fsync(self.folders[name])

    def sync_all(self) -> None:
        if LIBC.syncfs(self.folders["new"]) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")

    def batch(self, count: int, *, sync: bool) -> None:
        folder = self.path("new")
        folder.mkdir()
        for at in range(count):
            self.write(folder / str(at), sync=sync)
        if sync:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(opened)
            os.close(opened)
            self.sync_folder("new")
        else:
            self.sync_all()
        folder.rename(self.path("ready"))


def send_by_fsync(disk: SyncedFolder) -> None:
    written = disk.write(disk.path("new"), sync=True)
    disk.sync_folder("new")
    written.rename(disk.path("ready"))


def send_by_syncfs(disk: SyncedFolder) -> None:
    written = disk.write(disk.path("new"), sync=False)
    disk.sync_all()
    written.rename(disk.path("ready"))


def lease(disk: SyncedFolder, sync: Callable[[], None]) -> None:
    message = next((disk.root / "ready").iterdir())
    message.rename(disk.path("leased"))
    sync()


STRATEGIES: dict[str, tuple[int, Callable[[SyncedFolder], None]]] = {
    "send one: fsync of file and folder": (100, send_by_fsync),
    "send one: syncfs": (100, send_by_syncfs),
    "send 4 in a batch: fsync of each": (40, lambda disk: disk.batch(4, sync=True)),
    "send 4 in a batch: syncfs": (40, lambda disk: disk.batch(4, sync=False)),
    "send 100 in a batch: syncfs": (20, lambda disk: disk.batch(100, sync=False)),
    "lease: fsync of both folders": (
        100,
        lambda disk: lease(disk, lambda: disk.sync_folder("ready", "leased")),
    ),
    "lease: syncfs": (100, lambda disk: lease(disk, disk.sync_all)),
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(tempfile.mkdtemp(prefix="sync-strategies-", dir=sys.argv[1]))
    times: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    try:
        disk = SyncedFolder(root)
        for _ in range(ROUNDS):
            for name, (count, run) in STRATEGIES.items():
                begin = time.perf_counter()
                for _ in range(count):
                    run(disk)
                times[name].append((time.perf_counter() - begin) / count * 1e6)
    finally:
        shutil.rmtree(root)
    for name, each in times.items():
        print(f"{name:40s} {statistics.median(each):8.0f} us  ({min(each):.0f} to {max(each):.0f})")


if __name__ == "__main__":
    main()
