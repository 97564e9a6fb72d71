"""Makes a folder a root, or recognises one, and takes its lock."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from random import Random

from ..model.errors import RootInUse, RootUnusable, UnknownFormat
from ..model.names import is_owner, make_token
from . import layout
from .disk import FOLDER_MODE, Disk, Kind, Lock
from .reserve import NO_ROOM, Reserve
from .syncer import SyncFailed

log = logging.getLogger(__name__)

_ALSO_ALLOWED = frozenset({"lost+found", layout.RESERVE})
"""What lies in the root of a new file system without being anybody's, and what holds nothing."""
_OWNER_LENGTH = 8
_FORMAT = layout.FORMAT_CONTENT.encode()


class Tenancy:
    """One process's right to write in a root. It ends with the process, however that ends."""

    def __init__(self, disk: Disk, root: Lock, owner: str, owner_lock: Lock) -> None:
        self.owner = owner
        self._disk = disk
        self._root = root
        self._owner_lock = owner_lock

    def end(self) -> None:
        """Leave the root to others."""
        try:
            self._disk.unlink(layout.owner(self.owner))
        except OSError as error:
            # The next start forgets the dead.
            log.warning("%s stays behind: %s", layout.owner(self.owner), error)
        self._owner_lock.release()
        self._root.release()


def make_root(root: str | os.PathLike[str]) -> None:
    """Make the folder itself, if it isn't there; raises `RootUnusable`."""
    try:
        Path(root).mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise RootUnusable(root=os.fspath(root), why=str(error)) from error


def take(disk: Disk, root: str, random: Random) -> Tenancy:
    """Prepare the folder under `disk` and take its lock.

    Raises `RootUnusable`, `UnknownFormat` or `RootInUse`; `root` is what these call it.
    """
    try:
        _prepare(disk, root)
        lock = _whole_format(disk, disk.lock(layout.FORMAT))
        if lock is None:
            raise RootInUse(root=root, holder=_holder(disk))
        try:
            return _become_owner(disk, lock, random)
        except BaseException:
            lock.release()
            raise
    except (OSError, SyncFailed) as error:
        raise RootUnusable(root=root, why=str(error)) from error


def _become_owner(disk: Disk, lock: Lock, random: Random) -> Tenancy:
    _forget_the_dead(disk)
    owner = make_token(random)[:_OWNER_LENGTH]
    path = layout.owner(owner)
    about = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
    _create_also_when_full(disk, path, about)
    owner_lock = disk.lock(path)
    assert owner_lock is not None
    return Tenancy(disk, lock, owner, owner_lock)


def _create_also_when_full(disk: Disk, path: str, content: bytes) -> None:
    """What makes room on a full disk, deletes, needs a store that opens there."""
    while True:
        try:
            disk.create(path, [content], sync=False)
        except OSError as error:
            if error.errno not in NO_ROOM or not Reserve(disk).give():
                raise
        else:
            return


def _prepare(disk: Disk, root: str) -> None:
    kinds = {found.name: found.kind for found in disk.scan(".")}
    foreign = kinds.keys() - set(layout.ALL) - _ALSO_ALLOWED - {layout.FORMAT}
    if layout.FORMAT in kinds:
        found = disk.read(layout.FORMAT, 100)
        # A first start that was killed may have left its beginning: `_whole_format` mends that.
        if found != _FORMAT and (foreign or not _FORMAT.startswith(found)):
            known = layout.FORMAT_CONTENT.strip()
            raise UnknownFormat(root=root, found=found.decode(errors="replace").strip(), known=known)
    elif foreign:
        raise RootUnusable(
            root=root,
            why=f"it holds other things ({', '.join(sorted(map(ascii, foreign))[:3])}): choose an "
            "empty folder",
        )
    for folder in layout.ALL:
        if kinds.get(folder, Kind.FOLDER) is not Kind.FOLDER:
            raise RootUnusable(root=root, why=f"{folder} in it is not a folder")
    missing = [folder for folder in layout.ALL if folder not in kinds]
    for folder in missing:
        disk.make_folder(folder)
    if layout.FORMAT not in kinds:
        # Last, so that a root with this file has all its folders.
        disk.create(layout.FORMAT, [_FORMAT], sync=True)
    if missing or layout.FORMAT not in kinds:
        disk.sync_folder(".")


def _whole_format(disk: Disk, lock: Lock | None) -> Lock | None:
    """The lock on a FORMAT that is whole; None if somebody else was faster.

    `lock` is on the one that is there: whoever writes another holds both, so nobody gets in between.
    """
    if lock is None or disk.read(layout.FORMAT, 100) == _FORMAT:
        return lock
    try:
        disk.unlink(layout.FORMAT)
        disk.create(layout.FORMAT, [_FORMAT], sync=True)
        disk.sync_folder(".")
        return disk.lock(layout.FORMAT)
    finally:
        lock.release()


def _holder(disk: Disk) -> str:
    """Who holds the root's lock, as far as it says."""
    for found in disk.scan(layout.OWNERS):
        try:
            about = disk.read(layout.owner(found.name), 200)
        except OSError:
            continue  # It has just left.
        return f" ({about.decode(errors='replace').strip()})"
    return ""


def _forget_the_dead(disk: Disk) -> None:
    """Remove what owners have left that died: their locks are free."""
    for found in disk.scan(layout.OWNERS):
        if found.kind is not Kind.FILE or not is_owner(found.name):
            continue  # It was never an owner's, and is no reason not to start.
        path = layout.owner(found.name)
        lock = disk.lock(path)
        if lock is not None:
            disk.unlink(path)
            lock.release()
