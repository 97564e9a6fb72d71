"""A client for threads: its connection, and the catalogue of queues."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from .. import aio
from .._client_context import ClientContext
from .._credentials import CredentialOptions
from .._retry import RetryPolicy
from .._runtime import Threads, run
from .._settings import Settings
from .._stage_values import BatchOptions
from .._transports.url import open_transport
from .._values import QueueInfo, Seconds
from .batch import Batch
from .iteration import blocking_iterator
from .queue import Queue
from .redrives import Redrives
from .reservations import Reservations
from .schedules import Schedules
from .staging import Staging


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

    def create_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> QueueInfo:
        """Create a queue, or find it with equal settings and these labels; raise `QueueExists` if they
        differ."""
        return run(self._core.create_queue(name, labels=labels, timeout=timeout, **settings))

    def list_queues(self, prefix: str = "", *, timeout: Seconds | None = None) -> Iterator[QueueInfo]:
        """Return all queues whose names begin with `prefix`, by name. `timeout` is for each page of
        them."""
        return blocking_iterator(self._core.list_queues(prefix, timeout=timeout))

    def update_queue(
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
        changing = self._core.update_queue(
            name, labels=labels, if_version=if_version, timeout=timeout, **settings
        )
        return run(changing)

    def delete_queue(
        self, name: str, *, if_version: int | None = None, timeout: Seconds | None = None
    ) -> None:
        """Delete a queue with all its messages, for good; raises `QueueNotFound`. With `if_version`,
        only the queue of this `QueueInfo.version`; else `VersionMismatch`."""
        run(self._core.delete_queue(name, if_version=if_version, timeout=timeout))

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
