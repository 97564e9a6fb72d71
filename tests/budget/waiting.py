"""Roots with many messages that wait, made of names: a store would take a sync for each batch.

Only the oldest nine messages, which are received, have files with their content. All other names share
a few files, since a start reads names only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.batch_file import checksum, encode, line_of
from spoolrack_store.model.message_ids import INDEX_DIGITS
from spoolrack_store.model.names import Name, Stem
from spoolrack_store.model.operations import CreateQueue
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

from tests.budget.counted_load import BODY

LEAST: Final = 10
DEAD: Final = "dead"
"""The owner of files that a dead process has left in `new/`."""
_BATCH: Final = 100
_RECEIVED: Final = 9
_SHARING: Final = 10_000
"""A file system allows a file so many names, and more."""


class _Files:
    """Writes files, with ids of the clock's own day, each above the one before."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made = 0
        self._shared = ""
        self._sharing = 0

    def put(self, queue: str, count: int, *, own: bool = False, is_sent: bool = False) -> None:
        """Make a file of `count` messages: ready, or in `new/`."""
        line = line_of([BODY] * count, {}, {})
        encoded = encode(line)
        self._made += 1
        stem = Stem(
            id=f"018bcfe4-6700-7000-8000-{self._made << 4 * INDEX_DIGITS:012x}",
            count=0 if count == 1 else count,
            size=count * len(BODY),
            crc=checksum(line, encoded),
            line=len(encoded),
        )
        state = State.SENT if is_sent else State.READY
        owner = DEAD if is_sent else ""
        name = Name(stem=stem, state=state, queue=queue, members=stem.full, owner=owner)
        path = os.fspath(self._root / name.path)
        if not own and self._shared and self._sharing < _SHARING:
            os.link(self._shared, path)
            self._sharing += 1
            return
        with open(path, "xb") as file:
            file.write(BODY * count + encoded)
        if not own:
            self._shared, self._sharing = path, 1


def make_root(root: Path, depths: Sequence[int]) -> None:
    """Make a root with a queue `depth<n>` for each depth: a lone message, a batch of eight, then lone
    messages and batches, half and half."""
    _make_queues(root, [f"depth{depth}" for depth in depths])
    files = _Files(root)
    for depth in depths:
        _fill(f"depth{depth}", depth, files)


def make_sent(root: Path, ready: int, sent: int) -> None:
    """Make a root with so many ready batches of ten, and so many that a dead process has left in
    `new/`."""
    _make_queues(root, ["q", "idle"])
    files = _Files(root)
    for _ in range(ready):
        files.put("q", 10)
    for _ in range(sent):
        files.put("q", 10, own=True, is_sent=True)


def _make_queues(root: Path, queues: Sequence[str]) -> None:
    root.mkdir(parents=True)
    with Store.open(root, clock=ManualClock()) as store:
        for queue in queues:
            store.submit(CreateQueue(name=queue, settings=QueueSettings())).result()


def _fill(queue: str, depth: int, files: _Files) -> None:
    files.put(queue, 1, own=True)
    files.put(queue, _RECEIVED - 1, own=True)
    left = depth - _RECEIVED
    while left > 0:
        half = min(_BATCH, left // 2)
        if half > 1:
            files.put(queue, half)
            left -= half
        for _ in range(max(1, half)):
            files.put(queue, 1)
        left -= max(1, half)
