"""Event by which a thread of the store wakes a coroutine."""

from __future__ import annotations

import asyncio


class LoopEvent:
    """An event of the event loop in which it is made; any thread may set it, and a wait clears it.

    Many calls of `set` before a wait are one. After `disable` they have no effect.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def set(self) -> None:
        """Wake the listener, and return at once; change the state that it checks before."""
        if self._is_set:
            return
        self._is_set = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            # The loop is closed: there is no listener left.
            return

    async def wait(self) -> None:
        """Return once it has been set since the last time."""
        await self._event.wait()
        # In this order: a `set` in between is scheduled, and seen the next time.
        self._is_set = False
        self._event.clear()

    def disable(self) -> None:
        self._is_set = True
