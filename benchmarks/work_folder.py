"""Where the comparison works: a file system of its own, or a folder that is named.

Its own is an ext4 with a journal, as most servers have it: an image that is fully written, so that the
file system below allocates nothing meanwhile, on a loop device that reads and writes it directly,
without a second cache. That needs root; without it, the named folder is taken as it is, and the page
says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.loop_disk import LoopDisk, why_not

__all__ = ["LoopDisk", "WorkFolder", "flush", "kind_of", "own_disk", "why_not"]

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_MAKING: Final = ("-i", "4096")
"""An inode for every 4 KiB: a message is a file."""
_TITLES: Final = {"ext4": "ext4 with a journal", "xfs": "XFS"}


@dataclass(frozen=True, kw_only=True)
class WorkFolder:
    folder: Path
    described: str


@contextmanager
def own_disk(
    within: Path, size: int, *, making: Sequence[str] = _MAKING, kind: str = "ext4"
) -> Iterator[WorkFolder]:
    """Make a folder of the comparison's own, on its own file system of `size` bytes where that can
    be; 0: on no file system of its own. `kind` is one of `LoopDisk`'s, `making` are options of mkfs."""
    folder = Path(tempfile.mkdtemp(prefix="benchmarks-", dir=within))
    try:
        reason = why_not(kind) if size else "asked for"
        if reason is not None:
            # PostgreSQL refuses to run as root, and its user must be able to enter the folder.
            yield WorkFolder(folder=folder, described=f"{kind_of(folder)}, as found ({reason})")
            return
        with LoopDisk(kind, folder, size=size, making=making, is_written=True, is_direct=True) as disk:
            folder.chmod(0o755)
            inside = disk.mount_point / "run"
            inside.mkdir()
            yield WorkFolder(
                folder=inside,
                described=f"{_TITLES[kind]}, {size >> 20:,} MiB, on a loop device with direct I/O, "
                f"its image fully written, on {kind_of(folder)}",
            )
    finally:
        shutil.rmtree(folder)


def flush(folder: Path) -> None:
    """Return when nothing of the file system waits to be written."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _LIBC.syncfs(opened) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(opened)


def kind_of(folder: Path) -> str:
    """Return the type of the file system that holds a folder."""
    mount = ("", "an unknown file system")
    path = str(folder.resolve())
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        at = point.rstrip("/") + "/"
        if path.startswith(at) and len(at) >= len(mount[0]):
            mount = (at, kind)
    return mount[1]
