"""A client for threads: its connection, and the catalogue of queues."""

from __future__ import annotations

import atexit
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from .. import aio
from .._client_context import ClientContext
from .._credentials import CredentialOptions
from .._retry import RetryPolicy
from .._runtime import Threads, run
from .._stage_values import BatchOptions
from .._transports.url import open_transport
from .._values import Seconds
from .batch import Batch
from .mirroring import blocking, blocking_items
from .queue import Queue


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """Return a client of the server at `url`: `host:port` or `grpc://host:port`, with TLS
    `grpcs://host:port`; or, without a server, of the root `file:///the/root` or the vsqs folder
    `vsqs:///queue/folder`.

    No connection is made here: the first call connects, or opens the root. `timeout` bounds each call
    that has none of its own, all retries included. `token`, `ca`, `certificate` and `key` identify the
    caller and the server: see `CredentialOptions`. Without TLS, a token is sent only to this machine,
    or with `insecure=True`. Raises `InvalidUrl` and `InvalidCredentials`.
    """
    runtime = Threads()
    core = aio.Client(
        open_transport(url, runtime, **credentials), runtime, timeout=timeout, retry=retry
    )
    _left_open.add(core._context)
    return Client(core)


_left_open: WeakSet[ClientContext] = WeakSet()


@atexit.register
def _close_what_is_left_open() -> None:
    """Release, at the program's end, the messages that its streams hold."""
    for context in list(_left_open):
        run(context.close())


class Staging:
    """The stages of a server; `client.staging` is one. `client.batch` does all this by itself."""

    def __init__(self, core: aio.Staging) -> None:
        self._core = core

    stage = blocking(aio.Staging.stage)
    publish = blocking(aio.Staging.publish)
    abort = blocking(aio.Staging.abort)
    get = blocking(aio.Staging.get)
    list = blocking_items(aio.Staging.list)


class Reservations:
    """The reservations of a server; `client.reservations` is one."""

    def __init__(self, core: aio.Reservations) -> None:
        self._core = core

    extend = blocking(aio.Reservations.extend)
    read = blocking_items(aio.Reservations.read)
    commit = blocking(aio.Reservations.commit)
    release = blocking(aio.Reservations.release)
    get = blocking(aio.Reservations.get)
    list = blocking_items(aio.Reservations.list)


class Redrives:
    """The redrives of a server; `client.redrives` is one."""

    def __init__(self, core: aio.Redrives) -> None:
        self._core = core

    get = blocking(aio.Redrives.get)
    cancel = blocking(aio.Redrives.cancel)
    list = blocking_items(aio.Redrives.list)


class Schedules:
    """The schedules of a server; `client.schedules` is one. `queue` is a name, or a handle."""

    def __init__(self, core: aio.Schedules) -> None:
        self._core = core

    create = blocking(aio.Schedules.create)
    get = blocking(aio.Schedules.get)
    update = blocking(aio.Schedules.update)
    list = blocking_items(aio.Schedules.list)
    pause = blocking(aio.Schedules.pause)
    resume = blocking(aio.Schedules.resume)
    delete = blocking(aio.Schedules.delete)


class Client:
    """A connection to a server; `connect` makes one. Use it as a context, or `close` it.

    Safe to share between threads, not between processes.
    """

    def __init__(self, core: aio.Client) -> None:
        self._core = core
        self.staging = Staging(core.staging)
        """Stages, which `batch` makes and publishes by itself."""
        self.reservations = Reservations(core.reservations)
        """Reservations, which `Queue.reserve` makes."""
        self.redrives = Redrives(core.redrives)
        """Redrives, which `Queue.redrive` begins."""
        self.schedules = Schedules(core.schedules)
        """Schedules: messages that are sent again and again."""

    def queue(self, name: str) -> Queue:
        """Return a handle on a queue. Makes no call: the first use of the handle raises `QueueNotFound`
        for a missing queue."""
        return Queue(self._core.queue(name))

    create_queue = blocking(aio.Client.create_queue)
    list_queues = blocking_items(aio.Client.list_queues)
    update_queue = blocking(aio.Client.update_queue)
    delete_queue = blocking(aio.Client.delete_queue)

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
        return Batch(self._core.batch(**options))

    def close(self) -> None:
        """End the calls in flight and close the connection. May be repeated, from any thread."""
        run(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<spoolrack.Client of {self._core._describe()}>"
