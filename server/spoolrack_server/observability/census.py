"""What only a folder says, counted now and then, so that no scrape has to.

A count takes the longer the more there is, and is made the more rarely: it never takes more than a
hundredth of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from spoolrack_store.tally import Tally

EVERY: Final = 30.0
SHARE: Final = 100


class Census:
    """Lives in one event loop, where it counts in a thread until it is stopped."""

    def __init__(
        self, tally: Tally, look: Callable[[Callable[[], None]], asyncio.Future[None]], *, reaps: bool
    ) -> None:
        """`look` does something in a thread. Where nobody here `reaps`, what is deleted is counted."""
        self._tally = tally
        self._look = look
        self._reaps = reaps
        self.quarantined: int | None = None
        self.removed: int | None = None
        self._task = asyncio.create_task(self._run())

    def count(self) -> None:
        self.quarantined = self._tally.quarantined()
        if not self._reaps:
            self.removed = self._tally.removed()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._look(self.count)
            await asyncio.sleep(max(EVERY, SHARE * (loop.time() - began)))
