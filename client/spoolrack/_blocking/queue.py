"""One queue and its messages, for threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Self, Unpack

from .. import _arguments as arguments
from .. import aio
from .._core.bound_message import BoundMessage, StreamBase
from .._core.queue_base import QueueBase
from .._core.worker_core import WorkerCore, WorkerOptions
from .._runtime import run
from .batch import Batch
from .mirroring import blocking, blocking_items, returning
from .resources import RedriveHandle, Redrives, ReservationHandle, Reservations
from .worker import Worker


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


class MessageStream(StreamBase, Iterator[Message]):
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


class Queue(QueueBase):
    __doc__ = aio.Queue.__doc__

    _message_type = Message
    _stream_type = MessageStream
    _batch_type = Batch
    _reservations_type = Reservations
    _redrives_type = Redrives

    info = blocking(aio.Queue.info)
    update = blocking(aio.Queue.update)
    delete_queue = blocking(aio.Queue.delete_queue)
    purge = blocking(aio.Queue.purge)
    send = blocking(aio.Queue.send)
    send_json = blocking(aio.Queue.send_json)
    send_file = blocking(aio.Queue.send_file)
    send_many = blocking(aio.Queue.send_many)
    batch = returning(aio.Queue.batch, Batch)
    receive = blocking(aio.Queue.receive, list[Message])
    reserve = blocking(aio.Queue.reserve, ReservationHandle, or_none=True)
    messages = returning(aio.Queue.messages, MessageStream)
    delete = blocking(aio.Queue.delete)
    delete_by_id = blocking(aio.Queue.delete_by_id)
    delete_many = blocking(aio.Queue.delete_many)
    extend = blocking(aio.Queue.extend)
    extend_many = blocking(aio.Queue.extend_many)
    release = blocking(aio.Queue.release)
    release_many = blocking(aio.Queue.release_many)
    reject = blocking(aio.Queue.reject)
    reject_many = blocking(aio.Queue.reject_many)
    redrive = blocking(aio.Queue.redrive, RedriveHandle)
    get = blocking(aio.Queue.get, Message)
    peek = blocking_items(aio.Queue.peek, Message)

    def worker(
        self,
        handler: Callable[[Message], object],
        *,
        on_error: Callable[[Message, Exception], object] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """Return a worker that calls `handler` with each message, in `concurrency` (8) threads.

        A message is deleted when the handler returns; the next message doesn't wait for that, unless
        `concurrency` is 1. When the handler raises, the message is released with a delay, and others
        are worked on meanwhile. The delay is that of `retry`, a `Backoff`, and without one that of the
        queue's back-off: by default it doubles with each receive, from 1 s to 5 minutes. A handler that
        raises `Retry(after=...)` states the delay itself, and one that raises `Reject(reason)` makes
        the message a dead letter. For every other exception `on_error` is called with message and
        exception (default: it is logged), and so it is for a delete that fails.

        Leases, of `visibility_timeout`, are extended for as long as handlers run. `prefetch` messages
        wait on this side so that no thread is idle, by default as many as `concurrency`; use 0 where
        handlers take long, to leave them to other workers. At a stop the running handlers have `grace`
        (30 s) to end.
        """
        return Worker(WorkerCore(self, awaitable(handler), on_error, **options))

    def work(
        self,
        handler: Callable[[Message], object],
        *,
        on_error: Callable[[Message, Exception], object] | None = None,
        stop_on_signals: bool | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Run a `worker` here until Ctrl-C (SIGINT) or SIGTERM: see `Worker.run`."""
        self.worker(handler, on_error=on_error, **options).run(stop_on_signals=stop_on_signals)


def awaitable(handler: Callable[[Message], object]) -> Callable[[Message], Awaitable[None]]:
    """Return a handler as a worker calls it; raise `InvalidRequest` if it is none."""
    arguments.function("handler", handler)

    async def call(message: Message) -> None:
        result = handler(message)
        if isinstance(result, Coroutine):
            # To delete the message now would lose it: the handler has not begun.
            result.close()
            raise TypeError(f"the handler returned a coroutine: {arguments.NOT_AWAITED}")

    return call
