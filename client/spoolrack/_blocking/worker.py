"""Worker: calls a handler with each message of a queue, in threads."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from .. import aio
from .._core.worker_core import BackgroundWorker, WorkerBase
from .._threads import start_thread
from .mirroring import blocking


class Worker(WorkerBase):
    __doc__ = aio.Worker.__doc__

    _running: Future[None] | None = None

    run = blocking(aio.Worker.run)

    def start(self) -> Future[None]:
        """Run in a thread of its own, until `stop` or a failure; return the future of its end, which
        has the error of `run`. `with worker:` starts it, and stops it at the end of the block.

        Signals are left alone. The client's close stops it, and so does the end of the program.
        """
        running: Future[None] = Future()

        def work() -> None:
            try:
                self.run(stop_on_signals=False)
            except BaseException as error:  # noqa: BLE001  # the future has it
                running.set_exception(error)
            else:
                running.set_result(None)

        async def wait(seconds: float) -> None:
            with suppress(TimeoutError):
                running.exception(seconds)

        # It can't be cancelled any more.
        running.set_running_or_notify_cancel()
        start_thread(work, "spoolrack-worker")
        self._running = running
        self._background = BackgroundWorker(self._core, wait)
        return running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._running is not None
        failure = self._running.exception()
        if error is None and failure is not None:
            raise failure
