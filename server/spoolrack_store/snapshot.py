"""Copies a whole root by hard links while it is served: a snapshot is a root of its own.

The content of a file is written once and never changed, so a link is a copy. A file that can have no
more links is copied once, and so is a message in a spare file. Most links are made while commits go on.
Then `LOCK` is held while the names are read once more: what has been made since is linked, and what is
gone is unlinked. So the snapshot is the root at one instant, and commits of all processes wait for a
listing, and for the links of what changed since the listing before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from .files import layout
from .files.changes import LOCK, PATH, SIZE, Changes, Memory
from .files.disk import Lock, SyncFailed
from .files.hard_links import Links
from .files.hosts_disk import disk_of
from .files.local_disk import LocalDisk, this_process
from .files.lock_wait import describe_holder, try_for
from .files.root import (
    damaged_identity,
    damaged_shard,
    is_root,
    other_format,
    read_identity,
    read_shard,
)
from .files.spares import messages_in_spares
from .model.clock import Clock, Millis, SystemClock
from .model.errors import RootInUse, RootUnusable, StoreFailed, TargetUnusable
from .model.names import name_at
from .model.sealed import NotWhole, seal_text

TRIES: Final = 1_500
"""Of a lock that another process holds: half a minute."""
_AHEAD: Final = 10
"""Times that the names are read while commits go on, at most."""
_FEW: Final = 100
"""Names that were linked by the last of these times: the rest may be linked while commits wait."""
_LINKED: Final = (
    *(each for each in layout.FOLDERS if each not in (layout.OWNERS, layout.ARCHIVE)),
    layout.ARCHIVE,
)
"""The archive is the last: reapers move files there meanwhile, without the lock."""


class RootLinks(Protocol):
    """A root of links under construction: see `hard_links.Links`."""

    copied: int

    def make(self, folder: str) -> None: ...

    def follow(self, folder: str, takes: Callable[[str], bool] | None = None) -> int: ...

    def put(self, path: str, content: bytes) -> None: ...

    @property
    def files(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    files: int
    """Names that were linked."""
    waited: Millis
    """How long commits had to wait."""
    copied: int = 0
    """Files that were copied, because they have as many links as the file system allows."""


def take_snapshot(
    root: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    clock: Clock | None = None,
    tries: int = TRIES,
) -> Snapshot:
    """Make `target` a copy of `root` at this moment: all acknowledged messages, no deleted ones, and
    the same identity.

    It is durable at return. A process that dies meanwhile leaves `<target>.partial`.

    Raise `RootUnusable` for a folder that isn't a root; `TargetUnusable` for a `target` that exists,
    lies in the root or on another file system, or that the disk refuses; `UnknownFormat`; `RootInUse`
    if another process goes on holding the lock; `StoreFailed` if a sync failed: only a restart can tell
    what is durable.
    """
    name = os.fspath(root)
    if not is_root(root):
        raise RootUnusable(root=name, why="it is none")
    clock = clock or SystemClock()
    try:
        disk = disk_of(root)
        links = Links(root, target)
    except OSError as error:
        raise RootUnusable(root=name, why=error.strerror or str(error)) from error
    try:
        format = disk.read(layout.FORMAT)
        if format not in layout.HOSTS_OF:
            raise other_format(name, format, "use the version that wrote it")
        with contextlib.suppress(FileExistsError):
            disk.create(LOCK, [], sync=False)
        about = _about(disk, name)

        def stop_commits() -> tuple[Lock, Memory]:
            lock = _acquire_lock(disk, name, tries)  # The close of the disk releases it, too.
            # A copy of a root may lack it, or have holes in it.
            disk.set_aside(PATH, SIZE)
            return lock, disk.map(PATH, SIZE)

        with links:
            taken = link_root(links, stop_commits, clock, partial(messages_in_spares, disk))
            links.finish({**about, layout.FORMAT: format})
    except SyncFailed as error:
        raise StoreFailed(detail="a sync of a process that has the root open failed") from error
    except OSError as error:
        raise TargetUnusable(root=os.fspath(target), why=str(error)) from error
    finally:
        disk.close()
    return taken


def _about(disk: LocalDisk, root: str) -> dict[str, bytes]:
    """Return the files that say what the root is; raise `RootUnusable` if one of them is damaged."""
    about: dict[str, bytes] = {}
    try:
        if id := read_identity(disk):
            about[layout.IDENTITY] = seal_text(id)
    except NotWhole as error:
        raise RootUnusable(root=root, why=damaged_identity(error)) from error
    try:
        if (shard := read_shard(disk)) is not None:
            about[layout.SHARD] = seal_text(str(shard))
    except NotWhole as error:
        raise RootUnusable(root=root, why=damaged_shard(error)) from error
    return about


def link_root(
    links: RootLinks,
    stop_commits: Callable[[], tuple[Lock, Memory]],
    clock: Clock,
    in_spares: Callable[[Sequence[str]], Mapping[str, bytes]],
) -> Snapshot:
    """Link all folders of a root. `stop_commits` is called when most is linked, and its lock released
    when all is. Messages that are `in_spares` then, by their paths, are copied: their files have other
    names."""
    links.make(layout.OWNERS)
    for _ in range(_AHEAD):
        if _follow(links) <= _FEW:
            break
    lock, memory = stop_commits()
    try:
        changes = Changes(memory, "", this_process().pid)
        began = clock.monotonic()
        changes.hold(clock.wall())
        changes.read_header()
        spares: list[str] = []
        _follow(links, spares)
        for path, content in in_spares(spares).items():
            links.put(path, content)
        return Snapshot(links.files, Millis(clock.monotonic() - began), links.copied)
    finally:
        lock.release()


def _follow(links: RootLinks, spares: list[str] | None = None) -> int:
    """Make the folders what they are in the root; return the number of files that had to be linked. Add
    the paths of spare files to `spares`."""

    def takes(name: str) -> bool:
        if spares is not None and layout.spare_owner(name):
            spares.append(f"{layout.NEW}/{name}")
        return _is_message(name)

    return sum(links.follow(each, takes if each == layout.NEW else None) for each in _LINKED)


def _is_message(name: str) -> bool:
    """Return whether the name of a file in `new/` is a message's.

    A body that is being written isn't linked. Neither is a file that was put there by hand: with two
    links it would not be adopted.
    """
    return name_at(f"{layout.NEW}/{name}") is not None


def _acquire_lock(disk: LocalDisk, root: str, tries: int) -> Lock:
    lock = try_for(tries, partial(disk.lock, LOCK))
    if lock is None:
        holder = describe_holder(*Changes(disk.map(PATH, SIZE), "").holder())
        raise RootInUse(root=root, holder=f", {holder}, which holds the lock")
    return lock
