"""Checks a root without a server, mends it, and brings back what was put into quarantine.

`check` only reads, and may run beside a server. `repair` and `restore` take the root's lock first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random, SystemRandom

from ..files import layout
from ..files.disk import Disk, LocalDisk
from ..files.folders import Folders
from ..files.opening import holder, take
from ..files.syncer import Syncer, SyncFailed
from ..model.clock import Clock, SystemClock
from ..model.errors import RootInUse, RootUnusable, StoreFailed, UnknownFormat
from ..model.ids import IdMaker
from .findings import Mended, Problem, Report
from .inspection import Inspector, Progress
from .mending import NotRestorable, mend
from .mending import restore as _restore

_NO_FORMAT = f"it holds no {layout.FORMAT} file; where its folders are there, a start writes it anew"

__all__ = ["NotRestorable", "Progress", "check", "repair", "restore"]


def check(root: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Look at every name, size and checksum; changes nothing.

    Raises `RootUnusable` or `UnknownFormat` if it isn't a root that can be looked at.
    """
    with _opened(root) as disk:
        return Inspector(disk, progress).run()


def repair(
    root: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
) -> tuple[Report, list[Mended], list[Problem]]:
    """Look at everything, and mend what can be: answers with what was found, mended, and is left.

    Raises `RootInUse` if somebody serves the root, else what `check` does; and `StoreFailed` if what
    was mended can't be made durable.
    """
    clock = clock or SystemClock()
    random = random or SystemRandom()
    with _opened(root) as disk, _taken(disk, root, random) as syncer:
        report = Inspector(disk, progress).run()
        folders = Folders(disk, syncer, IdMaker(clock, random))
        mended, left = mend(disk, folders, syncer, report.problems, clock, random)
        return report, mended, left


def restore(
    root: str | os.PathLike[str],
    id: str,
    *,
    queue: str | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
) -> str:
    """Bring a whole message, batch or queue back from quarantine; answers with its new path.

    `id` is the message's own, the queue's name, or that of its folder in quarantine; `queue` says where
    to put it if no note does, or somewhere else. Raises `NotRestorable`, else what `repair` does.
    """
    clock = clock or SystemClock()
    random = random or SystemRandom()
    with _opened(root) as disk, _taken(disk, root, random) as syncer:
        folders = Folders(disk, syncer, IdMaker(clock, random))
        return _restore(disk, folders, syncer, id, queue, clock, random)


@contextmanager
def _opened(root: str | os.PathLike[str]) -> Iterator[Disk]:
    name = os.fspath(root)
    try:
        disk = LocalDisk(root)
    except OSError as error:
        raise RootUnusable(root=name, why=error.strerror or str(error)) from error
    try:
        try:
            found = disk.read(layout.FORMAT, 100).decode(errors="replace")
        except FileNotFoundError as error:
            raise RootUnusable(root=name, why=_NO_FORMAT) from error
        except OSError as error:
            raise RootUnusable(root=name, why=f"{layout.FORMAT}: {error.strerror}") from error
        if found != layout.FORMAT_CONTENT:
            known = layout.FORMAT_CONTENT.strip()
            raise UnknownFormat(root=name, found=found.strip(), known=known)
        try:
            yield disk
        except OSError as error:
            raise RootUnusable(root=name, why=str(error)) from error
    finally:
        disk.close()


@contextmanager
def _taken(disk: Disk, root: str | os.PathLike[str], random: Random) -> Iterator[Syncer]:
    """With the root's lock held, whoever mends it."""
    tenancy = take(disk, os.fspath(root), random)
    try:
        if not tenancy.is_alone:
            raise RootInUse(root=os.fspath(root), holder=holder(disk, tenancy.owner))
        yield Syncer(disk)
    except SyncFailed as error:
        raise StoreFailed(detail=str(error)) from error
    finally:
        tenancy.end()
