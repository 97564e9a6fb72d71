"""A client for threads: queues as a whole. What happens inside one queue is in `queue`."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from .. import aio
from ..calling import Calling
from ..retry import RetryPolicy
from ..runtime import Threads, run
from ..transports.opening import open_transport
from ..values import QueueInfo, Seconds, Settings
from .iterating import blocking_iterator
from .queue import Queue


def connect(
    url: str = "127.0.0.1:50051", *, timeout: Seconds = 30.0, retry: RetryPolicy | None = None
) -> Client:
    """A client of the server at `url`: `host:port` or `grpc://host:port`; or, without a server, of the
    root `file:///the/root` or the vsqs folder `vsqs:///queue/folder`.

    Returns at once; the first call makes the connection, or opens the root. `timeout` bounds each call
    with all its retries, where the call doesn't say otherwise. Raises `InvalidUrl`.
    """
    runtime = Threads()
    core = aio.Client(open_transport(url, runtime), runtime, timeout=timeout, retry=retry)
    _left_open.add(core.calling)
    return Client(core)


_left_open: WeakSet[Calling] = WeakSet()


@atexit.register
def _close_what_is_left_open() -> None:
    """Give back, at the program's end, what its streams hold."""
    for calling in list(_left_open):
        run(calling.close())


class Client:
    """A connection to a server; `connect` makes one. Use it as a context, or `close` it.

    Safe to share between threads, not between processes.
    """

    def __init__(self, core: aio.Client) -> None:
        self._core = core

    def queue(self, name: str) -> Queue:
        """A handle on a queue. Makes no call: whether the queue exists shows at its first use."""
        return Queue(self._core.queue(name))

    def create_queue(
        self, name: str, *, timeout: Seconds | None = None, **settings: Unpack[Settings]
    ) -> QueueInfo:
        """Create a queue. With equal settings it may be there already; with others: `QueueExists`."""
        return run(self._core.create_queue(name, timeout=timeout, **settings))

    def get_queue(self, name: str, *, timeout: Seconds | None = None) -> QueueInfo:
        """A queue's settings and what is in it now; raises `QueueNotFound`."""
        return run(self._core.get_queue(name, timeout=timeout))

    def queues(self, prefix: str = "", *, timeout: Seconds | None = None) -> Iterator[QueueInfo]:
        """All queues whose names begin so, by name. `timeout` is for each page of them."""
        return blocking_iterator(self._core.queues(prefix, timeout=timeout))

    def update_queue(
        self, name: str, *, timeout: Seconds | None = None, **settings: Unpack[Settings]
    ) -> QueueInfo:
        """Change the settings that are named, and no others; None sets one back to its default."""
        return run(self._core.update_queue(name, timeout=timeout, **settings))

    def delete_queue(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a queue with all its messages, for good; raises `QueueNotFound`."""
        run(self._core.delete_queue(name, timeout=timeout))

    def purge_queue(self, name: str, *, timeout: Seconds | None = None) -> int:
        """Delete all messages of a queue, leased and delayed ones too; returns how many."""
        return run(self._core.purge_queue(name, timeout=timeout))

    def close(self) -> None:
        """End what is under way and close the connection. Any number of times, from any thread."""
        run(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<spoolrack.Client of {self._core.describe()}>"
