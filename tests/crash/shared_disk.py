"""One engine's view of a disk that several have open: its own faults and locks, everybody's files.

What the kernel does for a process happens here: with its death its locks go, and its watch; and that
something couldn't be written is reported to each who had the file system open, by his next sync of all
of it (Linux 5.8; `tests/disks` asks a real one).
"""

from __future__ import annotations

from errno import EIO
from typing import BinaryIO

from memory_disk import MemoryWatch
from power_disk import PowerDisk
from spoolrack_store.files.disk import Lock
from spoolrack_store.files.watcher import Change
from spoolrack_store.model.clock import Clock
from step_disk import StepDisk

LOOK_AGAIN = 1_000
"""Milliseconds after which a deaf watch wants everything to be listed."""


class SharedWatch:
    """What is heard of the others: all, or once it is deaf, now and then that there may be news."""

    def __init__(self, watch: MemoryWatch, clock: Clock) -> None:
        self._watch = watch
        self._clock = clock
        self._next_look = 0
        self.hears_all = True

    def watch(self, folder: str) -> None:
        self._watch.watch(folder)

    def unwatch(self, folder: str) -> None:
        self._watch.unwatch(folder)

    def changes(self) -> list[Change] | None:
        changes, now = self._watch.changes(), self._clock.monotonic()
        if self.hears_all:
            return changes
        if now < self._next_look:
            return []
        self._next_look = now + LOOK_AGAIN
        return None

    def lose(self) -> None:
        """What hasn't been heard yet never will be."""
        self._watch.changes()
        self._watch.has_lost = True

    def deafen(self) -> None:
        self.hears_all = False
        self._next_look = self._clock.monotonic() + LOOK_AGAIN

    def cure(self) -> None:
        if not self.hears_all:
            self.hears_all = True
            self.lose()

    def close(self) -> None:
        self._watch.close()


class SharedDisk(StepDisk):
    """Not thread-safe."""

    def __init__(self, disk: PowerDisk, clock: Clock) -> None:
        super().__init__(disk)
        self.ear = SharedWatch(disk.watch(), clock)
        self._locks: list[Lock] = []
        self._losses = disk.losses
        """As many as this one has heard of."""

    def watch(self) -> SharedWatch:
        return self.ear

    def open(self, path: str) -> BinaryIO:
        return self.disk.open(path)

    def die(self) -> None:
        for lock in self._locks:
            lock.release()
        self.ear.close()

    # Disk.

    def lock(self, path: str) -> Lock | None:
        lock = super().lock(path)
        if lock is not None:
            self._locks.append(lock)
        return lock

    def sync_all(self) -> None:
        before, self._losses = self._losses, self.disk.losses
        if before != self._losses:
            raise OSError(EIO, "a sync of somebody else has failed to write something")
        super().sync_all()
