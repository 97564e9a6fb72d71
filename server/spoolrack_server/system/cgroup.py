"""Memory limit of this process: that of its control group, or the machine's memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_UNLIMITED: Final = 1 << 60
"""Control groups of version 1 write a number near 2**63 where there is no limit."""


def machine_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory_limit(
    groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the memory limit in bytes of this process's control group, or of one above it; None: no
    limit."""
    limits = [limit for file in _limit_files(groups, mounted) if (limit := _limit_in(file)) is not None]
    return min(limits, default=None)


def _limit_files(groups: Path, mounted: Path) -> Iterator[Path]:
    """Return the files that may state a limit, of the group itself and of each above it."""
    for line in _text_of(groups).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        for each in (group, *group.parents):
            yield root / each / name


def _limit_in(file: Path) -> int | None:
    text = _text_of(file).strip()
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


def _text_of(file: Path) -> str:
    """Empty if the file can't be read: there is no such group, or no control groups at all."""
    try:
        return file.read_text()
    except OSError:
        return ""
