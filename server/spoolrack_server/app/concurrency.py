"""softlayer/mq's workers: a bound on concurrent receives, and one on concurrent sends.

They are no threads. A call that finds all workers busy waits, first come, first served; a receive that
waits for messages keeps no worker busy. Nothing is bounded by default: the store batches waiting
requests in one commit, and does more the more there are.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

_UNBOUNDED: Final = nullcontext()


class ConcurrencyLimit:
    """The bounds of one server. Lives in one event loop."""

    def __init__(self, pairs: int | None) -> None:
        """None: as many as there is work for."""
        self.is_bounded = pairs is not None
        self._fetching = None if pairs is None else asyncio.Semaphore(pairs)
        self._saving = None if pairs is None else asyncio.Semaphore(pairs)

    def fetching(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which a receive is with the store."""
        return self._fetching or _UNBOUNDED

    async def begin_save(self) -> None:
        """Return when a send may go to the store; `end_save` must follow."""
        if self._saving is not None:
            await self._saving.acquire()

    def end_save(self) -> None:
        if self._saving is not None:
            self._saving.release()

    def saving(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which a send is with the store."""
        return self._saving or _UNBOUNDED
