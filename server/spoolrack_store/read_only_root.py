"""Opens a root read-only: no file in it is changed, and the store answers only queries.

The work of a start is done in memory: a torn file in `new/` isn't shown, a deleted queue is gone, a
queue that lost its settings has the default ones. Beside processes that have the root open, the folders
are listed without a lock: the list is of the moments in which that is done, and no other process waits.
Else they are listed under a shared lock, which keeps a process that opens the root from committing
meanwhile. Later moves by others aren't seen: a message that they move is passed over.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from typing import Final

from .committer import Committer
from .files import layout
from .files.changes import PATH, SIZE, Changes
from .files.disk import Lock
from .files.hosts_disk import disk_of
from .files.local_disk import LocalDisk
from .files.lock_wait import describe_holder
from .files.overlay import OverlayDisk
from .files.root import is_living, is_root, not_a_root, owners_of
from .model.background_work import BackgroundWork
from .model.clock import Clock
from .model.errors import StoreError
from .store import Store
from .thread_driver import ThreadDriver, run_whole

log = logging.getLogger(__name__)

_WORK: Final = BackgroundWork(adopts=False, unlinks=False, ticks=False)
_TRIES: Final = 250
_TRY_EVERY: Final = 0.02
"""Seconds. A process that holds the lock for more than five is stopped, or moves very much."""
_MOST_COMMITS: Final = 100_000
"""Commits of work that a start may have to finish, in memory."""
_NEVER: Final = threading.Event()


def open_read_only(root: str | os.PathLike[str], *, clock: Clock | None = None) -> Store:
    """Open the root as a start would find it now, with unfinished work finished in memory.

    Requests that change something change nothing on the disk, so none should be made. Raise as
    `Store.open` does, and `RootUnusable` for a folder that isn't a root.
    """
    if not is_root(root):
        raise not_a_root(root)
    disk = disk_of(root)
    overlay = OverlayDisk(disk)
    is_shared = any(is_living(disk, owner) for owner in owners_of(disk))
    if is_shared:
        overlay.freeze()
    with nullcontext() if is_shared else _still(disk, os.fspath(root)):
        return Store.open(
            root,
            clock=clock,
            # Only how names are made in memory depends on it.
            random=Random(0),
            disk=overlay,
            background=_WORK,
            driver=_Finished(),
        )


def has_owners(root: str | os.PathLike[str]) -> bool:
    """Return whether a process has the root open; it needs write permission. Raise `OSError`."""
    disk = disk_of(root)
    return any(is_living(disk, owner) for owner in owners_of(disk))


def may_have_owners(root: str | os.PathLike[str]) -> bool:
    """Return whether a process has the root open, or was killed with it open. Raise `OSError`."""
    return bool(owners_of(disk_of(root)))


def owners_changed_ns(root: str | os.PathLike[str]) -> int:
    """Return when a process has last opened or closed the root, in Unix nanoseconds. Raise
    `OSError`."""
    return disk_of(root).facts(layout.OWNERS).changed_ns


def lock_holder(root: str | os.PathLike[str]) -> str:
    """Describe the process that holds the root's lock at this moment; "" if none does, or if that can't
    be found out."""
    try:
        disk = disk_of(root)
    except (OSError, StoreError):
        return ""
    try:
        lock = disk.share_lock()
        if lock is not None:
            lock.release()
            return ""
        return describe_holder(*Changes(disk.map(PATH, SIZE), "").holder())
    except OSError:
        return ""
    finally:
        disk.close()


class _Finished(ThreadDriver):
    """Finishes the work of a start before the store is open."""

    def start(self, committer: Committer) -> None:
        for _ in range(_MOST_COMMITS):
            if not committer.poll_work()[0]:
                break
            run_whole(committer)
        super().start(committer)


@contextmanager
def _still(disk: LocalDisk, root: str) -> Iterator[None]:
    """Keep other processes from committing, as far as this one may."""
    lock: Lock | None = None
    warning = "%s can't be locked: messages that other processes move may be missing"
    was_never_open = False
    try:
        for _ in range(_TRIES):
            lock = disk.share_lock()
            if lock is not None:
                break
            _NEVER.wait(_TRY_EVERY)
        else:
            log.warning(
                "another process holds the lock of %s: messages that it moves may be missing", root
            )
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT):
            raise
        was_never_open = error.errno == errno.ENOENT  # A snapshot, or a copy without its `LOCK`.
        if not was_never_open:
            log.warning(warning, root)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
    if was_never_open and owners_of(disk):
        log.warning(warning, root)
