"""Health of this server: whether it serves, and the reason if it doesn't.

One state, which the drain and a failed store change, for all fronts to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

STALLED: Final = 5.0
"""After so many seconds without a commit, of those that wait, the server isn't ready."""
LOOK_EVERY: Final = 0.2
LOOKS: Final = 50
"""So often, and every so many seconds, it is looked whether the event loop has answered."""


def _goes_on() -> None:
    return None


class Health:
    """The health of this server. Lives in one event loop, and is not thread-safe."""

    def __init__(self) -> None:
        self.why: str | None = None
        """Why the server doesn't serve; None while it does."""
        self.doubt: str | None = None
        """What the root's file system is, and which promise it may not keep; None: nothing is known
        against it."""
        self.is_final = False
        """It will never serve again."""
        self.is_starting = False
        """It doesn't serve yet; only a probe can ask then."""
        self.background: dict[str, str] = {}
        """By the name of each background task, why it fails; empty: it doesn't."""
        self.stale: Callable[[], list[str]] = list
        """Returns the access files of which something else is in force than they say."""
        self.stall: Callable[[], tuple[float, str] | None] = _goes_on
        """Returns for how many seconds commits have stood still, and why. In any thread."""
        self._changed = asyncio.Event()

    @property
    def stalled(self) -> str | None:
        """Why nothing has been committed for `STALLED` seconds; None: commits go on. In any thread."""
        found = self.stall()
        if found is None or found[0] < STALLED:
            return None
        return f"Nothing is committed for {found[0]:.0f} s: {found[1]}."

    @property
    def reason(self) -> str | None:
        """Why the server doesn't serve, for good or for now; None while it does."""
        return self.why or self.stalled

    @property
    def state(self) -> str:
        """The state in a word."""
        if self.is_final:
            return "draining"
        if self.why is not None:
            return "failed"
        if self.stalled is not None:
            return "stalled"
        return "starting" if self.is_starting else "serving"

    async def lives(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the server's event loop answers, or the disk keeps it from that: a restart
        mends no disk. In the loop of another thread, which goes on meanwhile."""
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))
        for _ in range(LOOKS):
            await asyncio.wait([asked], timeout=LOOK_EVERY)
            stall = self.stall()
            if asked.done() or (stall is not None and stall[0] >= LOOK_EVERY):
                return True
        return False

    @property
    def is_serving(self) -> bool:
        return self.state == "serving"

    @property
    def failing(self) -> list[str]:
        """The background tasks that fail now, and the access files that can't be taken over. The server
        serves without them."""
        return sorted([*(name for name, why in self.background.items() if why), *self.stale()])

    def fail(self, why: str) -> None:
        """Stop serving, for `why`; the first reason stays."""
        self.why = self.why or why
        # Present waiters have this event; later ones wait for another.
        self._changed.set()
        self._changed = asyncio.Event()

    def finish(self, why: str) -> None:
        """Stop serving for good: watchers are notified, and their streams end."""
        self.is_final = True
        self.fail(why)

    def look(self) -> None:
        """Notify watchers: a stall may have begun or ended."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Return once something has changed after this call."""
        await self._changed.wait()
