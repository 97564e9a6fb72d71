"""A client: its connection, and the catalogue of queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import ClassVar, Self, Unpack

from .. import _arguments as arguments
from .._call_values import ListQueues
from .._core.client_base import ClientBase, Queues
from .._core.pagination import items
from .._core.queue_catalog import create_queue, delete_queue, ensure_queue, update_queue
from .._core.several_queues import Order, SeveralQueues
from .._core.worker_core import WorkerCore, WorkerOptions
from .._credentials import CredentialOptions
from .._message_base import MessageFacts
from .._retry import RetryPolicy
from .._runtime import Tasks
from .._settings import Settings
from .._stage_values import BatchOptions
from .._transports.url import Routing, open_transport
from .._values import QueueInfo, Seconds, StreamOptions
from ._batch import Batch
from ._queue import Message, MessageStream, Queue
from ._redrives import Redrives
from ._reservations import Reservations
from ._schedules import Schedules
from ._staging import Staging
from ._worker import Worker


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    routing: Routing | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """Return a client of the server at `url`, for the running event loop: see `spoolrack.connect`."""
    runtime = Tasks()
    return Client(
        open_transport(url, runtime, routing, **credentials), runtime, timeout=timeout, retry=retry
    )


class Client(ClientBase):
    """A connection to a server; `connect` makes one. Use it as a context, or `close` it.

    The one for threads is safe to share between threads, not between processes.
    """

    staging: Staging
    """Stages, which `batch` makes and publishes by itself."""
    reservations: Reservations
    """Reservations, which `Queue.reserve` makes."""
    redrives: Redrives
    """Redrives, which `Queue.redrive` begins."""
    schedules: Schedules
    """Schedules: messages that are sent again and again."""
    _queue_type = Queue
    _resource_types: ClassVar = {
        "staging": Staging,
        "reservations": Reservations,
        "redrives": Redrives,
        "schedules": Schedules,
    }

    def queue(self, name: str) -> Queue:
        """Return a handle on a queue. Makes no call: the first use of the handle raises `QueueNotFound`
        for a missing queue."""
        queue: Queue = self._handle(name)
        return queue

    def message(self, message: MessageFacts) -> Message:
        """Return a message that another client received, with the operations of this one. Makes no
        call.

        A pickled message has its facts and its receipt, and no connection: so a process pool gets it,
        and deletes or releases it by a client of its own.
        """
        if not isinstance(message, MessageFacts):
            raise arguments.refusal("a message", message, "a message, such as one that was pickled")
        bound: Message = self._handle(message.queue_name)._bind(message._envelope)
        return bound

    async def create_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> Queue:
        """Create a queue, or find it with equal settings and these labels; return a handle on it. Raise
        `QueueExists` if they differ."""
        info = await create_queue(self._context, name, labels, timeout, settings)
        queue: Queue = self._handle(name)
        queue._created = info
        return queue

    async def ensure_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> Queue:
        """Create a queue, or change the one that there is; return a handle on it.

        The settings that are named have these values then; others stay as they are, or have their
        defaults in a new queue. `labels` are all labels of the queue; None: it keeps those that it has.
        May be repeated, by any number of callers. `timeout` is for each of up to three calls.
        """
        await ensure_queue(self._context, name, labels, timeout, settings)
        queue: Queue = self._handle(name)
        return queue

    def list_queues(
        self, prefix: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[QueueInfo]:
        """Return all queues whose names begin with `prefix`, by name. `timeout` is for each page of
        them."""
        arguments.text("prefix", prefix)
        return items(self._context, ListQueues(prefix=prefix), arguments.timeout(timeout))

    async def update_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        if_version: int | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> QueueInfo:
        """Change the settings and labels that are named, and no others; None sets a setting back to its
        default, and removes a label. With `if_version`, only in the queue of this `QueueInfo.version`;
        else `VersionMismatch`, also if the answer of such a change was lost and it was repeated."""
        return await update_queue(self._context, name, labels, if_version, timeout, settings)

    async def delete_queue(
        self, name: str, *, if_version: int | None = None, timeout: Seconds | None = None
    ) -> None:
        """Delete a queue with all its messages, for good; raises `QueueNotFound`. With `if_version`,
        only the queue of this `QueueInfo.version`; else `VersionMismatch`."""
        await delete_queue(self._context, name, if_version, timeout)

    def messages(
        self,
        queues: Queues,
        *,
        order: Order = "fair",
        **options: Unpack[StreamOptions],
    ) -> MessageStream:
        """Return the messages of several queues as they arrive, without end: see `Queue.messages`.

            for message in client.messages(["urgent", "jobs-*"], order="strict"):
                with message:
                    ...

        `queues`: names, handles, and glob patterns (`*`, `?`, `[ab]`). A queue that is created later,
        and matches, is found within 10 s; a pattern without `--` has no queues with `--` in their
        names, such as dead-letter queues. `order`: "fair" takes a message of each queue in turn,
        "strict" of the first queue that has some. No more than `max_in_flight` messages of all queues
        are leased at once, or one of each queue, and no more than `max_bytes_in_flight` bytes, which
        may be exceeded by one message of each queue; for a moment more, where a queue's share passes to
        another. A queue whose shard is away doesn't hold up the others.
        """
        several = SeveralQueues(self._handle, self._context, queues, order)
        stream: MessageStream = self._queue_type._stream_type(several._envelopes(**options), several)
        return stream

    def worker(
        self,
        queues: Queues,
        handler: Callable[[Message], Awaitable[object]],
        *,
        order: Order = "fair",
        on_error: Callable[[Message, Exception], object] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """Return a worker that calls `handler` with each message of several queues: see `messages` for
        `queues` and `order`, and `Queue.worker` for all else."""
        several = SeveralQueues(self._handle, self._context, queues, order)
        return Worker(WorkerCore(several, handler, on_error, **options))

    async def work(
        self,
        queues: Queues,
        handler: Callable[[Message], Awaitable[object]],
        *,
        order: Order = "fair",
        on_error: Callable[[Message, Exception], object] | None = None,
        stop_on_signals: bool | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Run a `worker` here until SIGTERM, SIGINT (Ctrl-C) or a cancellation: see `Worker.run`."""
        worker = self.worker(queues, handler, order=order, on_error=on_error, **options)
        await worker.run(stop_on_signals=stop_on_signals)

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Open a batch: messages for several queues that appear together, or not at all.

            with client.batch() as batch:
                batch.send_to("jobs", "one")
                batch.send_to("mail", "two")

        They are staged, and published at the end of the block, or dropped if it raises. A publication
        is repeated like any call, and takes place once. With a `writer` and an `epoch` it also takes
        place once if the whole program is run again: of a writer's epochs each is published only if it
        is higher than the last; `batch.published.duplicate` says that this one wasn't. With
        `publish=False` the block's end only stages: `staging.publish(writer, epoch, [batch.stage])`
        does the rest, here or elsewhere, before `time_to_live` is over.
        """
        batch: Batch = self._queue_type._batch_type(self._context, None, **options)
        return batch

    async def close(self) -> None:
        """End the streams and the calls in flight, and close the connection. May be repeated, from any
        thread."""
        await self._context.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._context.close()
