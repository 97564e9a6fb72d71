"""Flow control: the time at which a receive stream leases more messages.

A consumer that deletes one message at a time returns its credits one by one. To lease, commit and frame
one message for each costs many times the message, and the consumer still holds most of its credit. So a
stream asks when a quarter of its credits, or of their bytes, is free, or when some have been free for a
moment, because the others may be held for long. Knows nothing of messages.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from spoolrack_store.credits import UNBOUNDED, Credits

SHARE: Final = 4
LINGER: Final = 0.005
"""Seconds that a free credit waits for others: less than a quick consumer needs for what it has left,
and unseen by one who works on each message for long."""

_ANY: Final = 1, 1
"""One message, and one byte."""


class FlowControl:
    """The credits of one stream. Lives in one event loop; credits are returned from any thread."""

    def __init__(
        self,
        limit: int,
        linger: float = LINGER,
        *,
        max_bytes: int = 0,
        concurrency: int = 0,
    ) -> None:
        """`max_bytes`: 0 is no bound."""
        self.credits = Credits(limit, self._returned, max_bytes or UNBOUNDED, concurrency=concurrency)
        self._linger = linger
        self._awaited = _ANY
        """Free credits, and bytes, from which the loop is woken."""
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_woken = False
        self._stopped = False

    async def wait(self) -> None:
        """Return when the free credits are worth a lease; at once after `stop`."""
        await self._free(_ANY)
        if self._stopped or self._are_free(self._enough):
            return
        timer = asyncio.get_running_loop().call_later(self._linger, self._stop_linger)
        try:
            await self._free(self._enough)
        finally:
            timer.cancel()

    @property
    def _enough(self) -> tuple[int, int]:
        return max(1, self.credits.limit // SHARE), max(1, self.credits.max_bytes // SHARE)

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def close(self) -> None:
        """Hear of no more credits; leases that go on may still return theirs."""
        self.credits.disconnect()

    async def _free(self, awaited: tuple[int, int]) -> None:
        self._awaited = awaited
        # Check the credits after registering the threshold, so that no wake-up is lost.
        while not self._are_free(self._awaited) and not self._stopped:
            await self._event.wait()
            # In this order: a wake-up in between is scheduled, and seen the next time.
            self._is_woken = False
            self._event.clear()

    def _are_free(self, awaited: tuple[int, int]) -> bool:
        count, size = awaited
        return self.credits.free >= count and self.credits.free_bytes >= size

    def _stop_linger(self) -> None:
        self._awaited = _ANY
        self._wake()

    def _returned(self) -> None:
        if self._are_free(self._awaited):
            self._wake()

    def _wake(self) -> None:
        """Wake the stream once, from any thread; what it waits for has changed before."""
        if self._is_woken:
            return
        self._is_woken = True
        with suppress(RuntimeError):  # The loop is closed: no stream is left.
            self._loop.call_soon_threadsafe(self._event.set)
