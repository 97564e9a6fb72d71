"""Roots with many messages that wait, written by hand: a store would take a sync for every hundred.

Only the oldest nine, which are received, are files of their own. All others share a few: what a store
does with those that wait, it does with their names.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from counted_load import BODY
from spoolrack_store.model.names import Batch, Entry
from spoolrack_store.model.operations import CreateQueue
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.testing import ManualClock

LEAST: Final = 10
_FOLDER: Final = 100
_RECEIVED: Final = 9
_SHARING: Final = 10_000
"""File systems allow so many names of one file, and more."""
_CRC: Final = zlib.crc32(BODY)


class _Messages:
    """Writes them, with ids of the clock's own day, each above the one before."""

    def __init__(self) -> None:
        self._made = 0
        self._shared = ""
        self._sharing = 0

    def id(self) -> str:
        self._made += 1
        return f"018bcfe4-6700-7000-8000-{self._made:012x}"

    def batch(self, queue: Path, count: int, *, own: bool = False) -> None:
        folder = queue / str(Batch(id=self.id(), count=count))
        folder.mkdir()
        for _ in range(count):
            self.single(folder, own=own)

    def single(self, folder: Path, *, own: bool = False) -> None:
        path = f"{folder}/{Entry(id=self.id(), size=len(BODY), crc=_CRC)}"
        if not own and self._shared and self._sharing < _SHARING:
            os.link(self._shared, path)
            self._sharing += 1
            return
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(file, BODY)
        os.close(file)
        if not own:
            self._shared, self._sharing = path, 1


def make_root(root: Path, depths: Sequence[int]) -> None:
    """A queue `depth<n>` for each: a single message, a folder of eight, then singles and folders, half
    and half, until it is so deep. Not synced, and not open when this returns."""
    root.mkdir()
    with Store.open(root, clock=ManualClock()) as store:
        for depth in depths:
            store.submit(CreateQueue(name=f"depth{depth}", settings=QueueSettings())).result()
    messages = _Messages()
    for depth in depths:
        _fill(root / "queues" / f"depth{depth}", depth, messages)


def _fill(queue: Path, depth: int, messages: _Messages) -> None:
    messages.single(queue, own=True)
    messages.batch(queue, _RECEIVED - 1, own=True)
    left = depth - _RECEIVED
    while left > 0:
        half = min(_FOLDER, left // 2)
        if half > 1:
            messages.batch(queue, half)
            left -= half
        for _ in range(max(1, half)):
            messages.single(queue)
        left -= max(1, half)
