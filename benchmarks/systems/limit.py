"""The limit of pure Python on this file system when it does nothing but the files.

It does what any queue of one file a message must do, and no more: no index, no names to be chosen, no
other process to be minded, no network. Every step is synced before the next.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from ..work_folder import flush
from .base import Driver, Shape, System, SystemFacts

_FOLDERS = ("new", "queues", "delay", "remove")
_BATCH = 256


class SendingLimit(Driver):
    """A batch is a folder: written, synced, and published by one rename."""

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._root = Path(address)
        self._batches_made = 0
        self._prefix = secrets.token_hex(8)

    def send(self, body: bytes) -> None:
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._publish(self._written(bodies))

    def _written(self, bodies: Sequence[bytes]) -> str:
        self._batches_made += 1
        name = f"{self._prefix}-{self._batches_made}"
        folder = f"{self._root}/new/{name}"
        os.mkdir(folder)
        for at, body in enumerate(bodies):
            file = os.open(f"{folder}/{at:04d}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            os.write(file, body)
            os.close(file)
        return name

    def _publish(self, name: str) -> None:
        flush(self._root)
        self._move(name, "new", "queues")

    def _move(self, name: str, source: str, destination: str) -> None:
        os.rename(f"{self._root}/{source}/{name}", f"{self._root}/{destination}/{name}")


class LivingLimit(SendingLimit):
    """The whole life of a batch: sent, leased, deleted, each synced; then unlinked."""

    def send_many(self, bodies: Sequence[bytes]) -> None:
        name = self._written(bodies)
        self._publish(name)
        flush(self._root)
        self._move(name, "queues", "delay")
        flush(self._root)
        self._move(name, "delay", "remove")
        flush(self._root)
        folder = f"{self._root}/remove/{name}"
        for at in range(len(bodies)):
            os.unlink(f"{folder}/{at:04d}")
        os.rmdir(folder)


class Limit(System):
    name = "limit"
    driver = SendingLimit
    facts = SystemFacts(
        title="the limit of the file system",
        configuration=f"pure Python: folders of {_BATCH} files, syncfs after every step, 4 processes",
        note="No queue: no message in it can be found again.",
    )
    shapes = {  # noqa: RUF012
        "hundreds": Shape(senders=(4, 1), batch=_BATCH),
        "tens": Shape(senders=(4, 1), batch=_BATCH, driver=LivingLimit, leaves=False),
    }
    only = frozenset({"hundreds", "tens"})
    is_checked = False

    def create_queue(self, queue: str) -> None:
        self.folder.mkdir(exist_ok=True)
        for name in _FOLDERS:
            (self.folder / name).mkdir(exist_ok=True)

    def count(self, queue: str) -> int | None:
        found = (self.folder / "queues").iterdir()
        return sum(len(os.listdir(folder)) for folder in found)

    def delete_queue(self, queue: str) -> None:
        for folder in (self.folder / "queues").iterdir():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
