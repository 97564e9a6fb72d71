"""One queue and its messages.

The operations are written once. `spoolrack._blocking` runs them over its own handles, messages and
streams, so they use nothing of `self` but what the base classes have.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack, cast

from .. import _arguments as arguments
from .. import tracing
from .._call_values import GetMessage, GetQueue, PurgeQueue, Reserve
from .._core.bound_message import (
    BoundMessage,
    StreamBase,
    extension_of,
    finish_message,
    note_ended,
    receipt_of,
    release_of,
    target_of,
)
from .._core.outgoing import chunks_of, outgoing, outgoing_of_all, size_of
from .._core.peek import filter_of, peek_envelopes, states_of
from .._core.queue_base import QueueBase
from .._core.queue_catalog import delete_queue, update_queue
from .._core.worker_core import WorkerCore, WorkerOptions
from .._message_base import MessageFacts
from .._reservation_values import DEFAULT_RESERVED, DEFAULT_RESERVED_BYTES, Reservation
from .._retry import Reject, Retry
from .._settings import Settings
from .._stage_values import BatchOptions
from .._values import (
    MAX_BATCH,
    Attributes,
    ById,
    DeleteResult,
    LeaseResult,
    MessageRejection,
    MessageState,
    Outgoing,
    QueueInfo,
    Results,
    Seconds,
    SendOptions,
    SendResult,
    StreamOptions,
)
from ..errors import MessageNotFound
from ._batch import Batch
from ._redrives import RedriveHandle, Redrives, start_redrive
from ._reservations import ReservationHandle, Reservations
from ._worker import Worker


class Message(BoundMessage):
    """A message with the queue that it came from. It is a context: `with`, or `async with` in tasks.

    It is deleted when the block succeeds. When the block raises, it is released with the delay of the
    queue's back-off. A `Retry(after=...)` states the delay, and a `Reject` makes it a dead letter: both
    end with the block, as they end with a worker's handler, and all other exceptions pass. Nothing more
    is done if the block deleted, released or rejected it itself. If the lease was lost meanwhile, the
    end of a successful block raises `StaleReceipt`: the message was, or will be, delivered again.
    """

    __slots__ = ()

    @property
    def queue(self) -> Queue:
        """A handle on the queue that the message came from."""
        queue: Queue = self._queue
        return queue

    async def delete(self, *, allow_expired: bool = False, timeout: Seconds | None = None) -> None:
        """Delete the message for good; raises `StaleReceipt` if the lease is over.

        With `allow_expired`, delete it also then, as long as it was not received since.
        """
        await self._queue._lease_batches.deletes.one(target_of(self, allow_expired), timeout)
        self._finished = True

    async def release(
        self,
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """End the lease: the message is ready again at its old place, at once or after `delay`.

        Args:
            delay: Up to 365 days. None: as long as the queue's back-off says for its receive count.
            reason: Why, in up to 1,024 characters. The dead-letter record keeps it if this is the last
                receive that the queue's `max_receives` allows.
            count: Whether the receive counts. False: `receive_count` falls by one.

        Raises `StaleReceipt` if the lease is over. A delayed message takes none of its stream's
        `max_in_flight`.
        """
        await self._queue._lease_batches.releases.one(release_of(self, delay, reason, count), timeout)
        self._finished = True

    async def reject(self, reason: str = "", *, timeout: Seconds | None = None) -> None:
        """Make the message a dead letter, however often it was received; returns when that is on stable
        media.

        The dead-letter record keeps `reason`, up to 1,024 characters. Raises `NoDeadLetterQueue` if its
        queue has none, `StaleReceipt` if the lease is over.
        """
        rejection = MessageRejection(receipt_of(self), arguments.reason(reason))
        await self._queue._lease_batches.rejections.one(rejection, timeout)
        self._finished = True

    async def extend(
        self, seconds: Seconds, *, allow_expired: bool = False, timeout: Seconds | None = None
    ) -> datetime:
        """Extend the lease to `seconds` from now; return its new end. Raises `StaleReceipt`.

        With `allow_expired`, lease the message again if its lease is over and it was not received
        since. That isn't counted as a receive. Only calls with `allow_expired` extend the new lease or
        delete the message by it. A queue whose `group_order` is "strict" refuses it.
        """
        change = extension_of(self, seconds, allow_expired)
        end: datetime = await self._queue._lease_batches.extend(change, timeout)
        self._lease_expires_at = end
        return end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        refusal = await finish_message(self, error, None)
        if not isinstance(error, Retry | Reject):
            return False
        if refusal is not None:
            raise refusal from error
        return True


class MessageStream(StreamBase, AsyncIterator[Message]):
    """Messages of a queue, or of several, as they arrive; `queue.messages()` makes one, and so does
    `client.messages(queues)`. Close it, or use `async with`.

    May be shared: each message goes to one of the tasks that iterate. Ends when it is closed.
    """

    async def __anext__(self) -> Message:
        envelope = await self._core.next()
        if envelope is None:
            raise StopAsyncIteration
        message: Message = self._bind(envelope)
        return message

    async def receive(self, max_messages: int = 1, *, wait: Seconds | None = None) -> list[Message]:
        """Return up to `max_messages` messages that have arrived, in order. Waits up to `wait` seconds
        for the first (None: without a bound), and not for more.

        An empty list: none arrived in time, or the stream is closed.
        """
        return [self._bind(envelope) for envelope in await self._core.receive(max_messages, wait)]

    async def close(self) -> None:
        """Wait for acks, end the stream, and release the messages that wait in it."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.close()


class Queue(QueueBase):
    """A handle on one queue; `client.queue(name)` makes one. Threads may share the one for threads."""

    _message_type = Message
    _stream_type = MessageStream
    _batch_type = Batch
    _reservations_type = Reservations
    _redrives_type = Redrives

    async def info(self, *, timeout: Seconds | None = None) -> QueueInfo:
        """Return the queue's settings and its counts now; raises `QueueNotFound`."""
        return await self._context.ask(GetQueue(name=self._name), timeout)

    async def update(
        self,
        *,
        labels: Mapping[str, str | None] | None = None,
        if_version: int | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> QueueInfo:
        """Change settings and labels of the queue: see `Client.update_queue`."""
        return await update_queue(self._context, self._name, labels, if_version, timeout, settings)

    async def delete_queue(
        self, *, if_version: int | None = None, timeout: Seconds | None = None
    ) -> None:
        """Delete the queue itself with all its messages: see `Client.delete_queue`."""
        await delete_queue(self._context, self._name, if_version, timeout)

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
        request = PurgeQueue(name=self._name, sent_before=sent_before, states=wanted)
        return await self._context.ask(request, timeout)

    async def send(
        self, body: bytes | str, *, timeout: Seconds | None = None, **options: Unpack[SendOptions]
    ) -> str:
        """Send a message; returns its id once it is on stable media.

        Options, all by name: `attributes`, `delay`, `deliver_at`, `deduplication_id`, `group` and
        `priority`; `Outgoing` says what each means.

        Repeated where that may help: a full queue or disk is waited for, until `timeout`. If the
        connection breaks in mid-call the message is sent again, and may then be there twice; not so
        with a `deduplication_id`: a second message with the same, within the queue's
        `deduplication_window`, is not stored, and the first one's id is returned.
        """
        context, send = self._context, self._sends.submit
        if tracing.API not in sys.modules:
            result = await context.call(send, timeout, outgoing(body, **options))
        else:
            with tracing.operation("send", "send", self._name, context.transport) as observed:
                result = await context.call(send, timeout, outgoing(body, **options))
                observed.note(1, id=result.id)  # type: ignore[arg-type]  # one without an error
        return result.id  # type: ignore[return-value]  # one without an error

    async def send_json(
        self, value: object, *, timeout: Seconds | None = None, **options: Unpack[SendOptions]
    ) -> str:
        """Send a value as JSON, which `message.json()` reads: see `send`. Raises `TypeError` or
        `ValueError` for a value that JSON doesn't have."""
        body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return await Queue.send(self, body, timeout=timeout, **options)

    async def send_file(
        self,
        path: str | os.PathLike[str],
        *,
        link: bool = False,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> str:
        """Send the content of the file at `path` as a message; returns its id once it is on stable
        media.

        A client of a folder (`file:///DIR`) copies the file into it in pieces, up to the queue's
        `max_message_size`; with `link` it gives the file another name there, which takes no time. The
        file must then be on the file system of the folder, and what is written into it later changes
        the message. A client of a server reads it into memory: `Unsupported` above 64 MiB, and with
        `link`. The other options are those of `send`; `timeout` is for the call, without the copy.
        """
        transport = self._context.transport
        with tracing.operation("send", "send", self._name, transport) as observed:
            message = outgoing(b"", **options)
            result = await self._context.call(
                transport.send_file, timeout, self._name, path, message, link=link
            )
            if result.error is not None:
                raise result.error
            id = cast(str, result.id)
            observed.note(1, id=id)
        return id

    async def send_many(
        self, messages: Iterable[bytes | str | Outgoing], *, timeout: Seconds | None = None
    ) -> Results[SendResult]:
        """Send messages in order, in calls of up to 1,000 or 4 MiB; returns a result for each, with its
        id or its error.

        The valid messages of one call are stored together. A message that was refused is not sent
        again (that would change the order), a call that failed is. If the first call fails for good,
        its error is raised; if a later one does, its messages have that error, and so have those after
        it, which are not sent. `send_many(...).raise_for_errors()` raises if any message failed.
        `timeout` is for each call.
        """
        arguments.timeout(timeout)
        context = self._context
        with tracing.operation("send", "send", self._name, context.transport) as observed:
            results = await context.in_chunks(
                chunks_of(outgoing_of_all(messages), size_of),
                self._sends.submit_many,
                lambda error: SendResult(error=error),
                timeout,
            )
            observed.note(len(results))
        return Results(results)

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Open a batch: messages for this queue that appear together, or not at all: see
        `Client.batch`.

            with queue.batch() as batch:
                batch.send("one")
                batch.send("two")
        """
        batch: Batch = self._batch_type(self._context, self._name, **options)
        return batch

    async def receive(
        self,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> list[Message]:
        """Lease up to `max_messages` (1,000 at most) messages, in order; wait up to `wait` seconds for
        the first. Returns an empty list if none was ready in time."""
        context = self._context
        arguments.integer("max_messages", max_messages, 1, MAX_BATCH)
        waits = arguments.span("wait", wait)
        patience = context.timeout_of(timeout)
        visibility = arguments.optional_span("visibility_timeout", visibility_timeout, is_positive=True)
        with tracing.operation("receive", "receive", self._name, context.transport) as observed:
            envelopes = await context.call(
                lambda timeout: context.transport.receive(
                    self._name,
                    max_messages=max_messages,
                    wait=min(waits, max(0.0, timeout - patience)),
                    visibility_timeout=visibility,
                    timeout=timeout,
                ),
                # The wait is no delay of the server: the timeout begins after it.
                waits + patience,
            )
            observed.note(len(envelopes), received=envelopes)
        return [self._message_type(envelope, self) for envelope in envelopes]

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
    ) -> ReservationHandle | None:
        """Lease messages as the reservation `sequence_number` of `stream`. None: there was no message
        within `wait`, and nothing is reserved.

        The same name again returns the same messages, whatever else is asked for, also after a restart,
        until they are committed (`ReservationCommitted`) or the lease is over (`ReservationLost`); of
        another queue or caller it is a `NameTaken`. They are leased for `visibility_timeout`, or the
        queue's own; `extend` makes that longer. At most 100,000 messages, and at
        least one however large it is.
        """
        context = self._context
        arguments.text("stream", stream)
        arguments.integer("sequence_number", sequence_number)
        arguments.integer("max_messages", max_messages, 1)
        arguments.integer("max_bytes", max_bytes, 1)
        visibility = arguments.optional_span("visibility_timeout", visibility_timeout)
        waits = arguments.span("wait", wait)
        patience = context.timeout_of(timeout)

        async def once(*, timeout: float) -> Reservation | None:
            request = Reserve(
                queue=self._name,
                stream=stream,
                sequence_number=sequence_number,
                max_messages=max_messages,
                max_bytes=max_bytes,
                visibility_timeout=visibility,
                wait=min(waits, max(0.0, timeout - patience)),
            )
            return await context.transport.call(request, timeout=timeout)

        reserved = await context.call(once, waits + patience)
        if reserved is None:
            return None
        handle: ReservationHandle = self._reservations_type(context)._handle(reserved)
        return handle

    def messages(self, **options: Unpack[StreamOptions]) -> MessageStream:
        """Return the queue's messages as they arrive, without end: iterate it, and close it when done.

            for message in queue.messages():
                with message:
                    ...

        No more than `max_in_flight` (100) messages are leased to it at once, those included that wait
        on this side, and of `max_bytes_in_flight` bytes of bodies and attributes, which may be exceeded
        by one message; raises `Unsupported` where bytes can't be limited. The leases, of
        `visibility_timeout`, of the waiting ones are extended. After a broken connection or a restart
        of the server it goes on by itself, for ever; only if there never was a connection does it raise
        the error after `timeout`. Closing it releases the messages that it had not handed out.
        """
        stream: MessageStream = self._stream_type(self._envelopes(**options), self)
        return stream

    async def delete(
        self,
        message: MessageFacts | str,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> None:
        """Delete a message by itself or its receipt; returns when that is on stable media.

        One that is gone already is a success; raises `StaleReceipt` if the lease is over. With
        `allow_expired`, which needs the message itself, it is deleted also then, as long as it was not
        received since.
        """
        await self._lease_batches.deletes.one(target_of(message, allow_expired), timeout)
        note_ended([message])

    async def delete_by_id(self, id: str, *, timeout: Seconds | None = None) -> None:
        """Delete a message in any state, leased or not; raise `MessageNotFound`.

        One that was deleted a moment ago may also be a success."""
        await self._lease_batches.deletes.one(ById(arguments.text("id", id)), timeout, MessageNotFound)

    async def delete_many(
        self,
        messages: Iterable[MessageFacts | str | ById],
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[DeleteResult]:
        """Delete messages by themselves, their receipts, or `ById(id)`; a result for each.
        `allow_expired` as in `delete`."""
        listed = list(arguments.some("messages", messages, "messages, receipts or ById"))
        targets = [
            ById(arguments.text("an id", message.id))
            if isinstance(message, ById)
            else target_of(message, allow_expired)
            for message in listed
        ]
        return note_ended(listed, await self._lease_batches.deletes.many(targets, timeout))

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
        change = extension_of(message, seconds, allow_expired)
        return await self._lease_batches.extend(change, timeout)

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
        release = release_of(message, delay, reason, count)
        await self._lease_batches.releases.one(release, timeout)
        note_ended([message])

    async def reject(
        self, message: MessageFacts | str, reason: str = "", *, timeout: Seconds | None = None
    ) -> None:
        """Make a leased message a dead letter at once. See `Message.reject`."""
        rejection = MessageRejection(receipt_of(message), arguments.reason(reason))
        await self._lease_batches.rejections.one(rejection, timeout)
        note_ended([message])

    async def extend_many(
        self,
        messages: Iterable[MessageFacts | str],
        seconds: Seconds,
        *,
        allow_expired: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[LeaseResult]:
        """Extend many leases, as `extend` does one; a result for each."""
        changes = [
            extension_of(message, seconds, allow_expired)
            for message in arguments.some("messages", messages, "messages or receipts")
        ]
        return Results(await self._lease_batches.extensions.many(changes, timeout))

    async def release_many(
        self,
        messages: Iterable[MessageFacts | str],
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> Results[LeaseResult]:
        """Release many leases, as `release` does one; a result for each."""
        given = list(arguments.some("messages", messages, "messages or receipts"))
        releases = [release_of(message, delay, reason, count) for message in given]
        return note_ended(given, await self._lease_batches.releases.many(releases, timeout))

    async def reject_many(
        self,
        messages: Iterable[MessageFacts | str],
        reason: str = "",
        *,
        timeout: Seconds | None = None,
    ) -> Results[LeaseResult]:
        """Reject many messages, as `reject` does one; a result for each."""
        given = list(arguments.some("messages", messages, "messages or receipts"))
        rejections = [
            MessageRejection(receipt_of(message), arguments.reason(reason)) for message in given
        ]
        return note_ended(given, await self._lease_batches.rejections.many(rejections, timeout))

    async def redrive(
        self,
        *,
        destination: str = "",
        message_ids: Iterable[str] | None = None,
        source_queue: str = "",
        max_messages_per_second: int = 0,
        timeout: Seconds | None = None,
    ) -> RedriveHandle:
        """Start a redrive: move this queue's dead letters back to their source queues, or to
        `destination`. Returns once the redrive is on stable media.

        Selects all that are in the queue now, or those with `message_ids` (1,000 at most), or those
        that came from `source_queue`; no more than `max_messages_per_second`, if that isn't 0. It runs
        by itself, also after a restart; its `get` returns its progress. Over `file://`, the
        processes that have the root open move them: keep the client open, or run a server. Raises
        `RedriveRunning` if the queue has a redrive that goes on.
        """
        started = await start_redrive(
            self._context,
            self._name,
            destination=destination,
            message_ids=message_ids,
            source_queue=source_queue,
            max_messages_per_second=max_messages_per_second,
            timeout=timeout,
        )
        handle: RedriveHandle = self._redrives_type(self._context)._handle(started)
        return handle

    async def get(self, id: str, *, timeout: Seconds | None = None) -> Message:
        """Return a message without leasing it; raises `MessageNotFound`."""
        arguments.text("id", id)
        envelope = await self._context.ask(GetMessage(queue=self._name, id=id), timeout)
        message: Message = self._message_type(envelope, self)
        return message

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
        """Return messages in order, without leasing them: of some states ("ready", "leased",
        "delayed"), of some age (`sent_since`, `sent_before`: datetimes with their zones), of a group,
        or with these attributes; with the first `max_body_bytes` of each body, or all of it.

        A filter reads no bodies. By group and attributes it may look at many messages to find few: it
        asks for one page after the other, and `timeout` is for each.
        """
        envelopes = peek_envelopes(
            self._context,
            self._name,
            filter_of(states, sent_since, sent_before, group, attributes),
            max_body_bytes=max_body_bytes,
            limit=limit,
            timeout=timeout,
        )
        return self._bound(envelopes)

    def worker(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        on_error: Callable[[Message, Exception], object] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """Return a worker that calls `handler` with each message, in `concurrency` tasks: see
        `spoolrack.Queue.worker`. Handlers that outlast `grace` are cancelled."""
        return Worker(WorkerCore(self, handler, on_error, **options))

    async def work(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        on_error: Callable[[Message, Exception], object] | None = None,
        stop_on_signals: bool | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Run a `worker` here until SIGTERM, SIGINT (Ctrl-C) or a cancellation: see `Worker.run`."""
        await self.worker(handler, on_error=on_error, **options).run(stop_on_signals=stop_on_signals)
