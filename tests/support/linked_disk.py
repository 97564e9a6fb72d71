"""The disk that loses power, with hard links; processes on it die between any two steps."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.changes import LOCK, SIZE
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.root import FOLDERS

from tests.support.memory_disk import File, MemoryLock, fails
from tests.support.power_disk import Model, PowerDisk

MOST_STEPS = 400


class Died(BaseException):
    """The process is gone: it does nothing more."""


def each_death(make: Callable[[], Any], act: Callable[[Any], object]) -> Iterator[Any]:
    """Yield a scene for each step of an act, before which the process at work has died; a scene has a
    `rig`, and that a disk."""
    for steps in range(MOST_STEPS):
        scene = make()
        disk = scene.rig.disk
        disk.steps_left = steps
        try:
            act(scene)
            has_died = False
        except Died:
            has_died = True
        disk.steps_left = None
        if not has_died:
            return
        yield scene
    raise AssertionError("it never came to its end")


class LinkedDisk(PowerDisk):
    """Not thread-safe. One process at a time works on it."""

    def __init__(self, *, can_sync_all: bool = True, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=can_sync_all, model=model)
        self.steps_left: int | None = None
        """So many more steps, and then the process at work dies; None: it lives."""
        self.changes = bytearray(SIZE)
        """The content of `CHANGES`, which no disk keeps."""

    def step(self) -> None:
        if self.steps_left is not None:
            if self.steps_left <= 0:
                raise Died
            self.steps_left -= 1

    def link(self, source: str, target: str) -> None:
        self.step()
        node = self.node(source)
        into, name = self._parent(target)
        if name in into.entries:
            raise fails(errno.EEXIST, target)
        assert isinstance(node, File)
        into.entries[name] = node
        node.links += 1
        self._change(node, None, (into, name))

    def touch(self, path: str) -> None:
        """Note the time: there is no listener."""
        if path.startswith("queues/"):
            with suppress(FileNotFoundError):  # It never fails.
                self._folder(path).changed = next(self._ticks)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self.step()
        into, name = self._parent(target)
        if name in into.entries:
            raise fails(errno.EEXIST, target)
        super().rename(source, target)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if self.steps_left == 0 and not path.startswith("new/"):
            super().create(path, [b"".join(parts)[:-1]], sync=False)  # It dies as it writes.
        self.step()
        super().create(path, parts, sync=sync)

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        if self.steps_left == 0:
            super().write_at(path, offset, content[:-1])  # It dies as it writes.
        self.step()
        super().write_at(path, offset, content)

    def overwrite(self, file: File, offset: int, content: bytes) -> None:
        if self.steps_left == 0:
            super().overwrite(file, offset, content[: len(content) // 2])  # It dies as it writes.
        self.step()
        super().overwrite(file, offset, content)

    def truncate(self, file: File, size: int) -> None:
        self.step()
        super().truncate(file, size)

    def unlink(self, path: str) -> None:
        self.step()
        super().unlink(path)

    def lock(self, path: str) -> MemoryLock | None:
        self.step()
        return super().lock(path)

    # CHANGES, as one process sees it.

    def read_changes(self, offset: int, length: int) -> bytes:
        return bytes(self.changes[offset : offset + length])

    def write_changes(self, offset: int, content: bytes) -> None:
        self.step()
        self.changes[offset : offset + len(content)] = content

    def forget_changes(self, random: Random) -> None:
        """Cut the power: keep a random part of the writes."""
        match random.randrange(3):
            case 0:
                self.changes = bytearray(SIZE)
            case 1:
                self.changes[:64] = random.randbytes(64)
            case _:
                pass


class RefusingDisk(LinkedDisk):
    """Refuses calls with the error `code`, once so many of them were spared."""

    refused: Sequence[str] = ()
    """Beginnings of calls, such as "read staged/"; "make delay/" is all that makes a name there."""
    spared = 0
    code = errno.EIO

    def _refuse(self, *calls: str) -> None:
        if any(call.startswith(tuple(self.refused)) for call in calls):
            self.spared -= 1
            if self.spared < 0:
                raise fails(self.code, calls[0])

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self._refuse(f"create {path}", f"make {path}")
        super().create(path, parts, sync=sync)

    def link(self, source: str, target: str) -> None:
        self._refuse(f"make {target}")
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._refuse(f"rename {source}", f"make {target}")
        super().rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._refuse(f"rename {source}", f"make {target}")
        super().rename_new(source, target)

    def scan(self, path: str) -> list[FolderEntry]:
        self._refuse(f"scan {path}")
        return super().scan(path)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._refuse(f"read {path}")
        return super().read(path, limit, afresh=afresh)


class Memory:
    """`CHANGES` for the engines on a disk."""

    def __init__(self, disk: LinkedDisk) -> None:
        self._disk = disk

    def read(self, offset: int, length: int) -> bytes:
        return self._disk.read_changes(offset, length)

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        self._disk.write_changes(offset, content)


def reap(engine: Engine, most: int = 1_000) -> None:
    """Unlink up to `most` of the names that the engine has given away."""
    engine.moves.removed_files.unlink(most)


AnyDisk = TypeVar("AnyDisk", bound=LinkedDisk)


def made(
    queues: Sequence[str],
    *,
    can_sync_all: bool,
    model: Model,
    kind: type[AnyDisk] = LinkedDisk,  # type: ignore[assignment]
) -> AnyDisk:
    """Return a disk with an empty root, all of it durable."""
    disk = kind(can_sync_all=can_sync_all, model=model)
    for folder in (*FOLDERS, *(f"queues/{queue}" for queue in queues)):
        disk.make_folder(folder)
    for path in ("FORMAT", LOCK):
        disk.create(path, [b"spoolrack 4\n"], sync=True)
    disk._take_as_durable(disk.root)
    disk._changes.clear()
    return disk
