"""One queue and its messages, for threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Unpack

from .. import _arguments as arguments
from .. import aio
from .._retry import Backoff
from .._runtime import run
from .._stage_values import BatchOptions
from .._values import (
    Attributes,
    MessageState,
    Seconds,
)
from ..aio._peek import filter_of
from ..aio._worker import WorkerCore
from .batch import Batch
from .message import Message, MessageStream, Worker
from .mirroring import blocking, blocking_iterator


class Queue:
    """A handle on one queue; `client.queue(name)` makes one. Safe to share between threads."""

    def __init__(self, core: aio.Queue) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._core.name

    info = blocking(aio.Queue.info)
    purge = blocking(aio.Queue.purge)

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

    send_file = blocking(aio.Queue.send_file)
    send_many = blocking(aio.Queue.send_many)

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

    reserve = blocking(aio.Queue.reserve)

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

    delete_by_id = blocking(aio.Queue.delete_by_id)
    delete_many = blocking(aio.Queue.delete_many)
    extend = blocking(aio.Queue.extend)
    extend_many = blocking(aio.Queue.extend_many)
    release_many = blocking(aio.Queue.release_many)
    release = blocking(aio.Queue.release)
    reject = blocking(aio.Queue.reject)
    reject_many = blocking(aio.Queue.reject_many)
    redrive = blocking(aio.Queue.redrive)

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
