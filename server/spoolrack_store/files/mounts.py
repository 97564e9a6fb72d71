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


def log_doubt(root: str | os.PathLike[str]) -> None:
    """Warn, in this module's own log, if the file system under `root` may not keep a promise."""
    doubt = doubt_about(root)
    if doubt is not None:
        log.warning("%s", doubt)


def doubt_about(root: str | os.PathLike[str], devices: Path = _DEVICES) -> str | None:
    """Return why the file system under `root` may not keep a promise; None if nothing is known against
    it. `devices`: the system's links from a device's numbers to its name (sysfs(5))."""
    device = os.stat(root).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
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
        f"{os.fspath(root)} is on an ext4 without a journal ({name}): after a power cut, renames may "
        "be half done and acknowledged messages lost; use one with a journal (tune2fs -j), or XFS"
    )


def _kind_of(number: str) -> str | None:
    """Return the type of the mounted file system with this device number (proc_pid_mountinfo(5))."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
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


def is_written_by_other_hosts(folder: str | os.PathLike[str]) -> bool:
    """Return whether other hosts may write to the file system of `folder`, without notice to this
    kernel.

    True of network and cluster file systems, and of all behind FUSE, of which nothing is known.
    """
    device = os.stat(folder).st_dev
    kind = _kind_of(f"{os.major(device)}:{os.minor(device)}") or ""
    return kind in _OF_MANY_HOSTS or kind == "fuse" or kind.startswith("fuse.")
