"""Checks a root without a server, repairs it, restores messages from quarantine, and finds receipts.

`check` and `receipts_of` only read, and may run beside a server. `repair` and `restore` hold `LOCK`,
and refuse a root that a living process has open.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from random import SystemRandom

from ..engine.entries import resolve
from ..files.changes import LOCK
from ..files.disk import Disk, SyncFailed
from ..files.hosts_disk import disk_of
from ..files.layout import FORMAT, HOSTS_OF
from ..files.root import holder, is_living, other_format, owners_of
from ..model import receipts
from ..model.clock import Clock, SystemClock
from ..model.errors import RootInUse, RootUnusable, StoreFailed
from ..model.members import indexes
from ..model.names import parse
from ..model.transitions import State
from .findings import Findings, Mended, Problem, Progress, Report
from .inspection import inspect
from .repairs import Mender
from .trial_start import message_paths


def check(
    root: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> Report:
    """Inspect each name, size and checksum; change nothing.

    Raise `RootUnusable` or `UnknownFormat` if it isn't a root that can be looked at.
    """
    with _open(root) as disk:
        return inspect(disk, clock or SystemClock(), progress=progress)


def repair(
    root: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> tuple[Report, list[Mended], list[Problem]]:
    """Inspect everything, and repair all that can be; return the problems that were found, repaired,
    and left.

    Raise `RootInUse` if a process has the root open, else what `check` does; and `StoreFailed` if what
    was mended can't be made durable.
    """
    clock = clock or SystemClock()
    with _open(root) as disk, _lock(disk, root):
        report = inspect(disk, clock, progress=progress)
        mended, unsolved = Mender(disk, clock, SystemRandom()).mend(report.problems)
        return report, mended, unsolved


def restore(
    root: str | os.PathLike[str],
    id: str,
    *,
    queue: str | None = None,
    clock: Clock | None = None,
) -> str:
    """Make whole messages in quarantine ready again; return their new path.

    `id` is a message's own or its batch's, or that of its folder in quarantine. `queue` is where to put
    them, if not to the queue that their name says. Raise `NotRestorable`, else what `repair` does.
    """
    clock = clock or SystemClock()
    with _open(root) as disk, _lock(disk, root):
        return Mender(disk, clock, SystemRandom()).restore(id, queue)


def receipts_of(root: str | os.PathLike[str], queue: str, ids: Collection[str]) -> dict[str, str]:
    """Return the receipt of each of these messages, by id, as far as they are leased at this moment:
    for an operator who knows only an id.

    Reads names only, and changes nothing. Raise `RootUnusable` or `UnknownFormat`.
    """
    receipt_of: dict[str, str] = {}
    with _open(root) as disk:
        paths = message_paths(Findings(disk).scan)
    for batch in resolve(parse(path) for of_stem in paths.values() for path in of_stem).values():
        for entry in batch.entries:
            name = entry.name
            if name.state is State.LEASED and name.queue == queue:
                of_entry = [(index, batch.stem.message_id(index)) for index in indexes(entry.members)]
                messages = [(index, id) for index, id in of_entry if id in ids]
                receipts_made = receipts.make(queue, name.token, messages)
                receipt_of |= dict(zip((id for _, id in messages), receipts_made, strict=True))
    return receipt_of


@contextmanager
def _open(root: str | os.PathLike[str]) -> Iterator[Disk]:
    name = os.fspath(root)
    try:
        disk = disk_of(root)
    except OSError as error:
        raise RootUnusable(root=name, why=error.strerror or str(error)) from error
    try:
        try:
            content = disk.read(FORMAT, 100)
        except FileNotFoundError as error:
            why = f"it holds no {FORMAT} file; where its folders are there, a start writes it anew"
            raise RootUnusable(root=name, why=why) from error
        except OSError as error:
            raise RootUnusable(root=name, why=f"{FORMAT}: {error.strerror}") from error
        if content not in HOSTS_OF:
            raise other_format(name, content, "use the version that wrote it")
        try:
            yield disk
        except OSError as error:
            raise RootUnusable(root=name, why=str(error)) from error
    finally:
        disk.close()


@contextmanager
def _lock(disk: Disk, root: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes out: a start takes its owner's lock, then `LOCK`, then lists the root."""
    if not any(found.name == LOCK for found in disk.scan(".")):
        disk.create(LOCK, [], sync=False)
    lock = disk.lock(LOCK)
    try:
        if lock is None or any(is_living(disk, owner) for owner in owners_of(disk)):
            raise RootInUse(root=os.fspath(root), holder=holder(disk))
        yield
    except SyncFailed as error:
        raise StoreFailed(detail=str(error)) from error
    finally:
        if lock is not None:
            lock.release()
