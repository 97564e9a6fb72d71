"""The reaper as a process of its own: it unlinks what lies in `remove/`, and knows nothing else.

It has no index and is no owner: of a root with a million messages it reads what is deleted. What it
unlinks must be durably there, so one sync of the file system comes before the unlinking of all that was
found. That no message lies somewhere else, too, must be known before it begins: whoever opens a root
after a crash sees to that. Others may reap beside it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from random import Random
from typing import Final

from .engine.reaper import Reaper
from .engine.root import path_in
from .engine.sweep import removed_in
from .files import layout
from .files.disk import Disk, Kind, LocalDisk
from .files.owners import is_living, owners_of
from .files.segments import Segments
from .model.chance import PooledRandom
from .model.chores import Chores
from .model.clock import SECOND, Clock, Millis, SystemClock
from .model.errors import RootInUse, StoreFailed
from .model.names import make_token
from .model.settings import MAX_WINDOW
from .store import Store

log = logging.getLogger(__name__)

NOTHING_ELSE: Final = Chores(adopts=False, brings_back=False, unlinks=False, ticks=False)
_PATIENCE: Final = Millis(30 * SECOND)
"""How long another one may take to start, or to mend."""
_KNOCKS_EVERY: Final = Millis(20)
_AT_ONCE: Final = 64
_WRITER_LENGTH: Final = 8


class Sweeper:
    """Not thread-safe."""

    @classmethod
    def open(cls, root: str | os.PathLike[str], *, clock: Clock | None = None) -> Sweeper:
        """Begin with a root. If nobody has it open, what a crash may have left is finished first.

        Raises what `Store.open` does.
        """
        disk = LocalDisk(root)
        if not _is_recovered(disk, os.fspath(root), clock or SystemClock()):
            Store.open(root, chores=NOTHING_ELSE).close()
        return cls(disk, clock=clock)

    def __init__(self, disk: Disk, *, clock: Clock | None = None, random: Random | None = None) -> None:
        """For `open`: the root is recovered."""
        clock = clock or SystemClock()
        self._disk = disk
        # It knows no queue's settings, and keeps keys as long as any queue may ask for them: whoever
        # has the root open, and knows better, unlinks them.
        segments = Segments(disk, make_token(random or PooledRandom())[:_WRITER_LENGTH])
        self._reaper = Reaper(disk, set(), segments, lambda queue: clock.wall() - MAX_WINDOW)
        self._reaper.knows_histories = False

    @property
    def unlinked(self) -> int:
        """Messages unlinked so far."""
        return self._reaper.unlinked

    def sweep(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Unlink what is in `remove/` now, or as much of it as there is until `is_over`.

        Raises `StoreFailed` if it can't be told what is durable.
        """
        try:
            paths = removed_in(self._disk.scan(layout.REMOVE), self._reaper)
            if not paths:
                return
            _sync_everything(self._disk)
        except OSError as error:
            raise StoreFailed(detail=str(error)) from error
        self._reaper.give(paths)
        while not is_over() and self._reaper.reap(_AT_ONCE):
            pass


def _is_recovered(disk: Disk, root: str, clock: Clock) -> bool:
    """Whether somebody has the root open, who has found or made it whole.

    Whoever is alone recovers before he opens the gate. As long as this process lives, there can't have
    been another power cut.
    """
    until = clock.monotonic() + _PATIENCE
    quiet = threading.Condition()
    while (gate := disk.lock(layout.FORMAT)) is None:
        now = clock.monotonic()
        if now >= until:
            raise RootInUse(root=root, holder="")
        with quiet:
            clock.wait(quiet, Millis(now + _KNOCKS_EVERY))
    try:
        return any(is_living(disk, owner) for owner in owners_of(disk))
    finally:
        gate.release()


def _sync_everything(disk: Disk) -> None:
    """Return once all that anybody has moved is durable."""
    if disk.can_sync_all:
        disk.sync_all()
        return
    for folder in (layout.NEW, layout.QUEUES, layout.DELAY, layout.REMOVE):
        _sync_with_all_inside(disk, folder)


def _sync_with_all_inside(disk: Disk, folder: str) -> None:
    try:
        for found in disk.scan(folder):
            if found.kind is Kind.FOLDER:
                _sync_with_all_inside(disk, path_in(folder, found.name))
        disk.sync_folder(folder)
    except FileNotFoundError:
        return  # It has moved on, to one of those that come later.
