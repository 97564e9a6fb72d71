"""Opens a root to look at it: no file in it is changed, and the store answers nothing but questions."""

from __future__ import annotations

import os
from typing import Final

from .files import layout
from .files.disk import LocalDisk
from .files.overlay import OverlayDisk
from .files.owners import is_living, owners_of
from .model.chores import Chores
from .model.clock import Clock
from .store import Store

_CHORES: Final = Chores(adopts=False, unlinks=False, ticks=False)


def open_to_look(root: str | os.PathLike[str], *, clock: Clock | None = None) -> Store:
    """The root as a start would find it now, with all that it would finish finished in memory.

    It is exact for a root in which nobody moves anything. What others do after the start isn't seen:
    a message that they move is passed over. Requests that change something change nothing on the disk,
    so none should be made. Raises as `Store.open` does.
    """
    return Store.open(root, clock=clock, disk=OverlayDisk(LocalDisk(root)), chores=_CHORES)


def has_owners(root: str | os.PathLike[str]) -> bool:
    """Whether a process has the root open; needs write permission, and raises `OSError`."""
    disk = LocalDisk(root)
    return any(is_living(disk, owner) for owner in owners_of(disk))


def may_have_owners(root: str | os.PathLike[str]) -> bool:
    """Whether a process has the root open, or was killed with it open; raises `OSError`."""
    return bool(owners_of(LocalDisk(root)))


def owners_changed_ns(root: str | os.PathLike[str]) -> int:
    """When a process has last opened or closed the root, in Unix nanoseconds; raises `OSError`."""
    return LocalDisk(root).facts(layout.OWNERS).changed_ns
