"""A client for threads: its connection, and the catalogue of queues."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import ClassVar, Self, Unpack
from weakref import WeakSet

from .. import aio
from .._core.client_base import ClientBase, Queues
from .._core.client_context import ClientContext
from .._core.several_queues import Order, SeveralQueues
from .._core.worker_core import WorkerCore, WorkerOptions
from .._credentials import CredentialOptions
from .._retry import RetryPolicy
from .._runtime import Threads, run
from .._transports.url import Routing, open_transport
from .._values import Seconds
from .batch import Batch
from .mirroring import blocking, blocking_items, returning
from .queue import Message, MessageStream, Queue, awaitable
from .resources import Redrives, Reservations, Schedules, Staging
from .worker import Worker


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    routing: Routing | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """Return a client of the server at `url`: `host:port` or `grpc://host:port`, with TLS
    `grpcs://host:port`; or, without a server, of the root `file:///the/root` or the vsqs folder
    `vsqs:///queue/folder`.

    The servers of all shards are named in order, with commas: `a:50051,b:50051,c:50051`. Each queue's
    calls go to its shard; a shard that is away fails the calls on its own queues. `routing="header"` is
    for a proxy that routes by queues: each call carries the tag of its queue as `x-spoolrack-queue`.

    No connection is made here: the first call connects, or opens the root. `timeout` bounds each call
    that has none of its own, all retries included. `token`, `ca`, `certificate` and `key` identify the
    caller and the server: see `CredentialOptions`. Without TLS, a token is sent only to this machine,
    or with `insecure=True`. Raises `InvalidUrl` and `InvalidCredentials`.
    """
    runtime = Threads()
    transport = open_transport(url, runtime, routing, **credentials)
    client = Client(transport, runtime, timeout=timeout, retry=retry)
    _left_open.add(client._context)
    return client


_left_open: WeakSet[ClientContext] = WeakSet()


@atexit.register
def _close_what_is_left_open() -> None:
    """Release, at the program's end, the messages that its streams hold."""
    for context in list(_left_open):
        run(context.close())


class Client(ClientBase):
    __doc__ = aio.Client.__doc__

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

    queue = returning(aio.Client.queue, Queue)
    message = returning(aio.Client.message, Message)
    create_queue = blocking(aio.Client.create_queue, Queue)
    ensure_queue = blocking(aio.Client.ensure_queue, Queue)
    list_queues = blocking_items(aio.Client.list_queues)
    update_queue = blocking(aio.Client.update_queue)
    delete_queue = blocking(aio.Client.delete_queue)
    messages = returning(aio.Client.messages, MessageStream)
    batch = returning(aio.Client.batch, Batch)
    close = blocking(aio.Client.close)

    def worker(
        self,
        queues: Queues,
        handler: Callable[[Message], object],
        *,
        order: Order = "fair",
        on_error: Callable[[Message, Exception], object] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """Return a worker that calls `handler` with each message of several queues: see `messages` for
        `queues` and `order`, and `Queue.worker` for all else."""
        several = SeveralQueues(self._handle, self._context, queues, order)
        return Worker(WorkerCore(several, awaitable(handler), on_error, **options))

    def work(
        self,
        queues: Queues,
        handler: Callable[[Message], object],
        *,
        order: Order = "fair",
        on_error: Callable[[Message, Exception], object] | None = None,
        stop_on_signals: bool | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Run a `worker` here until Ctrl-C (SIGINT) or SIGTERM: see `Worker.run`."""
        worker = self.worker(queues, handler, order=order, on_error=on_error, **options)
        worker.run(stop_on_signals=stop_on_signals)

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.Client.__aexit__)
