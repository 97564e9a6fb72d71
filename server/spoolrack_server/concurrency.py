"""softlayer/mq's workers: so many fetches, and so many saves, are with the store at a time.

They are no threads. Who comes when all are busy waits for his turn, first come, first served; a receive
that waits for messages keeps no worker busy. Nothing is bounded by default: the store takes what has
gathered in one commit, and does more the more there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ConcurrencyLimit:
    """Lives in one event loop."""

    def __init__(self, pairs: int | None) -> None:
        """None: as many as there is work for."""
        self.is_bounded = pairs is not None
        self._fetching = None if pairs is None else asyncio.Semaphore(pairs)
        self._saving = None if pairs is None else asyncio.Semaphore(pairs)

    @asynccontextmanager
    async def fetching(self) -> AsyncIterator[None]:
        """While a receive is with the store."""
        if self._fetching is None:
            yield
            return
        async with self._fetching:
            yield

    async def begin_save(self) -> None:
        """Return when a send may go to the store; `end_save` must follow."""
        if self._saving is not None:
            await self._saving.acquire()

    def end_save(self) -> None:
        if self._saving is not None:
            self._saving.release()

    @asynccontextmanager
    async def saving(self) -> AsyncIterator[None]:
        """While a send is with the store."""
        await self.begin_save()
        try:
            yield
        finally:
            self.end_save()
