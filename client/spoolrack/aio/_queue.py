"""One queue and its messages."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Unpack, cast

from .. import _arguments as arguments
from .._batcher import Batcher
from .._client_context import ClientContext
from .._message_base import MessageFacts
from .._outgoing import chunks_of, outgoing, outgoing_of_all, size_of
from .._redrive_values import Redrive
from .._reservation_values import DEFAULT_RESERVED, DEFAULT_RESERVED_BYTES, Reservation
from .._retry import Backoff
from .._stage_values import BatchOptions
from .._stream import EnvelopeStream
from .._values import (
    MAX_BATCH,
    Attributes,
    ById,
    ByReceipt,
    DeleteResult,
    Envelope,
    LeaseResult,
    MessageFilter,
    MessageRejection,
    MessageState,
    Outgoing,
    QueueInfo,
    Seconds,
    SendResult,
)
from ._batch import Batch
from ._lease_batches import LeaseBatches, release_of
from ._message import Message, MessageStream, last_receive_of, receipt_of
from ._peek import filter_of, peek_envelopes, states_of
from ._redrives import start_redrive
from ._worker import Worker, WorkerCore


class Queue:
    """A handle on one queue; `client.queue(name)` makes one."""

    def __init__(self, context: ClientContext, name: str) -> None:
        self._context = context
        self._name = name
        transport, runtime = context.transport, context.runtime
        self._sends: Batcher[Outgoing, SendResult] = Batcher(
            runtime, partial(transport.send, name), size_of
        )
        self._lease_batches = LeaseBatches(context, name)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    async def info(self, *, timeout: Seconds | None = None) -> QueueInfo:
        """Return the queue's settings and its counts now; raises `QueueNotFound`."""
        transport = self._context.transport
        return await self._context.call(
            lambda left: transport.get_queue(self._name, timeout=left), timeout
        )

    async def purge(
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
        arguments.optional_moment("sent_before", sent_before)
        wanted = states_of(states)
        transport = self._context.transport
        return await self._context.call(
            lambda left: transport.purge_queue(
                self._name, sent_before=sent_before, states=wanted, timeout=left
            ),
            timeout,
        )

    async def send(
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
        """Send a message; returns its id once it is on stable media: see `spoolrack.Queue.send`."""
        given = {} if attributes is None else attributes
        message = outgoing(body, given, delay, deliver_at, deduplication_id, group, priority)
        result = await self._context.attempt(self._sends.submit, timeout, message)
        return result.id  # type: ignore[union-attr, return-value]  # one without an error

    async def send_file(
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
        given = {} if attributes is None else attributes
        message = outgoing(b"", given, delay, deliver_at, deduplication_id, group, priority)
        files = self._context.transport.files
        result = await self._context.call(
            lambda left: files.send(self._name, path, message, link=link, timeout=left), timeout
        )
        if result.error is not None:
            raise result.error
        return cast(str, result.id)

    async def send_many(
        self, messages: Iterable[bytes | str | Outgoing], *, timeout: Seconds | None = None
    ) -> list[SendResult]:
        """Send messages in order, up to 1,000 or 4 MiB in a call; a result for each, with its id or
        its error.

        The valid messages of one call are stored together. A message that was refused is not sent
        again (that would change the order), a call that failed is. If the first call fails for good,
        its error is raised; if a later one does, its messages have that error, and so have those after
        it, which are not sent. `timeout` is for each call.
        """
        arguments.timeout(timeout)
        return await self._context.in_chunks(
            chunks_of(outgoing_of_all(messages), size_of),
            self._sends.submit_many,
            lambda error: SendResult(error=error),
            timeout,
        )

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Open a batch for this queue: see `spoolrack.Client.batch`."""
        return Batch(self._context, self._name, **options)

    async def receive(
        self,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> list[Message]:
        """Lease messages, in order; wait up to `wait` seconds for the first."""
        envelopes = await self._receive_envelopes(
            max_messages, wait=wait, visibility_timeout=visibility_timeout, timeout=timeout
        )
        return [Message(envelope, self) for envelope in envelopes]

    async def _receive_envelopes(
        self,
        max_messages: int,
        *,
        wait: Seconds,
        visibility_timeout: Seconds | None,
        timeout: Seconds | None,
    ) -> Sequence[Envelope]:
        context = self._context
        arguments.integer("max_messages", max_messages, 1, MAX_BATCH)
        waits = arguments.span("wait", wait)
        # The wait is no delay of the server: the timeout begins after it.
        connect_timeout = waits + context.timeout_of(timeout)
        visibility = arguments.optional_span("visibility_timeout", visibility_timeout, is_positive=True)
        waits_until = context.runtime.monotonic() + waits
        return await context.call(
            lambda left: context.transport.receive(
                self._name,
                max_messages=max_messages,
                wait=max(0.0, waits_until - context.runtime.monotonic()),
                visibility_timeout=visibility,
                timeout=left,
            ),
            connect_timeout,
        )

    async def reserve(
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
        context = self._context
        arguments.text("stream", stream)
        arguments.integer("sequence_number", sequence_number)
        arguments.integer("max_messages", max_messages, 1)
        arguments.integer("max_bytes", max_bytes, 1)
        visibility = arguments.optional_span("visibility_timeout", visibility_timeout)
        waits = arguments.span("wait", wait)
        connect_timeout = waits + context.timeout_of(timeout)
        waits_until = context.runtime.monotonic() + waits
        return await context.call(
            lambda left: context.transport.reservations.reserve(
                self._name,
                stream,
                sequence_number,
                max_messages=max_messages,
                max_bytes=max_bytes,
                visibility_timeout=visibility,
                wait=max(0.0, waits_until - context.runtime.monotonic()),
                timeout=left,
            ),
            connect_timeout,
        )

    def messages(
        self,
        *,
        max_in_flight: int = 100,
        max_bytes_in_flight: int | None = None,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> MessageStream:
        """Return the queue's messages as they arrive, without end: see `spoolrack.Queue.messages`."""
        stream = self._envelopes(
            max_in_flight=max_in_flight,
            max_bytes_in_flight=max_bytes_in_flight,
            visibility_timeout=visibility_timeout,
            timeout=timeout,
        )
        return MessageStream(stream, self)

    def _envelopes(
        self,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int | None = None,
        visibility_timeout: Seconds | None,
        timeout: Seconds | None = None,
        concurrency: int | None = None,
        until_dropped: bool = False,
        on_arrival: Callable[[], None] | None = None,
    ) -> EnvelopeStream:
        return EnvelopeStream(
            self._context,
            self._name,
            max_in_flight=arguments.integer("max_in_flight", max_in_flight, 1, arguments.MAX_IN_FLIGHT),
            max_bytes_in_flight=0
            if max_bytes_in_flight is None
            else arguments.integer("max_bytes_in_flight", max_bytes_in_flight, 1),
            visibility_timeout=arguments.optional_span(
                "visibility_timeout", visibility_timeout, is_positive=True
            ),
            connect_timeout=self._context.timeout_of(timeout),
            concurrency=concurrency,
            until_dropped=until_dropped,
            on_arrival=on_arrival,
        )

    async def delete(
        self,
        message: MessageFacts | str,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> None:
        """Delete a message by itself or its receipt: see `spoolrack.Queue.delete`."""
        await self._lease_batches.delete(_target(message, allow_expired), timeout)

    async def delete_by_id(self, id: str, *, timeout: Seconds | None = None) -> None:
        """Delete a message in any state, leased or not; raise `MessageNotFound`.

        One that was deleted a moment ago may also be a success."""
        await self._lease_batches.delete(ById(arguments.text("id", id)), timeout)

    async def delete_many(
        self,
        messages: Iterable[MessageFacts | str | ById],
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> list[DeleteResult]:
        """Delete messages by themselves, their receipts, or `ById(id)`; a result for each.
        `allow_expired` as in `delete`."""
        targets = [
            ById(arguments.text("an id", message.id))
            if isinstance(message, ById)
            else _target(message, allow_expired)
            for message in arguments.some("messages", messages, "messages, receipts or ById")
        ]
        return await self._lease_batches.delete_many(targets, timeout)

    async def extend(
        self,
        message: MessageFacts | str,
        seconds: Seconds,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> datetime:
        """Extend a lease to `seconds` from now; return its new end. Raises `StaleReceipt`.
        `allow_expired` as in `Message.extend`; it needs the message itself."""
        return await self._lease_batches.extend(_target(message, allow_expired), seconds, timeout)

    async def release(
        self,
        message: MessageFacts | str,
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """End a lease: the message is ready again at its old place, at once or after `delay`. See
        `Message.release`."""
        release = release_of(receipt_of(message), delay, reason, count)
        await self._lease_batches.release(release, timeout)

    async def reject(
        self, message: MessageFacts | str, reason: str = "", *, timeout: Seconds | None = None
    ) -> None:
        """Make a leased message a dead letter at once. See `Message.reject`."""
        rejection = MessageRejection(receipt_of(message), arguments.reason(reason))
        await self._lease_batches.reject(rejection, timeout)

    async def extend_many(
        self,
        messages: Iterable[MessageFacts | str],
        seconds: Seconds,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Extend many leases, as `extend` does one; a result for each."""
        targets = [
            _target(message, allow_expired)
            for message in arguments.some("messages", messages, "messages or receipts")
        ]
        return await self._lease_batches.extend_many(targets, seconds, timeout)

    async def release_many(
        self,
        messages: Iterable[MessageFacts | str],
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Release many leases, as `release` does one; a result for each."""
        releases = [release_of(receipt, delay, reason, count) for receipt in _receipts_of(messages)]
        return await self._lease_batches.release_many(releases, timeout)

    async def reject_many(
        self,
        messages: Iterable[MessageFacts | str],
        reason: str = "",
        *,
        timeout: Seconds | None = None,
    ) -> list[LeaseResult]:
        """Reject many messages, as `reject` does one; a result for each."""
        rejections = [
            MessageRejection(receipt, arguments.reason(reason)) for receipt in _receipts_of(messages)
        ]
        return await self._lease_batches.reject_many(rejections, timeout)

    async def redrive(
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
        return await start_redrive(
            self._context,
            self._name,
            destination=destination,
            message_ids=message_ids,
            source_queue=source_queue,
            max_messages_per_second=max_messages_per_second,
            timeout=timeout,
        )

    async def get(self, id: str, *, timeout: Seconds | None = None) -> Message:
        """Return a message without leasing it; raises `MessageNotFound`."""
        return Message(await self._get_envelope(id, timeout=timeout), self)

    async def _get_envelope(self, id: str, *, timeout: Seconds | None) -> Envelope:
        transport = self._context.transport
        arguments.text("id", id)
        return await self._context.call(
            lambda left: transport.get_message(self._name, id, timeout=left), timeout
        )

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
    ) -> AsyncIterator[Message]:
        """Return messages in order, without leasing them: see `spoolrack.Queue.peek`."""
        envelopes = self._peek_envelopes(
            filter_of(states, sent_since, sent_before, group, attributes),
            max_body_bytes=max_body_bytes,
            limit=limit,
            timeout=timeout,
        )
        return self._bound(envelopes)

    async def _bound(self, envelopes: AsyncIterator[Envelope]) -> AsyncIterator[Message]:
        async for envelope in envelopes:
            yield Message(envelope, self)

    def _peek_envelopes(
        self,
        wanted: MessageFilter,
        *,
        max_body_bytes: int | None,
        limit: int | None,
        timeout: Seconds | None,
    ) -> AsyncIterator[Envelope]:
        return peek_envelopes(
            self._context,
            self._name,
            wanted,
            max_body_bytes=max_body_bytes,
            limit=limit,
            timeout=timeout,
        )

    def worker(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        concurrency: int = 8,
        prefetch: int | None = None,
        visibility_timeout: Seconds | None = None,
        retry: Backoff | None = None,
        on_error: Callable[[Message, Exception], object] | None = None,
        grace: Seconds = 30.0,
    ) -> Worker:
        """Return a worker that calls `handler` with each message, in `concurrency` tasks: see
        `spoolrack.Queue.worker`. Handlers that outlast `grace` are cancelled."""
        return Worker(
            WorkerCore(
                self,
                lambda envelope: Message(envelope, self),
                handler,
                on_error,
                concurrency=concurrency,
                prefetch=prefetch,
                visibility_timeout=visibility_timeout,
                retry=retry,
                grace=grace,
            )
        )

    async def work(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        concurrency: int = 8,
        prefetch: int | None = None,
        visibility_timeout: Seconds | None = None,
        retry: Backoff | None = None,
        on_error: Callable[[Message, Exception], object] | None = None,
        grace: Seconds = 30.0,
        stop_on_signals: bool = False,
    ) -> None:
        """Run a `worker` here until this task is cancelled, or, if asked, until SIGTERM or SIGINT."""
        await self.worker(
            handler,
            concurrency=concurrency,
            prefetch=prefetch,
            visibility_timeout=visibility_timeout,
            retry=retry,
            on_error=on_error,
            grace=grace,
        ).run(stop_on_signals=stop_on_signals)

    def _describe(self) -> str:
        return f"{self._name} at {self._context.transport.target}"

    def __repr__(self) -> str:
        return f"<spoolrack.aio.Queue {self._describe()}>"


def _target(message: MessageFacts | str, allow_expired: bool) -> ByReceipt:
    return ByReceipt(receipt_of(message), last_receive_of(message, allow_expired=allow_expired))


def _receipts_of(messages: Iterable[MessageFacts | str]) -> list[str]:
    return [receipt_of(each) for each in arguments.some("messages", messages, "messages or receipts")]
