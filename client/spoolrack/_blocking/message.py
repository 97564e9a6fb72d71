"""Messages with their operations, streams of them and workers, for threads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .._message_base import MessageFacts
from .._runtime import run
from .._stream import EnvelopeStream
from .._values import Envelope, Seconds
from ..aio._message import (
    ack_message,
    delete_message,
    extend_message,
    finish_message,
    reject_message,
    release_message,
)
from ..aio._worker import WorkerCore

if TYPE_CHECKING:
    from .queue import Queue


class Message(MessageFacts):
    """A message with the queue that it came from.

    As a context it is deleted when the block succeeds. When the block raises, it is released
    with the delay of the queue's back-off, or of a `Retry(after=...)`; a `Reject` makes it a dead
    letter. Nothing more is done if the block deleted, released or rejected it itself. If the lease was
    lost meanwhile, the end of a successful block raises `StaleReceipt`: the message was, or will be,
    delivered again.
    """

    __slots__ = ("_queue",)

    def __init__(self, envelope: Envelope, queue: Queue) -> None:
        super().__init__(envelope, queue._core._name)
        self._queue = queue

    @property
    def queue(self) -> Queue:
        """A handle on the queue that the message came from."""
        return self._queue

    def delete(self, *, allow_expired: bool = False, timeout: Seconds | None = None) -> None:
        """Delete the message for good; raises `StaleReceipt` if the lease is over.

        With `allow_expired`, delete it also then, as long as it was not received since.
        """
        run(delete_message(self._queue._core, self, timeout, allow_expired=allow_expired))

    def release(
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
        run(release_message(self._queue._core, self, delay, reason, count, timeout))

    def reject(self, reason: str = "", *, timeout: Seconds | None = None) -> None:
        """Make the message a dead letter, however often it was received; returns when that is on stable
        media.

        The dead-letter record keeps `reason`, up to 1,024 characters. Raises `NoDeadLetterQueue` if its
        queue has none, `StaleReceipt` if the lease is over.
        """
        run(reject_message(self._queue._core, self, reason, timeout))

    def extend(
        self, seconds: Seconds, *, allow_expired: bool = False, timeout: Seconds | None = None
    ) -> datetime:
        """Extend the lease to `seconds` from now; return its new end. Raises `StaleReceipt`.

        With `allow_expired`, lease the message again if its lease is over and it was not received
        since. That isn't counted as a receive. Only calls with `allow_expired` extend the new lease or
        delete the message by it. A queue whose `group_order` is "strict" refuses it.
        """
        return run(
            extend_message(self._queue._core, self, seconds, timeout, allow_expired=allow_expired)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(finish_message(self._queue._core, self, error, None))


class MessageStream(Iterator[Message]):
    """A queue's messages as they arrive; `queue.messages()` makes one. Also a context that closes it.

    May be shared: each message goes to one of the threads that iterate. Ends when it is closed.
    """

    def __init__(self, core: EnvelopeStream, queue: Queue) -> None:
        self._core = core
        self._queue = queue

    def __next__(self) -> Message:
        envelope = run(self._core.next())
        if envelope is None:
            raise StopIteration
        return Message(envelope, self._queue)

    def receive(self, max_messages: int = 1, *, wait: Seconds | None = None) -> list[Message]:
        """Return up to `max_messages` messages that have arrived, in order. Waits up to `wait` seconds
        for the first (None: without a bound), and not for more.

        An empty list: none arrived in time, or the stream is closed.
        """
        envelopes = run(self._core.receive(max_messages, wait))
        return [Message(envelope, self._queue) for envelope in envelopes]

    def ack(self, message: Message) -> None:
        """Delete a message without waiting for it; acks are batched.

        `close` waits for them. An ack that fails is logged: its message comes again when the lease is
        over, and so does one whose program dies at once. `Message.delete` waits, and raises.
        """
        ack_message(self._core, message)

    def close(self) -> None:
        """Wait for acks, end the stream, and release the messages that wait in it."""
        run(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._core.abandon()

    def __repr__(self) -> str:
        return f"<spoolrack.MessageStream {self._core.describe()}>"


class Worker:
    """A loop that calls a handler with each message of a queue; `queue.worker(handler)` makes one."""

    def __init__(self, core: WorkerCore[Message]) -> None:
        self._core = core

    def run(self, *, stop_on_signals: bool = False) -> None:
        """Work until `stop` is called; then drain and return.

        An end in order: no new messages, running handlers end, waiting messages are released. It
        begins as well when this call is interrupted (Ctrl-C), and then the exception passes. With
        `stop_on_signals`, SIGTERM and SIGINT call `stop`, and a second one acts as it did before.
        """
        run(self._core.run(stop_on_signals=stop_on_signals))

    def stop(self) -> None:
        """Make `run` drain and return. Returns at once; from any thread."""
        self._core.stop()

    def __repr__(self) -> str:
        return f"<spoolrack.Worker {self._core.describe()}>"
