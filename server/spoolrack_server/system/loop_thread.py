"""A thread with an event loop, for what must answer while the process's own loop doesn't."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class LoopThread:
    """An event loop in a thread of its own, which the first `run` starts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the result of a call, which runs there."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            run = self._loop.run_forever
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()
        return await run_in(self._loop, call)

    def end(self) -> None:
        """Cancel what still runs there, and end the thread."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None


async def run_in(loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a call that runs in this event loop, of any thread."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, loop))


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
