"""Promises of the file system under a root, as far as the system reports them.

Every promise of the store rests on a rename being atomic on disk. ext4 without a journal doesn't give
that: after a power cut a message can be in both folders of its last rename, or in neither.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_MOUNTS = Path("/proc/self/mountinfo")
_JOURNALS = Path("/proc/fs/jbd2")
_DEVICES = Path("/sys/dev/block")


def log_doubt(root: str | os.PathLike[str]) -> str | None:
    """Return `doubt_about(root)`, after a warning in this module's own log if there is one."""
    doubt = doubt_about(root)
    if doubt is not None:
        log.warning("%s is on %s", os.fspath(root), doubt)
    return doubt


def doubt_about(root: str | os.PathLike[str], devices: Path = _DEVICES) -> str | None:
    """Return what the file system under `root` is, and which promise it may not keep; None: nothing is
    known against it. `devices`: the system's links from a device's numbers to its name (sysfs(5))."""
    number = _number_of(root)
    kind = _kind_of(number)
    if kind != "ext4" or not _JOURNALS.is_dir():
        return None
    try:
        name = (devices / number).readlink().name
    except OSError:
        return None  # Without /sys, as in some containers: a device without a name has no evidence.
    if any(journal.name.startswith(f"{name}-") for journal in _JOURNALS.iterdir()):
        return None
    return (
        f"an ext4 without a journal ({name}): after a power cut, renames may "
        "be half done and acknowledged messages lost; use one with a journal (tune2fs -j), or XFS"
    )


def kind_of(folder: str | os.PathLike[str], mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system of `folder`; "" if the system doesn't tell. `mounts`: the
    system's list of them (proc_pid_mountinfo(5))."""
    return _kind_of(_number_of(folder), mounts) or ""


def _number_of(folder: str | os.PathLike[str]) -> str:
    device = os.stat(folder).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def _kind_of(number: str, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the mounted file system with this device number (proc_pid_mountinfo(5))."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None  # Not Linux: nothing is known.
    for line in lines:
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return None


_OF_MANY_HOSTS: Final = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb3", "smbfs", "virtiofs"),
    }
)


def is_written_by_other_hosts(kind: str) -> bool:
    """Return whether other hosts may write to a file system of this kind, without notice to this
    kernel.

    True of network and cluster file systems, and of all behind FUSE, of which nothing is known.
    """
    return kind in _OF_MANY_HOSTS or kind == "fuse" or kind.startswith("fuse.")


def passes_on_syncfs(kind: str) -> bool:
    """Return whether syncfs(2) makes a file system of this kind durable.

    It doesn't behind FUSE: Linux tells the program that serves it of fsync(2) alone, and succeeds.
    """
    return not kind.startswith("fuse")
