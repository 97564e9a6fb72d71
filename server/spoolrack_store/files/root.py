"""Opens a folder as a root of format 4, or creates one in it, and registers this process as an owner.

Each process has a file in `owners/`, which it locks for as long as it lives. `LOCK` is held while a
process becomes an owner and files of dead processes are unlinked, so that a file which isn't locked is
a dead process's.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ..model.errors import RootInUse, RootUnusable, StoreFailed, UnknownFormat
from ..model.message_ids import is_id
from ..model.names import is_owner
from ..model.receipts import make_token
from ..model.sealed import NotWhole, Torn, seal_text, unseal_text
from ..model.shards import Shard, parse_shard
from . import layout
from .changes import LOCK, PATH, SIZE, Memory
from .disk import NO_ROOM, Disk, FileKind, Lock, explaining, free_unlinked
from .disk_room import HeldRoom
from .layout import (
    COPY,
    FOLDERS,
    FORMAT_CONTENT,
    FORMAT_OF_HOSTS,
    IDENTITY,
    NEW,
    QUEUES,
    RESERVE,
    SHARD,
    UPGRADABLE,
)
from .layout import owner as owner_file
from .local_disk import (
    FOLDER_MODE,
    GROUP_FOLDER_MODE,
    RunningProcess,
    TouchWatch,
    ignore_umask_in,
    is_for_group,
)
from .upgrade import upgrade

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_FILES: Final = frozenset({"FORMAT", IDENTITY, LOCK, PATH, RESERVE, SHARD})
_ALSO_ALLOWED: Final = frozenset({"lost+found"})
_BEFORE: Final = (b"spoolrack 1\n", b"spoolrack 2\n")
_OWNER_LENGTH: Final = 8
_UNSUPPORTED: Final = frozenset(
    {
        *(errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV, errno.EMLINK),
        *(errno.ENODEV, errno.ENOLCK),
    }
)
"""Errors of an operation that a file system doesn't have (link(2), rename(2), mmap(2), flock(2))."""
_OF_LINE: Final = b"pid"
"""The beginning of the line in an owner's file."""


class RootDisk(Disk, Protocol):
    """A disk that a root is on."""

    kind: str
    """The type of its file system; "" if the system doesn't tell."""

    def map(self, path: str, size: int) -> Memory:
        """Return the bytes of a file of this size, which all processes of the host share."""

    def watch(self, path: str) -> TouchWatch | None:
        """Watch the file for touches by other processes; return None if the system can't."""

    def link_from(self, source: str, target: str) -> int:
        """Link a regular file of the same file system, which is synced then; return its size."""

    def close_lock(self) -> None: ...


@dataclass(slots=True)
class Root:
    """A root that this process has open, until it is closed or the process ends."""

    disk: RootDisk
    memory: Memory
    owner: str
    id: str
    """Tells this root from all others, but for its copies."""
    shard: Shard | None
    """None: the root is no shard."""
    _lock: Lock

    def is_living(self, owner: str) -> bool:
        """Return whether the process that has the root open as `owner` is alive; raise `DiskError` if
        that can't be told, for want of descriptors or so."""
        with explaining():
            return is_living(self.disk, owner)

    def close(self) -> None:
        """Close the root: this process is no owner any more."""
        try:
            self.disk.unlink(owner_file(self.owner))
        except OSError as error:
            # The next process that opens the root unlinks the files of dead processes.
            log.warning("%s stays behind: %s", owner_file(self.owner), error)
        self._lock.release()
        self.disk.close_lock()
        self.memory.close()


def make_root(root: str | os.PathLike[str], *, group_access: bool = False) -> None:
    """Create the folder, if it is missing; raises `RootUnusable`.

    With `group_access` its mode says that processes of its group may use it. That can be set only while
    it is empty: files that other users have made in it are theirs alone. A folder that every user may
    write into is refused; ACL entries of single users count as its group.
    """
    path = Path(root)
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if group_access and not is_for_group(path.stat().st_mode):
            if any(found.name not in _ALSO_ALLOWED for found in path.iterdir()):
                raise RootUnusable(
                    root=os.fspath(root),
                    why="it is its owner's alone: with no process using it, give it to the group "
                    f"(chmod -R g+rwX, then chmod g+s on all folders: find {path} -type d)",
                )
            path.chmod(GROUP_FOLDER_MODE)
        if path.stat().st_mode & stat.S_IWOTH:
            # The sticky bit doesn't help: a user who can make a file in it can send, and put messages
            # aside.
            raise RootUnusable(
                root=os.fspath(root),
                why=f"every user of this machine may write into it: chmod o-w {path}",
            )
        owner = path.stat().st_uid
        if owner not in (0, os.geteuid()):
            log.warning(
                "%s belongs to user %d, who can read and change all messages: chown it, unless that "
                "user is trusted",
                path,
                owner,
            )
        if is_for_group(path.stat().st_mode):
            ignore_umask_in(os.fspath(root))
    except FileExistsError as error:
        raise RootUnusable(root=os.fspath(root), why="it is no folder") from error
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            why = f"{why}: choose another folder, or let this user write there"
        raise RootUnusable(root=os.fspath(root), why=why) from error


def owners_of(disk: Disk) -> list[str]:
    """Return all owners that have a file, dead ones too."""
    return [
        found.name
        for found in disk.scan(layout.OWNERS)
        # Anything else was never an owner's, and is no reason not to start.
        if found.kind is FileKind.FILE and is_owner(found.name)
    ]


def is_living(disk: Disk, owner: str) -> bool:
    """Return whether the process that writes as `owner` is alive; raise `OSError` if that can't be
    told."""
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


def is_root(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a root, of any format."""
    return Path(path, "FORMAT").exists()


def not_a_root(path: str | os.PathLike[str]) -> RootUnusable:
    """Return why a folder isn't opened that no call makes a root: a mistyped name must not make one."""
    if os.path.exists(path) and not os.path.isdir(path):
        why = "it is no folder"
    else:
        what = "it is none yet" if os.path.exists(path) else "there is no such folder"
        why = f"{what}: check the path, or create a queue in it first"
    return RootUnusable(root=os.fspath(path), why=why)


def open_root(
    disk: RootDisk, root: str, random: Random, process: RunningProcess, shard: Shard | None = None
) -> Root:
    """Make the folder under `disk` a root, if it is empty, and become an owner.

    With a `shard` the root is that one, or becomes it. `root` is what errors call it. Raise
    `RootUnusable` or `UnknownFormat`, and `RootInUse` if another process holds `LOCK` just now.
    """
    try:
        _require_ours(disk, root)
        for folder in FOLDERS:
            with suppress(FileExistsError):
                disk.make_folder(folder)
        with suppress(FileExistsError):
            _also_when_full(disk, lambda: disk.create(LOCK, [], sync=False))
        root_lock = _attempt(disk, root, _LOCKS, lambda: disk.lock(LOCK))
        if root_lock is None:
            raise RootInUse(root=root, holder=holder(disk))
        try:
            lock, owner = _become_owner(disk, root, random, process)
            try:
                require_operations(disk, root, owner)
                _upgrade(disk, root, owner)
                id = _identify(disk, root, random)
                shard = _keep_shard(disk, root, owner, shard)
                _write_format(disk, root)
                _also_when_full(disk, lambda: disk.set_aside(PATH, SIZE))
                return Root(disk, disk.map(PATH, SIZE), owner, id, shard, lock)
            except BaseException:
                lock.release()
                disk.unlink(owner_file(owner))
                raise
        finally:
            root_lock.release()
    except OSError as error:
        raise RootUnusable(root=root, why=str(error)) from error


def _require_ours(disk: RootDisk, root: str) -> None:
    """Raise `RootUnusable` or `UnknownFormat` for what is neither empty nor a root of this format."""
    kinds = {found.name: found.kind for found in disk.scan(".")}
    if "FORMAT" in kinds:
        content = disk.read("FORMAT", 100)
        # A first start that was killed may have left the beginning.
        if content not in UPGRADABLE and not _format_of(disk).startswith(content):
            raise other_format(
                root,
                content,
                "export its queues with the version that wrote it (spoolrack export), and import them "
                "here into an empty folder (spoolrack import)",
            )
        foreign: set[str] = set()
    else:
        foreign = kinds.keys() - set(FOLDERS) - _FILES - _ALSO_ALLOWED
    if foreign:
        names = ", ".join(sorted(map(ascii, foreign))[:3])
        raise RootUnusable(root=root, why=f"it holds other things ({names}): choose an empty folder")
    for folder in FOLDERS:
        if kinds.get(folder, FileKind.FOLDER) is not FileKind.FOLDER:
            raise RootUnusable(root=root, why=f"{folder} in it is not a folder")
    if "FORMAT" not in kinds and "queues" in kinds and disk.scan("queues"):
        log.warning("%s had queues and no FORMAT file, which is written anew", root)
    missing = [folder for folder in FOLDERS if folder not in kinds]
    if "FORMAT" in kinds and missing:
        log.warning(
            "%s had no folder %s, which is made anew: its files are lost, and only a backup has them",
            root,
            ", ".join(missing),
        )


def other_format(root: str, content: bytes, advice: str) -> UnknownFormat:
    """Return why a root isn't opened whose `FORMAT` file has another content; `advice` is for a format
    that an earlier version wrote, and no start upgrades."""
    text = content.decode(errors="replace").strip()
    if content in UPGRADABLE:
        advice = "the first start of a server of this version upgrades it"
    elif content not in _BEFORE:
        advice = "use the version of Spoolrack that wrote it, or a newer one"
    known = FORMAT_CONTENT.decode().strip()
    return UnknownFormat(root=root, found=text, known=known, advice=advice)


def _upgrade(disk: RootDisk, root: str, owner: str) -> None:
    """Upgrade a root of the format before. `LOCK` is held. Raise `RootUnusable` if another process has
    it open, which would go on as before."""
    with suppress(FileNotFoundError):
        if disk.read("FORMAT", 100) not in UPGRADABLE:
            return
        if any(is_living(disk, each) for each in owners_of(disk) if each != owner):
            why = f"it has format 3, which this start upgrades, and it is open{holder(disk)}"
            raise RootUnusable(root=root, why=f"{why}: stop all processes of the version before first")
        upgrade(disk, root, owner, partial(_also_when_full, disk))


def _identify(disk: RootDisk, root: str, random: Random) -> str:
    """Return the root's identity; draw one if it has none. It is durable at return: a caller that was
    told one must never meet another one after a power cut."""
    try:
        id = read_identity(disk)
    except Torn:
        # Nobody was told it.
        disk.unlink(IDENTITY)
        log.warning("%s in %s was never written whole, and is drawn anew", IDENTITY, root)
        id = ""
    except NotWhole as error:
        raise RootUnusable(root=root, why=damaged_identity(error)) from error
    if id:
        # The process that drew it may have died before it was durable.
        _sync(lambda: disk.sync_file(IDENTITY))
    else:
        id = str(UUID(int=random.getrandbits(128), version=4))
        content = seal_text(id)
        _sync(lambda: _also_when_full(disk, lambda: disk.create(IDENTITY, [content], sync=True)))
    _sync(lambda: disk.sync_folder("."))
    return id


def _sync(make_durable: Callable[[], None]) -> None:
    """Raise `StoreFailed` where a sync fails: nothing is known to be durable then."""
    try:
        make_durable()
    except OSError as error:
        if error.errno == errno.EIO:
            raise StoreFailed(detail=str(error)) from error
        raise


def read_identity(disk: Disk) -> str:
    """Return the root's identity, "" if it has none yet; raise `NotWhole`, or `Torn`."""
    try:
        id = unseal_text(disk.read(IDENTITY, 100))
    except FileNotFoundError:
        return ""
    if not is_id(id):
        raise NotWhole("it is no identity")
    return id


def damaged_identity(error: NotWhole) -> str:
    """Return why a root whose identity is damaged isn't opened, and what to do."""
    return (
        f"its file {IDENTITY} is damaged ({error}): restore that file from a backup or a snapshot; or "
        "put it aside with `spoolrack fsck --repair`, and the next start draws another identity, which "
        "checkpoints of Spark refuse"
    )


def damaged_shard(error: NotWhole) -> str:
    """Return why a root isn't opened whose file `SHARD` is damaged, and what to do."""
    return f"its file {SHARD} is damaged ({error}): start its server with --shard, which writes it anew"


def _keep_shard(disk: RootDisk, root: str, owner: str, shard: Shard | None) -> Shard | None:
    """Return the shard that the root is; with `shard` it becomes that one, if it is none yet. It is
    durable at return. Raise `RootUnusable` for another one, or with queues that belong elsewhere."""
    try:
        shard_of_root = read_shard(disk)
    except NotWhole as error:
        # Torn by a power cut at the first start, or damaged: the flag says again what it is.
        if shard is None:
            raise RootUnusable(root=root, why=damaged_shard(error)) from error
        log.warning("%s in %s was damaged (%s), and is written anew as %s", SHARD, root, error, shard)
        disk.unlink(SHARD)
        shard_of_root = None
    if shard_of_root is not None:
        if shard not in (None, shard_of_root):
            why = f"it is shard {shard_of_root}, not {shard}: start it as {shard_of_root}"
            raise RootUnusable(root=root, why=f"{why}; or {_how_to_move(root)}")
        # The process that wrote it may have died before it was durable.
        _sync(lambda: disk.sync_file(SHARD))
    elif shard is not None:
        _require_empty_of_others(disk, root, owner, shard)
        content = seal_text(str(shard))
        _sync(lambda: _also_when_full(disk, lambda: disk.create(SHARD, [content], sync=True)))
    else:
        return None
    _sync(lambda: disk.sync_folder("."))
    return shard_of_root or shard


def _require_empty_of_others(disk: RootDisk, root: str, owner: str, shard: Shard) -> None:
    """Raise `RootUnusable` for a root that can't become a shard now: a process that has it open would
    go on without it, and queues of other shards would be found by no client."""
    if any(is_living(disk, each) for each in owners_of(disk) if each != owner):
        why = f"it is open in other processes as no shard{holder(disk)}: stop them first"
        raise RootUnusable(root=root, why=why)
    others = sorted(each.name for each in disk.scan(QUEUES) if not shard.has(each.name))
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise RootUnusable(
            root=root,
            why=f"it has queues that belong to other shards than {shard}, {', '.join(others[:3])}"
            f"{more}: {_how_to_move(root)}",
        )


def _how_to_move(root: str) -> str:
    return (
        f"move its queues with `spoolrack export --root {root} --output FILE QUEUE...` and "
        "`spoolrack import --url ADDRESS,ADDRESS,... FILE`, with the addresses of all shards in order"
    )


def read_shard(disk: Disk) -> Shard | None:
    """Return the shard that a root is, or None; raise `NotWhole` if its file doesn't say it."""
    try:
        text = unseal_text(disk.read(SHARD, 100))
    except FileNotFoundError:
        return None
    try:
        return parse_shard(text)
    except ValueError as error:
        raise NotWhole(str(error)) from error


def _write_format(disk: RootDisk, root: str) -> None:
    """Write FORMAT last: a root that has it has all its folders, on a file system that was tried."""
    try:
        if disk.read("FORMAT", 100) == _format_of(disk):
            return
        disk.unlink("FORMAT")
    except FileNotFoundError:
        pass
    disk.sync_folder(".")
    disk.create("FORMAT", [_format_of(disk)], sync=True)
    disk.sync_folder(".")


def _format_of(disk: RootDisk) -> bytes:
    return FORMAT_OF_HOSTS if disk.several_hosts else FORMAT_CONTENT


def _become_owner(
    disk: RootDisk, root: str, random: Random, process: RunningProcess
) -> tuple[Lock, str]:
    for other in owners_of(disk):
        about = _about(disk, other)
        is_elsewhere = not (disk.several_hosts or not about or about.endswith(f"boot {process.boot}"))
        if not is_living(disk, other):
            if is_elsewhere:
                log.warning(
                    "%s was open in a process of another host, or before this host was started (%s): "
                    "only processes of one host may share a root",
                    root,
                    about,
                )
            disk.unlink(owner_file(other))
            free_unlinked(disk)  # The file of this process may need its inode.
        elif is_elsewhere:
            is_host = f"boot {process.boot.partition(' ')[0]}" in about
            where = "in another time namespace of this host" if is_host else "on another host"
            raise RootInUse(root=root, holder=f" ({about}), which runs {where}")
    owner = make_token(random)[:_OWNER_LENGTH]
    path = owner_file(owner)
    content = f"{_OF_LINE.decode()} {process.pid} on {process.host} boot {process.boot}\n".encode()
    _also_when_full(disk, lambda: disk.create(path, [content], sync=False))
    lock = disk.lock(path)
    if lock is None:
        raise RootInUse(root=root, holder="")
    return lock, owner


def _also_when_full(disk: Disk, make: Callable[[], None]) -> None:
    """Make a file, with the reserve of a full disk: deletes make room there, and need an open root."""
    while True:
        try:
            make()
        except OSError as error:
            if error.errno not in NO_ROOM or not HeldRoom(disk).give():
                raise
        else:
            return


def holder(disk: Disk) -> str:
    """Describe the processes that have the root open, from their own files."""
    processes = []
    for owner in owners_of(disk):
        with suppress(FileNotFoundError):
            processes.append(_about(disk, owner))
    return f" ({'; '.join(processes)})" if processes else ""


def _about(disk: Disk, owner: str) -> str:
    """Return the process of an owner in its own words."""
    return disk.read(owner_file(owner), 200).decode(errors="replace").strip()


def require_operations(disk: RootDisk, root: str, owner: str) -> None:
    """Try each operation as the store uses it: a link into `new/`, a rename there onto a free and onto
    a taken name, a sync of the folder, shared memory, and a lock that excludes another one. Raise
    `RootUnusable`, which names what is missing. No file is made. Links and renames are left untried on
    a disk that has no room for another name.

    A process that dies here leaves names that the next start unlinks.
    """
    path = owner_file(owner)
    _require_memory(disk, root, path)
    _require_locks(disk, root, path)
    try:
        _require_names(disk, root, path, f"{NEW}/{owner}-1{COPY}", f"{NEW}/{owner}-2{COPY}")
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        # The deletes that make room need an open root, and the reserve.
        log.warning("the disk is full: links and renames in %s weren't tried: %s", root, error)


def _require_names(disk: RootDisk, root: str, source: str, first: str, second: str) -> None:
    """Raise `RootUnusable` if a file's names can't be made, moved and kept as the store needs it."""
    rename = "no rename that keeps what is there (renameat2 with RENAME_NOREPLACE)"
    try:
        _attempt(disk, root, "no hard links (link)", lambda: disk.link(source, first))
        # Onto a free name: a file system may look at the flag only after it has found the name taken.
        _attempt(disk, root, rename, lambda: disk.rename_new(first, second))
        try:
            _attempt(disk, root, rename, lambda: disk.rename_new(second, source))
        except FileExistsError:
            pass
        else:
            raise _lacks(disk, root, "a rename that replaces what it must keep")
        sync = "no sync of a folder (fsync)"
        _attempt(disk, root, sync, lambda: _sync(lambda: disk.sync_folder(NEW)))
    finally:
        for path in (first, second):
            with suppress(FileNotFoundError):
                disk.unlink(path)


_LOCKS: Final = "no locks (flock)"


def _require_memory(disk: RootDisk, root: str, path: str) -> None:
    """Raise `RootUnusable` if what a process writes isn't in the memory that processes share."""
    size = len(_OF_LINE)
    memory = _attempt(disk, root, "no memory that processes share (mmap)", lambda: disk.map(path, size))
    try:
        for written in (_OF_LINE.upper(), _OF_LINE):
            memory.write(0, written)
            if memory.read(0, size) != written:
                raise _lacks(disk, root, "shared memory that doesn't show what was written (mmap)")
    finally:
        memory.close()


def _require_locks(disk: RootDisk, root: str, path: str) -> None:
    """Raise `RootUnusable` if a lock doesn't exclude another user of the file."""
    locks: list[Lock] = []
    try:
        while len(locks) < 2 and (lock := _attempt(disk, root, _LOCKS, lambda: disk.lock(path))):
            locks.append(lock)
        if len(locks) > 1:
            raise _lacks(disk, root, "locks that exclude no other process (flock)")
    finally:
        for lock in locks:
            lock.release()


def _attempt(disk: RootDisk, root: str, name: str, operation: Callable[[], _Result]) -> _Result:
    """Return what an operation does; raise `RootUnusable` if the file system doesn't have it."""
    try:
        return operation()
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        what = f"{name}: {errno.errorcode[error.errno]}, {error.strerror}"
        raise _lacks(disk, root, what) from error


def _lacks(disk: RootDisk, root: str, what: str) -> RootUnusable:
    kind = f" ({disk.kind})" if disk.kind else ""
    why = f"its file system{kind} has {what}: use one such as ext4, XFS, Btrfs or tmpfs"
    return RootUnusable(root=root, why=why)
