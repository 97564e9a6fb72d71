"""How a thread of the store wakes a coroutine."""

from __future__ import annotations

import asyncio


class LoopEvent:
    """Rung from any thread, heard in the event loop in which it was made.

    Many rings before it is heard are one. A muffled bell may still be rung, and nothing comes of it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._is_ringing = False

    def ring(self) -> None:
        """Return at once; what the listener then looks at must have changed before."""
        if self._is_ringing:
            return
        self._is_ringing = True
        try:
            self._loop.call_soon_threadsafe(self._heard.set)
        except RuntimeError:
            # The loop is closed: nobody is left who could listen.
            return

    async def rung(self) -> None:
        """Return once it has been rung since the last time."""
        await self._heard.wait()
        # In this order: a ring in between is scheduled, and heard the next time.
        self._is_ringing = False
        self._heard.clear()

    def muffle(self) -> None:
        self._is_ringing = True
