"""A disk around a `PowerDisk` that counts its steps, and dies or fails at the one that it is told.

A change is what alters the disk or makes it durable; a call is anything at all. Between any two changes
the process may die, and a file that is being created may then be there in part. Any call may fail.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from faulty_disk import Killed
from power_disk import PowerDisk
from spoolrack_store.files.disk import Facts, Found, Lock, NotSynced, Space


class Fault(Enum):
    """What can go wrong with a call."""

    EIO = "EIO"
    ENOSPC = "ENOSPC"
    EMFILE = "EMFILE"
    SHORT = "SHORT"
    """A file is written in part, then the disk is full, and the part is unlinked."""
    LEFT = "LEFT"
    """The same, and unlinking fails, too."""
    UNSYNCED = "UNSYNCED"
    """A file is written, can't be made durable, and is unlinked."""
    FULL = "FULL"
    """From here on nothing can be made, until the disk is healed."""


_MAKES = frozenset({"make_folder", "create", "append", "set_aside"})
_SYNCS = frozenset({"sync_file", "sync_folder", "sync_all"})
FITS: dict[Fault, frozenset[str]] = {
    Fault.EIO: frozenset(
        {"read", "scan", "facts", "rename", "unlink", "remove_folder", "lock"} | _MAKES | _SYNCS
    ),
    Fault.ENOSPC: frozenset({"rename"} | _MAKES | _SYNCS),
    Fault.EMFILE: frozenset({"create", "append", "read", "scan", "lock", "sync_file", "sync_folder"}),
    Fault.SHORT: frozenset({"create", "append"}),
    Fault.LEFT: frozenset({"create"}),
    Fault.UNSYNCED: frozenset({"create"}),
    Fault.FULL: _MAKES,
}
"""The calls that can fail in this way."""

_CODES = {Fault.EIO: errno.EIO, Fault.EMFILE: errno.EMFILE, Fault.UNSYNCED: errno.EIO}
"""Of the rest: the disk is full."""


class Torn(Enum):
    """How far the creation of a file has come when the process dies in its midst."""

    HALF = "half"
    """Half of it was written."""
    WRITTEN = "written"
    """All of it, and none was made durable."""


@dataclass(slots=True)
class Failing:
    """Calls fail in this way: those after the first `skip` that it fits, `times` of them."""

    fault: Fault
    skip: int
    times: int = 1
    met: int = 0

    def meets(self, name: str) -> bool:
        if name not in FITS[self.fault]:
            return False
        self.met += 1
        return self.skip < self.met <= self.skip + self.times


@dataclass(frozen=True, slots=True)
class Step:
    """A place where the process may die: before the change that is named, or in its midst."""

    number: int
    """So many changes were done before."""
    name: str
    paths: tuple[str, ...]
    torn: Torn | None = None

    def __str__(self) -> str:
        where = "before" if self.torn is None else f"({self.torn.value}) in the midst of"
        return f"{where} {self.name}({', '.join(self.paths)})"


Left = Callable[[], PowerDisk]
"""Gives the disk as the process that dies leaves it; not to be changed."""


OnStep = Callable[[Step, Left], None]


class StepDisk:
    """Not thread-safe."""

    def __init__(self, disk: PowerDisk) -> None:
        self.disk = disk
        self.can_sync_all = disk.can_sync_all
        self.changes = 0
        """So many changes were begun."""
        self.on_step: OnStep | None = None
        """Called at each place where the process may die."""
        self.failing: Failing | None = None
        self.failed: list[str] = []
        """The calls that failed, and the paths."""
        self.died_torn = False
        self._dies_at: int | None = None
        self._dies_torn: Torn | None = None

    # What a story says.

    def die_after(self, changes: int | None, torn: Torn | None = None) -> None:
        """Let `Killed` come after so many changes; with `torn` in the midst of the next, if that
        creates a file. None: never."""
        self._dies_at = None if changes is None else self.changes + changes
        self._dies_torn = torn

    def heal(self) -> None:
        self.failing = None

    # Disk: what changes it.

    def make_folder(self, path: str) -> None:
        self._change("make_folder", path)
        self.disk.make_folder(path)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if self._dies_torn is not None and self._dies_at == self.changes:
            self.died_torn = True
            _tear(self.disk, path, parts, self._dies_torn)
            raise Killed(str(Step(self.changes, "create", (path,), self._dies_torn)))
        if self.on_step is not None:
            self._show_torn(self.on_step, path, parts, sync)
        failing = self.failing
        if failing is not None and failing.fault in (Fault.SHORT, Fault.LEFT, Fault.UNSYNCED):
            self._reach("create", path)
            if (sync or failing.fault is not Fault.UNSYNCED) and failing.meets("create"):
                self._fail_in_midst(failing.fault, path, parts)
        else:
            self._change("create", path)
        self.disk.create(path, parts, sync=sync)

    def append(self, path: str, content: bytes, *, sync: bool) -> None:
        half = content[: len(content) // 2]
        if self._dies_torn is not None and self._dies_at == self.changes:
            self.died_torn = True
            is_half = self._dies_torn is Torn.HALF
            self.disk.append(path, half if is_half else content, sync=False)
            raise Killed(str(Step(self.changes, "append", (path,), self._dies_torn)))
        if self.on_step is not None:
            self._show_torn_end(self.on_step, path, (half, content) if sync else (half,))
        failing = self.failing
        self._reach("append", path)
        if failing is not None and failing.fault is Fault.SHORT and failing.meets("append"):
            self.disk.append(path, half, sync=False)
            self.failed.append(f"append {path}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if failing is None or failing.fault is not Fault.SHORT:
            self._may_fail("append", path)
        self.disk.append(path, content, sync=sync)

    def rename(self, source: str, target: str) -> None:
        self._change("rename", source, target)
        self.disk.rename(source, target)

    def unlink(self, path: str) -> None:
        self._change("unlink", path)
        self.disk.unlink(path)

    def remove_folder(self, path: str) -> None:
        self._change("remove_folder", path)
        self.disk.remove_folder(path)

    def sync_file(self, path: str) -> None:
        self._change("sync_file", path)
        self.disk.sync_file(path)

    def sync_folder(self, path: str) -> None:
        self._change("sync_folder", path)
        self.disk.sync_folder(path)

    def sync_all(self) -> None:
        self._change("sync_all")
        self.disk.sync_all()

    def set_aside(self, path: str, size: int) -> None:
        self._change("set_aside", path)
        self.disk.set_aside(path, size)

    # Disk: what doesn't.

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._may_fail("read", path)
        return self.disk.read(path, limit, afresh=afresh)

    def scan(self, path: str) -> list[Found]:
        self._may_fail("scan", path)
        return self.disk.scan(path)

    def facts(self, path: str) -> Facts:
        self._may_fail("facts", path)
        return self.disk.facts(path)

    def space(self) -> Space:
        return self.disk.space()

    def lock(self, path: str) -> Lock | None:
        self._may_fail("lock", path)
        return self.disk.lock(path)

    # Steps.

    def _change(self, name: str, *paths: str) -> None:
        self._reach(name, *paths)
        self._may_fail(name, *paths)

    def _reach(self, name: str, *paths: str) -> None:
        if self._dies_at == self.changes:
            raise Killed(str(Step(self.changes, name, paths)))
        if self.on_step is not None:
            self.on_step(Step(self.changes, name, paths), lambda: self.disk)
        self.changes += 1

    def _may_fail(self, name: str, *paths: str) -> None:
        failing = self.failing
        if failing is None or not failing.meets(name):
            return
        self.failed.append(f"{name} {' '.join(paths)}")
        code = _CODES.get(failing.fault, errno.ENOSPC)
        if name in _SYNCS and failing.fault is not Fault.EMFILE and name != "sync_folder":
            self.disk.give_up(paths[0] if paths else None)
        raise OSError(code, os.strerror(code), *paths[:1])

    def _fail_in_midst(self, fault: Fault, path: str, parts: Sequence[bytes]) -> None:
        _tear(self.disk, path, parts, Torn.WRITTEN if fault is Fault.UNSYNCED else Torn.HALF)
        if fault is Fault.UNSYNCED:
            self.disk.give_up(path)
        if fault is not Fault.LEFT:
            self.disk.unlink(path)
        self.failed.append(f"create {path}")
        code = _CODES.get(fault, errno.ENOSPC)
        kind = NotSynced if fault is Fault.UNSYNCED else OSError
        raise kind(code, os.strerror(code), path)

    def _show_torn(
        self,
        show: OnStep,
        path: str,
        parts: Sequence[bytes],
        sync: bool,
    ) -> None:
        def torn_disk(torn: Torn) -> PowerDisk:
            disk = self.disk.copy()
            _tear(disk, path, parts, torn)
            return disk

        for torn in (Torn.HALF, Torn.WRITTEN) if sync else (Torn.HALF,):
            show(Step(self.changes, "create", (path,), torn), partial(torn_disk, torn))

    def _show_torn_end(self, show: OnStep, path: str, parts: Sequence[bytes]) -> None:
        def torn_disk(part: bytes) -> PowerDisk:
            disk = self.disk.copy()
            disk.append(path, part, sync=False)
            return disk

        for torn, part in zip(Torn, parts, strict=False):
            show(Step(self.changes, "append", (path,), torn), partial(torn_disk, part))


def _tear(disk: PowerDisk, path: str, parts: Sequence[bytes], torn: Torn) -> None:
    content = b"".join(parts)
    disk.create(path, [content if torn is Torn.WRITTEN else content[: len(content) // 2]], sync=False)
