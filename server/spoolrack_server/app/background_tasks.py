"""Background tasks of a server: named loops that nothing awaits.

A task repeats a round. An error in a round is logged once, and shows in the health's details and in a
metric until a round succeeds; the task goes on after a pause. No error ends a task: only `stop` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from spoolrack_store.model.errors import StoreError

from ..system.logs import Log
from .health import Health

PAUSE: Final = 1.0
"""Seconds after a round that failed."""

Round = Callable[[], Awaitable[object]]


class BackgroundTasks:
    """The background tasks of one server. Lives in one event loop."""

    def __init__(self, health: Health, log: Log, pause: float = PAUSE) -> None:
        self._health = health
        self._log = log
        self._pause = pause
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, round: Round) -> None:
        """Repeat `round` until `stop`. A round waits by itself until there is something to do."""
        self._health.background[name] = ""
        self._tasks.append(asyncio.create_task(self._repeat(name, round), name=name))

    async def stop(self) -> None:
        """Return once all tasks have ended."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, name: str, round: Round) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await round()
            except asyncio.CancelledError as error:
                if task.cancelling():
                    raise
                self._fail(name, error)  # Another task was cancelled that the round awaits.
            except Exception as error:  # noqa: BLE001 - or else the task would end in silence
                self._fail(name, error)
            else:
                if self._health.background[name]:
                    self._health.background[name] = ""
                    self._log.info("a background task works again", task=name)
                continue
            await asyncio.sleep(self._pause)

    def _fail(self, name: str, error: BaseException) -> None:
        if not self._health.background[name]:
            told = str(error) or type(error).__name__
            self._log.error(
                "a background task fails, and is tried again each second: if it doesn't work again "
                "by itself, mend what is said, or restart the server",
                task=name,
                why=told,
                # An error of the store says all; any other is a fault of the server's.
                exc_info=None if isinstance(error, StoreError) else error,
            )
        self._health.background[name] = str(error) or type(error).__name__
