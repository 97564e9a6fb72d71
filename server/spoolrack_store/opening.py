"""Makes a folder a root, or recognises one, and takes its lock."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from random import Random

from . import layout
from .disk import FOLDER_MODE, Disk, Lock
from .errors import RootInUse, RootUnusable, UnknownFormat
from .names import make_token

_ALSO_ALLOWED = frozenset({"lost+found"})
"""What lies in the root of a new file system without being anybody's."""
_OWNER_LENGTH = 8


class Tenancy:
    """One process's right to write in a root. It ends with the process, however that ends."""

    def __init__(self, disk: Disk, root: Lock, owner: str, owner_lock: Lock) -> None:
        self.owner = owner
        self._disk = disk
        self._root = root
        self._owner_lock = owner_lock

    def end(self) -> None:
        """Leave the root to others."""
        self._disk.unlink(layout.owner(self.owner))
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
        lock = disk.lock(layout.FORMAT)
        if lock is None:
            raise RootInUse(root=root, holder=_holder(disk))
        _forget_the_dead(disk)
        owner = make_token(random)[:_OWNER_LENGTH]
        path = layout.owner(owner)
        about = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
        disk.create(path, [about], sync=False)
        owner_lock = disk.lock(path)
        assert owner_lock is not None
        return Tenancy(disk, lock, owner, owner_lock)
    except OSError as error:
        raise RootUnusable(root=root, why=str(error)) from error


def _prepare(disk: Disk, root: str) -> None:
    names = {found.name for found in disk.scan(".")}
    if layout.FORMAT in names:
        found = disk.read(layout.FORMAT, 100).decode(errors="replace")
        if found != layout.FORMAT_CONTENT:
            known = layout.FORMAT_CONTENT.strip()
            raise UnknownFormat(root=root, found=found.strip(), known=known)
    elif foreign := names - set(layout.ALL) - _ALSO_ALLOWED:
        raise RootUnusable(
            root=root,
            why=f"it holds other things ({', '.join(sorted(map(ascii, foreign))[:3])}): choose an "
            "empty folder",
        )
    missing = [folder for folder in layout.ALL if folder not in names]
    for folder in missing:
        disk.make_folder(folder)
    if layout.FORMAT not in names:
        # Last, so that a root with this file has all its folders.
        disk.create(layout.FORMAT, [layout.FORMAT_CONTENT.encode()], sync=True)
    if missing or layout.FORMAT not in names:
        disk.sync_folder(".")


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
        path = layout.owner(found.name)
        lock = disk.lock(path)
        if lock is not None:
            disk.unlink(path)
            lock.release()
