"""Messages of a queue's handle, for threads or tasks, streams of them, and the end of their leases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from .. import _arguments as arguments
from .._message_base import MessageFacts
from .._retry import Backoff, Reject, Retry
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
from .acks import CLOSE_TIMEOUT, Ack, Acks
from .queue_base import QueueBase
from .several_queues import SeveralQueues, SeveralStreams
from .stream import EnvelopeStream


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

    def __init__(self, envelope: Envelope, queue: QueueBase, acks: Acks | None = None) -> None:
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


class StreamBase:
    """A stream of messages, for threads or tasks."""

    def __init__(self, core: EnvelopeStream | SeveralStreams, queue: QueueBase | SeveralQueues) -> None:
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
