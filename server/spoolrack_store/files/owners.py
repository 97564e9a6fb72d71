"""Who writes in a root: a file in `owners/` for each process, locked as long as it lives."""

from __future__ import annotations

from ..model.names import is_owner
from . import layout
from .disk import Disk, Kind


def owners_of(disk: Disk) -> list[str]:
    """All owners that have a file, the dead ones too."""
    return [
        found.name
        for found in disk.scan(layout.OWNERS)
        # Anything else was never an owner's, and is no reason not to start.
        if found.kind is Kind.FILE and is_owner(found.name)
    ]


def is_living(disk: Disk, owner: str) -> bool:
    """Whether the process that writes as `owner` lives.

    Only behind the gate can the answer "no" be relied on: a process that starts makes its file first,
    and locks it then.
    """
    try:
        lock = disk.lock(layout.owner(owner))
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # Another user's, who hasn't given it to the group, or is just about to.
    if lock is None:
        return True
    lock.release()
    return False
