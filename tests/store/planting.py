"""Puts files under a root by hand, as a crash, an operator or a stranger might have left them."""

from __future__ import annotations

import zlib
from pathlib import Path

from engine_rig import EngineRig
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.model.names import Batch, Entry


def id_of(number: int) -> str:
    """An id of the rig's day, in the order of the numbers."""
    return f"018bcfe5-6700-7000-8000-{number:012x}"


def entry_of(number: int, body: bytes, **tags: object) -> Entry:
    return Entry(id=id_of(number), size=len(body), crc=zlib.crc32(body), **tags)  # type: ignore[arg-type]


def batch_of(number: int, count: int, **tags: object) -> Batch:
    return Batch(id=id_of(number), count=count, **tags)  # type: ignore[arg-type]


class Root:
    """A folder with a queue `q`, while no process has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        rig = EngineRig(LocalDisk(path))
        rig.create("q")
        rig.die()
        self._rig = rig

    def file(self, path: str, content: bytes = b"") -> Path:
        target = self.path / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        return target

    def message(
        self, folder: str, number: int, body: bytes = b"body", suffix: str = "", **tags: object
    ) -> str:
        """A whole message's file; its id. `folder` is what stands before the entry's name."""
        self.file(f"{folder}{entry_of(number, body, **tags)}{suffix}", body)
        return id_of(number)

    def batch(
        self,
        folder: str,
        number: int,
        bodies: list[bytes],
        *,
        count: int | None = None,
        suffix: str = "",
        **tags: object,
    ) -> list[str]:
        batch = batch_of(number, len(bodies) if count is None else count, **tags)
        name = f"{folder}{batch}{suffix}"
        (self.path / name).mkdir()
        return [self.message(f"{name}/", number + 1 + at, body) for at, body in enumerate(bodies)]

    def start(self, *, wall_step: int = 0) -> EngineRig:
        rig = self._rig
        rig.clock.step_wall(wall_step)
        rig.engine = rig._start()
        rig.check()
        return rig

    def put_aside(self) -> list[str]:
        """Names in quarantine, without the notes."""
        found = (self.path / "quarantine").glob("*/*")
        return sorted(each.name for each in found if not each.name.endswith(".why"))
