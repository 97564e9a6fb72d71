"""Flow control: the time at which a receive stream leases more messages.

A consumer that deletes one message at a time returns its credits one by one. To lease, commit and frame
one message for each costs many times the message, and the consumer still holds most of its credit. So a
stream asks when a quarter of its credits, or of their bytes, is free, or when some have been free for a
moment, because the others may be held for long. Knows nothing of messages.
"""

from __future__ import annotations

import asyncio
from typing import Final

from spoolrack_store.model.credits import UNBOUNDED, Credits

from .loop_event import LoopEvent

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
        max_bytes: int = UNBOUNDED,
        concurrency: int = 0,
    ) -> None:
        self.credits = Credits(limit, self._returned, max_bytes, concurrency=concurrency)
        self._linger = linger
        self._awaited = _ANY
        """Free credits, and bytes, from which the loop is woken."""
        self._event = LoopEvent()
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
        self._event.set()

    def disable(self) -> None:
        """Stop calling the listener; credits may still be returned."""
        self._event.disable()

    async def _free(self, awaited: tuple[int, int]) -> None:
        self._awaited = awaited
        # Check the credits after registering the threshold, so that no wake-up is lost.
        while not self._are_free(self._awaited) and not self._stopped:
            await self._event.wait()

    def _are_free(self, awaited: tuple[int, int]) -> bool:
        count, size = awaited
        return self.credits.free >= count and self.credits.free_bytes >= size

    def _stop_linger(self) -> None:
        self._awaited = _ANY
        self._event.set()

    def _returned(self) -> None:
        if self._are_free(self._awaited):
            self._event.set()
