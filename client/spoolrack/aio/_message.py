"""Messages with their operations, and streams of them.

The operations are written once. `spoolrack._blocking` runs them over its own messages and streams, so
they use nothing of `self` but what `BoundMessage` and `StreamState` have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .. import _arguments as arguments
from .._acks import CLOSE_TIMEOUT, Ack, Acks
from .._message_base import MessageFacts
from .._retry import Backoff, Reject, Retry
from .._stream import EnvelopeStream
from .._values import (
    ByReceipt,
    DeleteResult,
    Envelope,
    LastReceive,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Results,
    Seconds,
)
from ..errors import InvalidReceipt, SpoolrackError, StaleReceipt

if TYPE_CHECKING:
    from ._queue import Queue, QueueHandle
    from ._several_queues import SeveralQueues, SeveralStreams


def receipt_of(message: MessageFacts | str) -> str:
    """Return the receipt of a message, or the one given; raise `InvalidReceipt` for a message
    without."""
    if isinstance(message, MessageFacts):
        receipt = message.receipt
    elif isinstance(message, str):
        receipt = arguments.text("a receipt", message)
    else:
        raise arguments.refusal("a message", message, "a received message or its receipt")
    if not receipt:
        raise InvalidReceipt(
            "The message has no receipt, because it was not received but got or peeked: "
            "receive it, or delete it by its id."
        )
    return receipt


def target_of(message: MessageFacts | str, allow_expired: bool) -> ByReceipt:
    """Return a message by its receipt; with the receive that it came with, if its lease may be over."""
    if not allow_expired:
        return ByReceipt(receipt_of(message))
    if not isinstance(message, MessageFacts):
        raise arguments.refusal(
            "the message of allow_expired", message, "a received message, not its receipt alone"
        )
    first = message._envelope.first_receive_ms or 0
    return ByReceipt(receipt_of(message), LastReceive(message.receive_count, first))


def extension_of(message: MessageFacts | str, seconds: Seconds, allow_expired: bool) -> LeaseExtension:
    """Return the extension of a lease; raise `InvalidRequest` for invalid arguments."""
    target = target_of(message, allow_expired)
    # To end a lease is a release.
    span = arguments.span("seconds", seconds, is_positive=True)
    return LeaseExtension(target.receipt, span, target.last_receive)


def release_of(
    message: MessageFacts | str, delay: Seconds | None, reason: str, count: bool
) -> MessageRelease:
    """Return the release of a lease; raise `InvalidRequest` for invalid arguments."""
    return MessageRelease(
        receipt_of(message),
        arguments.optional_span("delay", delay, most=arguments.MAX_DELAY),
        arguments.reason(reason),
        arguments.flag("count", count),
    )


Ended = TypeVar("Ended", DeleteResult, LeaseResult)


def note_ended(messages: Sequence[object], results: Sequence[Ended] = ()) -> Results[Ended]:
    """Note that the leases of messages have ended, those without an error; return the results."""
    for message, result in zip_longest(messages, results):
        if isinstance(message, MessageFacts) and (result is None or result.error is None):
            message._finished = True
    return Results(results)


class BoundMessage(MessageFacts):
    """A message of a queue's handle, for threads or tasks."""

    __slots__ = ("_acks", "_queue")

    def __init__(self, envelope: Envelope, queue: QueueHandle, acks: Acks | None = None) -> None:
        """`acks`: those of the stream or worker that received it; None: the queue's."""
        super().__init__(envelope, queue._name)
        self._queue: Any = queue
        self._acks = acks

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the facts: another process has no connection of this client. There `client.message`
        gives them the operations again."""
        return MessageFacts, (self._envelope, self._queue_name)

    def ack(self) -> None:
        """Delete the message without waiting for it; acks are batched.

        The close of its stream, its worker or its client waits for them. An ack that fails is logged:
        the message comes again when its lease is over, and so does one whose program dies at once.
        `delete` waits, and raises.
        """
        self._end_soon(Ack(receipt_of(self)))

    def nack(self, *, delay: Seconds | None = 0.0, reason: str = "", count: bool = True) -> None:
        """End the lease without waiting for it: as `ack`, but the message is ready again, at once or
        after `delay`. `release` waits, and raises; the arguments are the same.

        A message that failed is better given a `delay`, or None, which is the queue's back-off: that is
        what an exception in a handler, or in the block of the message, does.
        """
        self._end_soon(Ack(receipt_of(self), release_of(self, delay, reason, count)))

    def _end_soon(self, ack: Ack) -> None:
        (self._acks or self._queue._acks).add(ack)
        self._finished = True


async def finish_message(
    message: BoundMessage, error: BaseException | None, backoff: Backoff | None
) -> SpoolrackError | None:
    """Delete a message after a success; after a failure release it with a delay, or reject it.

    Nothing, if the block deleted or released it. An end of the program or its task is no failure of
    the block: the message is released at once. Return why a failed message was not rejected or not
    released as it was to be.
    """
    if message._finished:
        return None
    batches = message._queue._lease_batches
    refusal: SpoolrackError | None = None
    if error is None:
        await batches.deletes.one(ByReceipt(receipt_of(message)), None)
    else:
        try:
            if isinstance(error, Reject):
                refusal = await _reject(message, error)
            if not isinstance(error, Reject) or refusal is not None:
                await batches.releases.one(_release_after(message, error, backoff), CLOSE_TIMEOUT)
        except StaleReceipt:
            pass  # It is ready, or another consumer's, as a release would have it.
        except SpoolrackError as why:
            # The program's own error matters more, and must pass.
            error.add_note(f"Message {message.id} could not be released, and stays leased: {why}")
            return why
    message._finished = True
    return refusal


async def _reject(message: BoundMessage, error: Reject) -> SpoolrackError | None:
    """Reject a message; return why that was refused."""
    rejection = MessageRejection(receipt_of(message), error.reason)
    try:
        await message._queue._lease_batches.rejections.one(rejection, CLOSE_TIMEOUT)
    except StaleReceipt:
        raise
    except SpoolrackError as why:
        error.add_note(f"Message {message.id} could not be rejected, and is released: {why}")
        return why
    return None


def _release_after(
    message: BoundMessage, error: BaseException, backoff: Backoff | None
) -> MessageRelease:
    receipt = receipt_of(message)
    if not isinstance(error, Exception):
        return MessageRelease(receipt)
    retry = error if isinstance(error, Retry) else None
    delay = None if retry is None else retry.after
    if delay is None and backoff is not None:
        delay = backoff.delay(message.receive_count, message._queue._context.random)
    reason = _reason_of(error) if retry is None else retry.reason
    return MessageRelease(receipt, delay, reason, count=retry is None or retry.count)


def _reason_of(error: Exception) -> str:
    """Return the error as the reason of a release, whatever it says of itself."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # the exception of a program, which may have any `__str__`
        text = ""
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return named.encode(errors="backslashreplace").decode()[: arguments.MAX_REASON]


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


class StreamState:
    """A stream of messages, for threads or tasks."""

    def __init__(
        self, core: EnvelopeStream | SeveralStreams, queue: QueueHandle | SeveralQueues
    ) -> None:
        self._core = core
        self._queue = queue

    def ack(self, message: MessageFacts) -> None:
        """Delete a message without waiting for it; acks are batched. `message.ack()` is the same.

        `close` waits for them. An ack that fails is logged: its message comes again when the lease is
        over, and so does one whose program dies at once. `Message.delete` waits, and raises.
        """
        self._core.acks.add(Ack(receipt_of(message)))
        message._finished = True

    def _bind(self, envelope: Envelope) -> Any:
        return self._queue._message_type(envelope, self._queue, self._core.acks)

    def __del__(self) -> None:
        self._core.abandon()

    def __repr__(self) -> str:
        return f"<{type(self).__module__.rpartition('._')[0]}.MessageStream {self._core.describe()}>"


class MessageStream(StreamState, AsyncIterator[Message]):
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
