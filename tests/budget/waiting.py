"""Roots with many messages that wait, made of names: a store would take a sync for each batch.

Only what is received, and what a start reads, has a content: a store has sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from spoolrack_store.files import layout
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

from benchmarks.made_root import MadeRoot
from tests.budget.counted_load import BODY

LEAST: Final = 10
_BATCH: Final = 100
_RECEIVED: Final = (1, 8)
"""Messages of the oldest files of a queue."""


def make_root(root: Path, depths: Sequence[int]) -> None:
    """Make a root with a queue `depth<n>` for each depth: a lone message, a batch of eight, then lone
    messages and batches, half and half."""
    now = _send(root, {f"depth{depth}": _RECEIVED for depth in depths})
    made = MadeRoot(root)
    for depth in depths:
        left = depth - sum(_RECEIVED)
        while left > 0:
            half = min(_BATCH, left // 2)
            if half > 1:
                left -= made.batch(f"depth{depth}", now, half)
            left -= made.ready(f"depth{depth}", now, max(1, half))


def make_sent(root: Path, ready: int, sent: int) -> None:
    """Make a root with so many ready batches of ten, and so many that a dead process has left in
    `new/`."""
    now = _send(root, {"q": (10,) * sent, "idle": ()})
    for path in list((root / layout.QUEUES / "q").iterdir()):
        name = parse(str(path.relative_to(root)))
        left = replace(name, state=State.SENT, version=1, owner="dead")
        path.rename(root / left.path)
    made = MadeRoot(root)
    for _ in range(ready):
        made.batch("q", now, 10)


def _send(root: Path, sizes_by_queue: dict[str, Sequence[int]]) -> Millis:
    """Send files of so many messages to new queues, in their order; return a later moment."""
    clock = ManualClock()
    with Store.open(root, clock=clock) as store:
        for queue, sizes in sizes_by_queue.items():
            store.submit(CreateQueue(name=queue, settings=QueueSettings())).result()
            for count in sizes:
                store.submit(Send(queue=queue, bodies=[BODY] * count)).result()
                clock.advance(1)
    return clock.wall()
