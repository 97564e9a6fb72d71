"""A client for threads: queues as a whole. What happens inside one queue is in `queue`."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from .. import aio
from ..calling import Calling
from ..credentials import CredentialOptions
from ..message import MessageFacts
from ..redrives import Redrive
from ..reservations import Committed, Reservation
from ..retry import RetryPolicy
from ..runtime import Threads, run
from ..stages import BatchOptions, Published, StagedChunk, StageInfo
from ..transports.opening import open_transport
from ..values import Outgoing, QueueInfo, Seconds, Settings
from .batch import Batch
from .iterating import blocking_iterator, closing_iterator
from .queue import Queue


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """A client of the server at `url`: `host:port` or `grpc://host:port`, with TLS
    `grpcs://host:port`; or, without a server, of the root `file:///the/root` or the vsqs folder
    `vsqs:///queue/folder`.

    Returns at once; the first call makes the connection, or opens the root. `timeout` bounds each call
    with all its retries, where the call doesn't say otherwise. `token`, `ca`, `certificate` and `key`
    say who calls, and by whom the server is known: `CredentialOptions` tells of each. A token goes
    over a connection without TLS only to this machine, or with `insecure=True`. Raises `InvalidUrl`
    and `InvalidCredentials`.
    """
    runtime = Threads()
    core = aio.Client(
        open_transport(url, runtime, **credentials), runtime, timeout=timeout, retry=retry
    )
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

    # Stages.

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Messages for several queues that appear together, or not at all.

            with client.batch() as batch:
                batch.send_to("jobs", "one")
                batch.send_to("mail", "two")

        They are staged, and published at the end of the block, or dropped if it raises. A publication
        is repeated like any call, and takes place once. With a `writer` and an `epoch` it also takes
        place once if the whole program is run again: of a writer's epochs each is published only if
        it is higher than the last; `batch.published.already` says that this one wasn't. With
        `publish=False` the block's end only stages: `publish(writer, epoch, [batch.stage])` does the
        rest, here or elsewhere, before `time_to_live` is over.
        """
        return Batch(self._core.batch(**options))

    def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Iterable[bytes | str | Outgoing],
        *,
        time_to_live: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> StagedChunk:
        """Store 1 to 1,000 messages for a queue as one chunk of a stage, all of them or none.

        Nobody sees them before `publish`. A chunk whose number the stage has already is not stored
        again. All have one delay, and none a deduplication id. The first chunk makes the stage, which
        lives for `time_to_live` (1 day) unless it is published. `batch` does all this by itself.
        """
        return run(
            self._core.stage(stage, chunk, queue, messages, time_to_live=time_to_live, timeout=timeout)
        )

    def publish(
        self,
        writer: str,
        epoch: int,
        stages: Iterable[str],
        *,
        memory: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> Published:
        """Make all messages of up to 10,000 stages appear, or none, also after a crash.

        If the writer has published this epoch or a later one before, nothing is done, and the answer
        says `already`: so it may be repeated. That is remembered for `memory` (30 days). Raises
        `StageNotFound` if one of the stages isn't there, and `QueueFull` if they don't fit.
        """
        return run(self._core.publish(writer, epoch, stages, memory=memory, timeout=timeout))

    def abort(self, stage: str, *, timeout: Seconds | None = None) -> int:
        """Drop a stage; returns how many messages it had. 0: there is none, which is a success."""
        return run(self._core.abort(stage, timeout=timeout))

    def stages(self, *, timeout: Seconds | None = None) -> Iterator[StageInfo]:
        """All stages, by name. `timeout` is for each page of them."""
        return blocking_iterator(self._core.stages(timeout=timeout))

    # Reservations. `Queue.reserve` makes them.

    def confirm(
        self,
        stream: str,
        seq: int,
        hold: Seconds | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Reservation:
        """Hold a reservation for so long from now on, or as long as at first; raises
        `ReservationLost` if it is held no more."""
        return run(self._core.confirm(stream, seq, hold, timeout=timeout))

    def read_reservation(
        self,
        stream: str,
        seq: int,
        begin: int = 0,
        end: int | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Iterator[MessageFacts]:
        """The messages of a reservation in their order, as often as one likes: all, or those from the
        place `begin` to before `end`.

        They have no receipts and don't know their queue. What was deleted since the reservation is left
        out. A read goes on by itself after broken connections; `timeout` is for each part of it.
        Raises `ReservationLost`, `ReservationCommitted` or `ReservationNotFound`, also in the middle.
        """
        envelopes = self._core.read_envelopes(stream, seq, begin, end, timeout=timeout)
        return (MessageFacts(envelope, "") for envelope in closing_iterator(envelopes))

    def commit_reservations(
        self, stream: str, up_to: int, *, timeout: Seconds | None = None
    ) -> Committed:
        """Delete the messages of all sets of a stream up to a number, for good.

        The answer names the sets that were lost before: of those nothing was deleted. May be repeated.
        """
        return run(self._core.commit_reservations(stream, up_to, timeout=timeout))

    def release_reservation(self, stream: str, seq: int, *, timeout: Seconds | None = None) -> None:
        """Give the messages of a reservation back: they are ready again, and whoever asks for the
        reservation is told that it is lost. May be repeated."""
        run(self._core.release_reservation(stream, seq, timeout=timeout))

    def reservations(
        self, queue: str = "", stream: str = "", *, timeout: Seconds | None = None
    ) -> Iterator[Reservation]:
        """The reservations of a queue, of a stream, or all, by stream and number. `timeout` is for each
        page of them."""
        return blocking_iterator(self._core.reservations(queue, stream, timeout=timeout))

    # Redrives. `Queue.redrive` begins them.

    def get_redrive(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """A redrive, and how far it is; raises `RedriveNotFound`."""
        return run(self._core.get_redrive(id, timeout=timeout))

    def redrives(self, queue: str = "", *, timeout: Seconds | None = None) -> Iterator[Redrive]:
        """The redrives of a dead-letter queue, or all, the oldest first: those that go on, and those
        that ended within the last 30 days. `timeout` is for each page of them."""
        return blocking_iterator(self._core.redrives(queue, timeout=timeout))

    def cancel_redrive(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """End a redrive; returns what has become of it. What it has moved stays moved, and one that had
        ended before stays as it ended. May be repeated. Raises `RedriveNotFound`."""
        return run(self._core.cancel_redrive(id, timeout=timeout))

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
