"""A process that looks for ticks in a root without a pause, until it is killed. Its wall clock is a
file, which the test writes.

    python -m tests.proof.e2e.ticker ROOT CLOCK
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from spoolrack_server.app.scheduler import Scheduler
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.clock import Millis, SystemClock
from spoolrack_store.store import Store

PAUSE = 0.005
"""Seconds between looks."""


class FileClock(SystemClock):
    """A wall clock that a file tells."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def wall(self) -> Millis:
        return Millis(int(self._path.read_text()))


def step(path: Path, wall: int) -> None:
    """Let the clock of a file tell another time, all of it at once."""
    new = path.with_suffix(".new")
    new.write_text(str(wall))
    new.rename(path)


async def look(root: str, clock: FileClock) -> None:
    with Store.open(root, clock=clock) as store:
        print("open", flush=True)
        scheduler = Scheduler(store, clock, make_log())
        while True:
            await scheduler.look(PAUSE)


if __name__ == "__main__":
    asyncio.run(look(sys.argv[1], FileClock(Path(sys.argv[2]))))
