"""One queue and its messages, for threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Unpack

from .. import _arguments as arguments
from .. import aio
from .._redrive_values import Redrive
from .._reservation_values import DEFAULT_RESERVED, DEFAULT_RESERVED_BYTES, Reservation
from .._retry import Backoff
from .._runtime import run
from .._stage_values import BatchOptions
from .._values import (
    Attributes,
    ById,
    DeleteResult,
    LeaseResult,
    MessageState,
    Outgoing,
    QueueInfo,
    Seconds,
    SendResult,
)
from ..aio._peek import filter_of
from ..aio._worker import WorkerCore
from .batch import Batch
from .iteration import blocking_iterator
from .message import Message, MessageStream, Worker


class Queue:
    """A handle on one queue; `client.queue(name)` makes one. Safe to share between threads."""

    def __init__(self, core: aio.Queue) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._core.name

    def info(self, *, timeout: Seconds | None = None) -> QueueInfo:
        """Return the queue's settings and its counts now; raises `QueueNotFound`."""
        return run(self._core.info(timeout=timeout))

    def purge(
        self,
        *,
        sent_before: datetime | None = None,
        states: Collection[MessageState | str] = (),
        timeout: Seconds | None = None,
    ) -> int:
        """Delete all messages, or those that were sent before `sent_before`, a datetime with its zone,
        and are in one of `states` ("ready", "leased", "delayed"); returns how many.

        The holder of a lease on a deleted message finds it gone.
        """
        return run(self._core.purge(sent_before=sent_before, states=states, timeout=timeout))

    def send(
        self,
        body: bytes | str,
        *,
        attributes: Attributes | None = None,
        delay: Seconds | None = None,
        deliver_at: datetime | None = None,
        deduplication_id: str = "",
        group: str = "",
        priority: int = 0,
        timeout: Seconds | None = None,
    ) -> str:
        """Send a message; returns its id once it is on stable media.

        Repeated where that may help: a full queue or disk is waited for, until `timeout`. If the
        connection breaks in mid-call the message is sent again, and may then be there twice; not so
        with a `deduplication_id`: a second message with the same, within the queue's
        `deduplication_window`, is not stored, and the first one's id is returned. Messages of one
        `group` are received in the order of their sends, and groups take turns. A message with
        `deliver_at`, a datetime with its zone up to 365 days ahead, is hidden until then. Ready
        messages of a higher `priority`, 0 to 9, are received first.
        """
        return run(
            self._core.send(
                body,
                attributes=attributes,
                delay=delay,
                deliver_at=deliver_at,
                deduplication_id=deduplication_id,
                group=group,
                priority=priority,
                timeout=timeout,
            )
        )

    def send_file(
        self,
        path: str | os.PathLike[str],
        *,
        link: bool = False,
        attributes: Attributes | None = None,
        delay: Seconds | None = None,
        deliver_at: datetime | None = None,
        deduplication_id: str = "",
        group: str = "",
        priority: int = 0,
        timeout: Seconds | None = None,
    ) -> str:
        """Send the content of the file at `path` as a message; returns its id once it is on stable
        media.

        A client of a folder (`file:///DIR`) copies the file into it in pieces, up to the queue's
        `max_message_size`; with `link` it gives the file another name there, which takes no time. The
        file must then be on the file system of the folder, and what is written into it later changes
        the message. A client of a server reads it into memory: `Unsupported` above 64 MiB, and with
        `link`. The other arguments are those of `send`; `timeout` is for the call, without the copy.
        """
        return run(
            self._core.send_file(
                path,
                link=link,
                attributes=attributes,
                delay=delay,
                deliver_at=deliver_at,
                deduplication_id=deduplication_id,
                group=group,
                priority=priority,
                timeout=timeout,
            )
        )

    def send_many(
        self, messages: Iterable[bytes | str | Outgoing], *, timeout: Seconds | None = None
    ) -> list[SendResult]:
        """Send messages in order, up to 1,000 or 4 MiB in a call; a result for each, with its id or
        its error.

        The valid messages of one call are stored together. A message that was refused is not sent
        again (that would change the order), a call that failed is. If the first call fails for good,
        its error is raised; if a later one does, its messages have that error, and so have those after
        it, which are not sent. `timeout` is for each call.
        """
        return run(self._core.send_many(messages, timeout=timeout))

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Open a batch: messages for this queue that appear together, or not at all: see
        `Client.batch`.

        with queue.batch() as batch:
            batch.send("one")
            batch.send("two")
        """
        return Batch(self._core.batch(**options))

    def receive(
        self,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> list[Message]:
        """Lease up to `max_messages` (1,000 at most) messages, in order; wait up to `wait` seconds for
        the first. An empty list: none was ready in time."""
        envelopes = run(
            self._core._receive_envelopes(
                max_messages, wait=wait, visibility_timeout=visibility_timeout, timeout=timeout
            )
        )
        return [Message(envelope, self) for envelope in envelopes]

    def reserve(
        self,
        stream: str,
        sequence_number: int,
        *,
        max_messages: int = DEFAULT_RESERVED,
        max_bytes: int = DEFAULT_RESERVED_BYTES,
        visibility_timeout: Seconds | None = None,
        wait: Seconds = 0.0,
        timeout: Seconds | None = None,
    ) -> Reservation | None:
        """Lease messages as the reservation `sequence_number` of `stream`. None: there was no message
        within `wait`, and nothing is reserved.

        The same name again returns the same messages, whatever else is asked for, also after a restart,
        until they are committed (`ReservationCommitted`) or the lease is over (`ReservationLost`); of
        another queue or caller it is a `NameTaken`. They are leased for `visibility_timeout`, or the
        queue's own; `client.reservations.extend` makes that longer. At most 100,000 messages, and at
        least one however large it is.
        """
        return run(
            self._core.reserve(
                stream,
                sequence_number,
                max_messages=max_messages,
                max_bytes=max_bytes,
                visibility_timeout=visibility_timeout,
                wait=wait,
                timeout=timeout,
            )
        )

    def messages(
        self,
        *,
        max_in_flight: int = 100,
        max_bytes_in_flight: int | None = None,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> MessageStream:
        """Return the queue's messages as they arrive, without end: iterate it, and close it when done.

            for message in queue.messages():
                with message:
                    ...

        No more than `max_in_flight` messages are leased to it at once, those included that wait on this
        side, and of `max_bytes_in_flight` bytes of bodies and attributes, which may be exceeded by one
        message; raises `Unsupported` where bytes can't be limited. The leases of the waiting ones are
        extended. After a broken connection or a restart of the server it goes on by itself, for ever;
        only if there never was a connection does it raise the error after `timeout`. Closing it
        releases the messages that it had not handed out.
        """
        core = self._core._envelopes(
            max_in_flight=max_in_flight,
            max_bytes_in_flight=max_bytes_in_flight,
            visibility_timeout=visibility_timeout,
            timeout=timeout,
        )
        return MessageStream(core, self)

    def delete(
        self, message: Message | str, *, allow_expired: bool = False, timeout: Seconds | None = None
    ) -> None:
        """Delete a message by itself or its receipt; returns when that is on stable media.

        One that is gone already is a success; raises `StaleReceipt` if the lease is over. With
        `allow_expired`, which needs the message itself, it is deleted also then, as long as it was not
        received since.
        """
        run(self._core.delete(message, allow_expired=allow_expired, timeout=timeout))

    def delete_by_id(self, id: str, *, timeout: Seconds | None = None) -> None:
        """Delete a message in any state, leased or not; raise `MessageNotFound`.

        One that was deleted a moment ago may also be a success."""
        run(self._core.delete_by_id(id, timeout=timeout))

    def delete_many(
        self,
        messages: Iterable[Message | str | ById],
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> list[DeleteResult]:
        """Delete messages by themselves, their receipts, or `ById(id)`; a result for each.
        `allow_expired` as in `delete`."""
        return run(self._core.delete_many(messages, allow_expired=allow_expired, timeout=timeout))

    def extend(
        self,
        message: Message | str,
        seconds: Seconds,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> datetime:
        """Extend a lease to `seconds` from now; return its new end. Raises `StaleReceipt`.
        `allow_expired` as in `Message.extend`; it needs the message itself."""
        return run(self._core.extend(message, seconds, allow_expired=allow_expired, timeout=timeout))

    def extend_many(
        self,
        messages: Iterable[Message | str],
        seconds: Seconds,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Extend many leases, as `extend` does one; a result for each."""
        return run(
            self._core.extend_many(messages, seconds, allow_expired=allow_expired, timeout=timeout)
        )

    def release_many(
        self,
        messages: Iterable[Message | str],
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Release many leases, as `release` does one; a result for each."""
        return run(
            self._core.release_many(messages, delay=delay, reason=reason, count=count, timeout=timeout)
        )

    def release(
        self,
        message: Message | str,
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """End a lease: the message is ready again at its old place, at once or after `delay`. See
        `Message.release`."""
        run(self._core.release(message, delay=delay, reason=reason, count=count, timeout=timeout))

    def reject(
        self, message: Message | str, reason: str = "", *, timeout: Seconds | None = None
    ) -> None:
        """Make a leased message a dead letter at once. See `Message.reject`."""
        run(self._core.reject(message, reason, timeout=timeout))

    def reject_many(
        self,
        messages: Iterable[Message | str],
        reason: str = "",
        *,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Reject many messages, as `reject` does one; a result for each."""
        return run(self._core.reject_many(messages, reason, timeout=timeout))

    def redrive(
        self,
        *,
        destination: str = "",
        message_ids: Iterable[str] | None = None,
        source_queue: str = "",
        max_messages_per_second: int = 0,
        timeout: Seconds | None = None,
    ) -> Redrive:
        """Start moving this queue's dead letters to the queues that they came from, or to
        `destination`; return once that is on stable media.

        Selects all that are in the queue now, or those with `message_ids` (1,000 at most), or those
        that came from `source_queue`; no more than `max_messages_per_second`, if that isn't 0. It runs
        by itself, also after a restart; `client.redrives.get` returns its progress. Over `file://`, the
        processes that have the root open move them: keep the client open, or run a server. Raises
        `RedriveRunning` if the queue has a redrive that goes on.
        """
        return run(
            self._core.redrive(
                destination=destination,
                message_ids=message_ids,
                source_queue=source_queue,
                max_messages_per_second=max_messages_per_second,
                timeout=timeout,
            )
        )

    def get(self, id: str, *, timeout: Seconds | None = None) -> Message:
        """Return a message without leasing it; raises `MessageNotFound`."""
        return Message(run(self._core._get_envelope(id, timeout=timeout)), self)

    def peek(
        self,
        states: Collection[MessageState | str] = (),
        *,
        sent_since: datetime | None = None,
        sent_before: datetime | None = None,
        group: str = "",
        attributes: Attributes | None = None,
        max_body_bytes: int | None = None,
        limit: int | None = None,
        timeout: Seconds | None = None,
    ) -> Iterator[Message]:
        """Return messages in order, without leasing them: of some states ("ready", "leased",
        "delayed"), of some age (`sent_since`, `sent_before`: datetimes with their zones), of a group,
        or with these attributes; with the first `max_body_bytes` of each body, or all of it.

        A filter reads no bodies. By group and attributes it may look at many messages to find few: it
        asks for one page after the other, and `timeout` is for each.
        """
        envelopes = self._core._peek_envelopes(
            filter_of(states, sent_since, sent_before, group, attributes),
            max_body_bytes=max_body_bytes,
            limit=limit,
            timeout=timeout,
        )
        return (Message(envelope, self) for envelope in blocking_iterator(envelopes))

    def worker(
        self,
        handler: Callable[[Message], object],
        *,
        concurrency: int = 8,
        prefetch: int | None = None,
        visibility_timeout: Seconds | None = None,
        retry: Backoff | None = None,
        on_error: Callable[[Message, Exception], object] | None = None,
        grace: Seconds = 30.0,
    ) -> Worker:
        """Return a worker that calls `handler` with each message, in `concurrency` threads.

        A message is deleted when the handler returns. When the handler raises, the message is released
        with a delay, and others are worked on meanwhile. The delay is that of `retry`, a `Backoff`, and
        without one that of the queue's back-off: by default it doubles with each receive, from 1 s to 5
        minutes. A handler that raises `Retry(after=...)` states the delay itself, and one that raises
        `Reject(reason)` makes the message a dead letter. For every other exception `on_error` is called
        with message and exception (default: it is logged).

        Leases are extended for as long as handlers run. `prefetch` messages wait on this side so that
        no thread is idle, by default as many as `concurrency`; use 0 where handlers take long, to leave
        them to other workers. At a stop the running handlers have `grace` to end.
        """

        arguments.function("handler", handler)

        async def call(message: Message) -> None:
            handler(message)

        return Worker(
            WorkerCore(
                self._core,
                lambda envelope: Message(envelope, self),
                call,
                on_error,
                concurrency=concurrency,
                prefetch=prefetch,
                visibility_timeout=visibility_timeout,
                retry=retry,
                grace=grace,
            )
        )

    def work(
        self,
        handler: Callable[[Message], object],
        *,
        concurrency: int = 8,
        prefetch: int | None = None,
        visibility_timeout: Seconds | None = None,
        retry: Backoff | None = None,
        on_error: Callable[[Message, Exception], object] | None = None,
        grace: Seconds = 30.0,
        stop_on_signals: bool = False,
    ) -> None:
        """Run a `worker` here until Ctrl-C, or, if asked, until SIGTERM or SIGINT: see `Worker.run`."""
        self.worker(
            handler,
            concurrency=concurrency,
            prefetch=prefetch,
            visibility_timeout=visibility_timeout,
            retry=retry,
            on_error=on_error,
            grace=grace,
        ).run(stop_on_signals=stop_on_signals)

    def __repr__(self) -> str:
        return f"<spoolrack.Queue {self._core._describe()}>"
