"""A control group with a memory limit, where the kernel kills who wants more.

Knows both versions of control groups. Needs root, and a hierarchy that it may write to: `why_not` says
what is missing. A process brings nothing along but what it allocates from then on, so the limit is
for what is yet to come.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

V1: Final = Path("/sys/fs/cgroup/memory")
V2: Final = Path("/sys/fs/cgroup")
NAME: Final = "spoolrack-test"


def why_not() -> str | None:
    """Why there can be no cage here; None if there can."""
    if os.geteuid() != 0:
        return "not run: a memory limit (a control group) needs root"
    if (V1 / "memory.limit_in_bytes").exists():
        return None if os.access(V1, os.W_OK) else f"not run: {V1} is read-only"
    if not (V2 / "cgroup.controllers").exists():
        return "not run: a memory limit needs control groups: mount them at /sys/fs/cgroup"
    if "memory" not in (V2 / "cgroup.controllers").read_text().split():
        return f"not run: {V2} has no memory controller"
    try:
        (V2 / "cgroup.subtree_control").write_text("+memory")
    except OSError as error:
        return f"not run: {V2} gives no memory limits: {error.strerror}"
    return None


class MemoryCage:
    """One control group. Processes in it are killed by the kernel rather than let beyond the limit."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        first = (V1 / "memory.limit_in_bytes").exists()
        self._path = (V1 if first else V2) / f"{NAME}-{os.getpid()}"
        self._kills_in = self._path / ("memory.oom_control" if first else "memory.events")
        self._path.mkdir()
        if first:
            (self._path / "memory.limit_in_bytes").write_text(str(limit))
        else:
            (self._path / "memory.max").write_text(str(limit))
            swap = self._path / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")

    def take_in(self, pid: int) -> None:
        (self._path / "cgroup.procs").write_text(str(pid))

    def entering(self) -> tuple[str, ...]:
        """Return the beginning of a command whose process is in the cage from its start on."""
        return ("sh", "-c", f'echo $$ > {self._path}/cgroup.procs; exec "$@"', "sh")

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed for the limit's sake."""
        counts = dict(line.split() for line in self._kills_in.read_text().splitlines())
        return int(counts["oom_kill"])

    def remove(self) -> None:
        """Once all its processes have ended."""
        self._path.rmdir()
