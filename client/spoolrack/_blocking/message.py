"""Messages with their operations, streams of them and workers, for threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from .. import aio
from .._runtime import run
from ..aio._message import BoundMessage, StreamState
from ..aio._worker import WorkerState
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

    run = blocking(aio.Worker.run)
