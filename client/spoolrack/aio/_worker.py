"""Worker: calls a handler with each message of a queue, in tasks."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from .._core.worker_core import BackgroundWorker, WorkerBase


class Worker(WorkerBase):
    """A loop that calls a handler with each message of a queue; `queue.worker(handler)` makes one."""

    _running: asyncio.Task[None] | None = None

    async def run(self, *, stop_on_signals: bool | None = None) -> None:
        """Work until `stop` is called, or until SIGTERM or SIGINT (Ctrl-C); then drain and return.

        No new messages, running handlers end, deletes are completed, waiting messages are released. A
        second signal acts as it did before `run`. The drain begins as well when this call is
        interrupted (an exception of a signal handler, a cancelled task), and then the exception passes.

        Signals stop it in the main thread, or in the task that `asyncio.run` was given, and only those
        for which the program has set no handler. `stop_on_signals`: True replaces the program's
        handlers, too, until `run` returns, and raises `ValueError` in another thread; False leaves
        all signals alone.
        """
        await self._core.run(stop_on_signals=stop_on_signals)

    def start(self) -> asyncio.Task[None]:
        """Run in the background, until `stop` or a failure; return the task of `run`, which leaves
        signals alone. `async with worker:` starts it, and stops it at the end of the block; the
        client's close stops it, too."""
        running = asyncio.get_running_loop().create_task(
            self.run(stop_on_signals=False), name="spoolrack-worker"
        )
        self._running = running
        self._background = BackgroundWorker(
            self._core, lambda seconds: asyncio.wait([running], timeout=seconds)
        )
        return running

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._running is not None
        await asyncio.wait([self._running])
        if error is None:
            self._running.result()
