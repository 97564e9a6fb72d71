"""Makes a folder a root, or recognises one, and makes this process one of its owners.

Several processes may share a root. Each has a file in `owners/`, locked as long as it lives. The lock
on FORMAT is the gate: whoever starts, or mends, holds it until it is done, so that only one at a time
finds out whether it is alone, and does what only somebody who is alone may do.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from random import Random

from ..model.errors import RootInUse, RootUnusable, UnknownFormat
from ..model.names import make_token
from . import layout
from .disk import FOLDER_MODE, GROUP_FOLDER_MODE, Disk, Kind, Lock, ignore_umask_in, is_for_group
from .owners import is_living, owners_of
from .reserve import NO_ROOM, Reserve
from .syncer import SyncFailed

log = logging.getLogger(__name__)

_ALSO_ALLOWED = frozenset({"lost+found", layout.RESERVE})
"""What lies in the root of a new file system without being anybody's, and what holds nothing."""
_OWNER_LENGTH = 8
_FORMAT = layout.FORMAT_CONTENT.encode()


class Tenancy:
    """One process's right to write in a root. It ends with the process, however that ends."""

    def __init__(self, disk: Disk, gate: Lock, owner: str, owner_lock: Lock, *, is_alone: bool) -> None:
        self.owner = owner
        self.is_alone = is_alone
        """Whether nobody else has the root open. As long as the gate is held, that stays so."""
        self._disk = disk
        self._gate = gate
        self._owner_lock = owner_lock

    def admit(self) -> None:
        """Open the gate: others may start from now on."""
        self._gate.release()

    def end(self) -> None:
        """Leave the root to others."""
        try:
            self._disk.unlink(layout.owner(self.owner))
        except OSError as error:
            # The next start forgets the dead.
            log.warning("%s stays behind: %s", layout.owner(self.owner), error)
        self._owner_lock.release()
        self._gate.release()


def make_root(root: str | os.PathLike[str], *, group_access: bool = False) -> None:
    """Make the folder itself, if it isn't there; raises `RootUnusable`.

    With `group_access` its mode says that processes of its group may use it. That can be said only
    before anything is in it: what others have made there is theirs alone. A folder that anybody may
    write into is refused; what an ACL says to single users counts as its group.
    """
    path = Path(root)
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if group_access and not is_for_group(path.stat().st_mode):
            if any(found.name not in _ALSO_ALLOWED for found in path.iterdir()):
                raise RootUnusable(
                    root=os.fspath(root),
                    why="it is its owner's alone: with nobody using it, give it to the group "
                    f"(chmod -R g+rwX, then chmod g+s on all folders: find {path} -type d)",
                )
            path.chmod(GROUP_FOLDER_MODE)
        if path.stat().st_mode & stat.S_IWOTH:
            # The sticky bit doesn't help: who can make a file in it can send, and put aside what comes.
            raise RootUnusable(
                root=os.fspath(root),
                why=f"anybody on this machine may write into it: chmod o-w {path}",
            )
        if is_for_group(path.stat().st_mode):
            ignore_umask_in(os.fspath(root))
    except FileExistsError as error:
        raise RootUnusable(root=os.fspath(root), why="it is no folder") from error
    except OSError as error:
        raise RootUnusable(root=os.fspath(root), why=error.strerror or str(error)) from error


def is_root(root: str | os.PathLike[str]) -> bool:
    """Whether somebody has made the folder a root."""
    return Path(root, layout.FORMAT).exists()


def take(disk: Disk, root: str, random: Random) -> Tenancy:
    """Prepare the folder under `disk`, close the gate behind us, and become an owner.

    Raises `RootUnusable`, `UnknownFormat`, or `RootInUse` if somebody else is at the gate; `root` is
    what these call it.
    """
    try:
        _prepare(disk, root)
        try:
            return _pass_gate(disk, root, random)
        except (FileExistsError, FileNotFoundError) as error:
            # Several make the root at the same moment, and one finds another's first attempt torn.
            raise RootInUse(root=root, holder="") from error
    except (OSError, SyncFailed) as error:
        raise RootUnusable(root=root, why=str(error)) from error


def _pass_gate(disk: Disk, root: str, random: Random) -> Tenancy:
    lock = _whole_format(disk, disk.lock(layout.FORMAT))
    if lock is None:
        raise RootInUse(root=root, holder=holder(disk))
    try:
        return _become_owner(disk, root, lock, random)
    except BaseException:
        lock.release()
        raise


def _become_owner(disk: Disk, root: str, gate: Lock, random: Random) -> Tenancy:
    known = owners_of(disk)
    is_alone = not any(is_living(disk, owner) for owner in known)
    if is_alone:
        # The recovery that follows looks at all that they left.
        for owner in known:
            disk.unlink(layout.owner(owner))
    owner = make_token(random)[:_OWNER_LENGTH]
    path = layout.owner(owner)
    about = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
    _create_also_when_full(disk, path, about)
    owner_lock = disk.lock(path)
    if owner_lock is None:
        # One of the others has heard of it, and looks just now whether it is locked: by locking it.
        disk.unlink(path)
        raise RootInUse(root=root, holder="")
    return Tenancy(disk, gate, owner, owner_lock, is_alone=is_alone)


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
    if layout.FORMAT in kinds and missing:
        log.warning(
            "%s had no folder %s, which is made anew: unless the root is of an earlier version, what "
            "lay there is lost, and only a backup has it",
            root,
            ", ".join(missing),
        )
    elif layout.FORMAT not in kinds and layout.QUEUES in kinds and disk.scan(layout.QUEUES):
        log.warning("%s had queues and no FORMAT file, which is written anew", root)
    # Somebody else may be making the same root: what is there by now is as good.
    for folder in missing:
        with suppress(FileExistsError):
            disk.make_folder(folder)
    if layout.FORMAT not in kinds:
        # Last, so that a root with this file has all its folders.
        with suppress(FileExistsError):
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


def holder(disk: Disk, but: str = "") -> str:
    """Who has the root open, as far as it says, but for the owner `but`."""
    for owner in owners_of(disk):
        if owner == but:
            continue
        try:
            about = disk.read(layout.owner(owner), 200)
        except OSError:
            continue  # It has just left.
        return f" ({about.decode(errors='replace').strip()})"
    return ""
