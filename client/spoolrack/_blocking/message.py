"""Messages with their operations, streams of them and workers, for threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .. import aio
from .._runtime import run
from .._threads import start_thread
from ..aio._message import BoundMessage, StreamState
from ..aio._worker import BackgroundWorker, WorkerState
from .mirroring import blocking

if TYPE_CHECKING:
    from .queue import Queue


class Message(BoundMessage):
    __doc__ = aio.Message.__doc__
    __slots__ = ()

    @property
    def queue(self) -> Queue:
        """A handle on the queue that the message came from."""
        queue: Queue = self._queue
        return queue

    delete = blocking(aio.Message.delete)
    release = blocking(aio.Message.release)
    reject = blocking(aio.Message.reject)
    extend = blocking(aio.Message.extend)

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.Message.__aexit__)


class MessageStream(StreamState, Iterator[Message]):
    """A queue's messages as they arrive; `queue.messages()` makes one. Also a context that closes it.

    May be shared: each message goes to one of the threads that iterate. Ends when it is closed.
    """

    def __next__(self) -> Message:
        envelope = run(self._core.next())
        if envelope is None:
            raise StopIteration
        message: Message = self._bind(envelope)
        return message

    receive = blocking(aio.MessageStream.receive, list[Message])
    close = blocking(aio.MessageStream.close)

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.MessageStream.__aexit__)


class Worker(WorkerState):
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
