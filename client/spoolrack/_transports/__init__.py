"""Transports: the client's interface to a store, by gRPC or in a folder.

A transport speaks in `values` and raises `errors`, nothing else; it doesn't retry and doesn't merge.
Its methods are coroutines. Those of a transport that was opened for `runtime.Threads` block instead
of suspending, so that the same core serves threads and tasks; those for `runtime.Tasks` suspend.
`timeout` is in seconds and bounds the one call; a call that takes longer raises `Timeout`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from .._redrive_values import Redrive
from .._reservation_values import CommitResult, Reservation
from .._schedule_values import Schedule
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import (
    Attributes,
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageFilter,
    MessageRejection,
    MessageRelease,
    MessageState,
    Outgoing,
    Page,
    QueueInfo,
    SendResult,
    Target,
)


class Deliveries(Protocol):
    """Messages as they arrive. One reader at a time."""

    async def next(self) -> Sequence[Envelope]:
        """Return at least one message; raise a `SpoolrackError` when the stream has ended, also by
        `cancel`."""

    def report(self, begun: int, max_in_flight: int, max_bytes_in_flight: int) -> None:
        """Tell the server soon how many of these messages were handed out or dropped, in order, and how
        many, of how many bytes, it may lease to the stream from now on; 0 bytes change nothing."""

    def connected(self) -> bool:
        """Return whether the server has accepted the stream."""

    on_connected: Callable[[], None]
    """Called by the reader once the server has accepted the stream. May be called again."""

    def stop(self) -> None:
        """Ask for no more messages: `next` returns those that are on their way, and then raises
        `ClientClosed`. May be repeated, from any thread."""

    def cancel(self) -> None:
        """End the stream, and a waiting `next`: messages on their way stay leased. May be repeated,
        from any thread."""


class Pages(Protocol):
    """Messages of a reservation, by pages. One reader."""

    async def next(self) -> Sequence[Envelope]:
        """Return messages, in order; none at the end."""

    def cancel(self) -> None:
        """End the read early. May be repeated, also after its end."""


Item = TypeVar("Item", contravariant=True)
Result = TypeVar("Result", covariant=True)


class BatchStream(Protocol[Item, Result]):
    """Calls of one kind to one queue on a stream, for which no caller waits."""

    target: str
    """The server, for the text of an error."""
    max_bytes: int
    """Size below which a call may go on the stream."""

    def begin(
        self,
        items: Sequence[Item],
        done: Callable[[Sequence[Result] | None, Exception | None], object],
    ) -> Callable[[], object]:
        """Begin a call. Later, maybe in another thread, `done` is called once: with a result for each
        item, with an error, or with neither, where only a call by itself can tell. Return what abandons
        the call: one that isn't written yet never is, and `done` may not be called."""


class StagingTransport(Protocol):
    """The operations on stages. `queue`: one that a stage has messages for; empty: it isn't known."""

    async def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Sequence[Outgoing],
        *,
        time_to_live: float | None,
        timeout: float,
    ) -> StageResult:
        """Store 1 to 1,000 messages as one chunk, all or none. Bodies are bytes, delays are floats."""

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Sequence[str],
        *,
        queue: str,
        message_count: int,
        epoch_retention: float | None,
        timeout: float,
    ) -> PublishResult:
        """Publish stages. `message_count`: how many messages they must have; 0: not compared."""

    async def abort(self, stage: str, *, queue: str, timeout: float) -> int:
        """Drop a stage; answers how many messages it had."""

    async def get(self, stage: str, *, queue: str, timeout: float) -> StageInfo: ...

    async def list_stages(self, *, queue: str, token: str, timeout: float) -> Page[StageInfo]:
        """Return a page by name; an empty queue means all."""


class ReservationTransport(Protocol):
    """The operations on reservations. `queue`: that of the reservation; empty: it isn't known."""

    async def reserve(
        self,
        queue: str,
        stream: str,
        sequence_number: int,
        *,
        max_messages: int,
        max_bytes: int,
        visibility_timeout: float | None,
        wait: float,
        timeout: float,
    ) -> Reservation | None:
        """Lease messages under a name, or find them so leased; None: there was none in time."""

    async def extend(
        self,
        stream: str,
        sequence_number: int,
        *,
        queue: str,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Reservation: ...

    def read(self, stream: str, sequence_number: int, *, queue: str, begin: int, end: int) -> Pages:
        """Yield the messages from the place `begin` to before `end`; 0 is the end of the set."""

    async def commit(
        self, stream: str, last_sequence_number: int, *, queue: str, timeout: float
    ) -> CommitResult: ...

    async def release(
        self, stream: str, sequence_number: int, *, queue: str, timeout: float
    ) -> None: ...

    async def get(
        self, stream: str, sequence_number: int, *, queue: str, timeout: float
    ) -> Reservation: ...

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Reservation]:
        """Return a page by stream and number; an empty queue or stream means all."""


class RedriveTransport(Protocol):
    """The operations on redrives. `queue`: the dead-letter queue; empty: it isn't known."""

    async def start(
        self,
        queue: str,
        *,
        destination: str,
        ids: Sequence[str],
        source_queue: str,
        max_messages_per_second: int,
        timeout: float,
    ) -> Redrive:
        """Start moving dead letters back; without `ids` all, without a rate as fast as possible."""

    async def get(self, id: str, *, queue: str, timeout: float) -> Redrive: ...

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Redrive]:
        """Return a page, the oldest first; an empty queue means all."""

    async def cancel(self, id: str, *, queue: str, timeout: float) -> Redrive:
        """End a redrive; return it as it ended."""


class ScheduleTransport(Protocol):
    """The operations on schedules."""

    async def create(
        self,
        queue: str,
        name: str,
        cron: str,
        message: Outgoing,
        *,
        time_zone: str,
        timeout: float,
    ) -> Schedule:
        """Create a schedule, or find it with this content. The message has no delay."""

    async def get(self, queue: str, name: str, *, timeout: float) -> Schedule: ...

    async def update(
        self,
        queue: str,
        name: str,
        *,
        cron: str | None,
        time_zone: str | None,
        body: bytes | None,
        attributes: Attributes | None,
        group: str | None,
        timeout: float,
    ) -> Schedule:
        """Change what isn't None."""

    async def list_schedules(self, *, queue: str, token: str, timeout: float) -> Page[Schedule]:
        """Return a page by queue and name; an empty queue means all."""

    async def pause(self, queue: str, name: str, *, timeout: float) -> Schedule: ...

    async def resume(self, queue: str, name: str, *, timeout: float) -> Schedule: ...

    async def delete(self, queue: str, name: str, *, timeout: float) -> None: ...


class FileTransport(Protocol):
    """The sends of files."""

    async def send(
        self,
        queue: str,
        path: str | os.PathLike[str],
        message: Outgoing,
        *,
        link: bool,
        timeout: float,
    ) -> SendResult:
        """Send the file at `path` as the body of a message, whose own body is ignored; with `link`
        without a copy. Raises `OSError` for a file that can't be read, `Unsupported`."""


class ClientTransport(Protocol):
    """The operations of a store. Safe for use from several threads, or several tasks of one loop."""

    staging: StagingTransport
    reservations: ReservationTransport
    redrives: RedriveTransport
    schedules: ScheduleTransport
    files: FileTransport

    @property
    def target(self) -> str:
        """The URL of the server or folder."""

    @property
    def all(self) -> Sequence[ClientTransport]:
        """The transports of all shards; of a server or a folder it is the only one."""

    def home(self, queue: str) -> str:
        """Return the name of what a queue lies on: one batch can't go to two."""

    async def create_queue(
        self, name: str, settings: Mapping[str, object], labels: Mapping[str, str], *, timeout: float
    ) -> QueueInfo:
        """Create a queue, or find it with equal settings and these labels. Settings as in
        `values.QueueSettings`, only those that differ from the default or were named."""

    async def get_queue(self, name: str, *, timeout: float) -> QueueInfo: ...

    async def list_queues(self, *, prefix: str, token: str, timeout: float) -> Page[QueueInfo]:
        """Return a page by name."""

    async def update_queue(
        self,
        name: str,
        changes: Mapping[str, object],
        labels: Mapping[str, str | None],
        *,
        if_version: int,
        timeout: float,
    ) -> QueueInfo:
        """Change the settings and labels that are named; None sets a setting back to its default, and
        removes a label. `if_version` above 0 is the version that the queue must have."""

    async def delete_queue(self, name: str, *, if_version: int, timeout: float) -> None: ...

    async def purge_queue(
        self,
        name: str,
        *,
        sent_before: datetime | None,
        states: Collection[MessageState],
        timeout: float,
    ) -> int:
        """Delete messages; return their number. None means of any age, no states means all."""

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        """Send 1 to 1,000 messages; a result for each. Bodies are bytes, delays are floats."""

    def send_stream(self, queue: str) -> BatchStream[Outgoing, SendResult] | None:
        """Return the stream of a queue's sends; None: there is none."""

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int,
        wait: float,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Sequence[Envelope]: ...

    def stream(
        self,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        concurrency: int,
        stream_id: str = "",
        interrupted: Sequence[InterruptedStream] = (),
    ) -> Deliveries:
        """Open a stream of messages; a `max_bytes_in_flight` of 0 is no limit. Raises `Unsupported` for
        another value if the transport can't limit bytes. `concurrency`: how many messages are handled
        at a time, unless a report says more; the others are prefetched. `interrupted`: streams of this
        client whose connections were lost; of their messages those that have not arrived are released.
        """

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        """Delete 1 to 1,000 messages; a result for each."""

    def delete_stream(self, queue: str) -> BatchStream[Target, DeleteResult] | None:
        """Return the stream of a queue's deletes; None: there is none."""

    async def extend(
        self, queue: str, extensions: Sequence[LeaseExtension], *, timeout: float
    ) -> list[LeaseResult]:
        """Extend 1 to 1,000 leases; a result for each."""

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        """Release 1 to 1,000 leases with delays; a result for each."""

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        """Make 1 to 1,000 leased messages dead letters; a result for each."""

    async def get_message(self, queue: str, id: str, *, timeout: float) -> Envelope: ...

    async def list_messages(
        self,
        queue: str,
        *,
        wanted: MessageFilter,
        token: str,
        limit: int,
        max_body_bytes: int | None,
        timeout: float,
    ) -> Page[Envelope]:
        """Return a page of the messages that pass the filter, in order; `max_body_bytes` None means
        whole bodies.

        A page may be empty although others follow.
        """

    async def close(self) -> None:
        """End the calls in flight. No call may follow."""
