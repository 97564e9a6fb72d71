"""Messages with their operations, and the stream of them.

The functions serve `spoolrack.Message` too, which differs only in how it is called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .. import _arguments as arguments
from .._acks import CLOSE_TIMEOUT, Ack
from .._message_base import MessageFacts
from .._retry import Backoff, Reject, Retry
from .._stream import EnvelopeStream
from .._values import Envelope, LastReceive, Seconds
from ..errors import InvalidReceipt, SpoolrackError, StaleReceipt

if TYPE_CHECKING:
    from ._queue import Queue


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


def last_receive_of(message: MessageFacts | str, *, allow_expired: bool) -> LastReceive | None:
    """Return the receive that a message came with, if its lease may be over."""
    if not allow_expired:
        return None
    if not isinstance(message, MessageFacts):
        raise arguments.refusal(
            "the message of allow_expired", message, "a received message, not its receipt alone"
        )
    return LastReceive(message.receive_count, message._envelope.first_receive_ms or 0)


def ack_message(stream: EnvelopeStream, message: MessageFacts) -> None:
    stream.acks.add(Ack(receipt_of(message)))
    message._finished = True


async def delete_message(
    queue: Queue, message: MessageFacts, timeout: Seconds | None, *, allow_expired: bool = False
) -> None:
    await queue.delete(message, allow_expired=allow_expired, timeout=timeout)
    message._finished = True


async def release_message(
    queue: Queue,
    message: MessageFacts,
    delay: Seconds | None,
    reason: str,
    count: bool,
    timeout: Seconds | None,
) -> None:
    await queue.release(message, delay=delay, reason=reason, count=count, timeout=timeout)
    message._finished = True


async def reject_message(
    queue: Queue, message: MessageFacts, reason: str, timeout: Seconds | None
) -> None:
    await queue.reject(message, reason, timeout=timeout)
    message._finished = True


async def extend_message(
    queue: Queue,
    message: MessageFacts,
    seconds: Seconds,
    timeout: Seconds | None,
    *,
    allow_expired: bool = False,
) -> datetime:
    message._lease_expires_at = end = await queue.extend(
        message, seconds, allow_expired=allow_expired, timeout=timeout
    )
    return end


async def finish_message(
    queue: Queue, message: MessageFacts, error: BaseException | None, backoff: Backoff | None
) -> SpoolrackError | None:
    """Delete a message after a success; after a failure release it with a delay, or reject it.

    Nothing, if the block deleted or released it. An end of the program or its task is no failure of
    the block: the message is released at once. Return why a message that was to be rejected wasn't.
    """
    if message._finished:
        return None
    if error is None:
        await delete_message(queue, message, None)
        return None
    refusal: SpoolrackError | None = None
    try:
        if isinstance(error, Reject):
            try:
                await reject_message(queue, message, error.reason, CLOSE_TIMEOUT)
                return None
            except StaleReceipt:
                raise
            except SpoolrackError as why:
                error.add_note(f"Message {message.id} could not be rejected, and is released: {why}")
                refusal = why
        await _release_after(queue, message, error, backoff)
    except StaleReceipt:
        message._finished = True  # It is ready, or another consumer's, as a release would have it.
    except SpoolrackError as why:
        # The program's own error matters more, and must pass.
        error.add_note(f"Message {message.id} could not be released, and stays leased: {why}")
    return refusal


async def _release_after(
    queue: Queue, message: MessageFacts, error: BaseException, backoff: Backoff | None
) -> None:
    if not isinstance(error, Exception):
        await release_message(queue, message, 0.0, "", True, CLOSE_TIMEOUT)
        return
    retry = error if isinstance(error, Retry) else None
    delay = None if retry is None else retry.after
    if delay is None and backoff is not None:
        delay = backoff.delay(message.receive_count, queue._context.random)
    reason = _reason_of(error) if retry is None else retry.reason
    count = retry is None or retry.count
    await release_message(queue, message, delay, reason, count, CLOSE_TIMEOUT)


def _reason_of(error: Exception) -> str:
    """Return the error as the reason of a release, whatever it says of itself."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # the exception of a program, which may have any `__str__`
        text = ""
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return named.encode(errors="backslashreplace").decode()[: arguments.MAX_REASON]


class Message(MessageFacts):
    """A message with the queue that it came from.

    With `async with` it is deleted when the block succeeds. When the block raises, it is released
    with the delay of the queue's back-off, or of a `Retry(after=...)`; a `Reject` makes it a dead
    letter. Nothing more is done if the block deleted, released or rejected it itself. If the lease was
    lost meanwhile, the end of a successful block raises `StaleReceipt`: the message was, or will be,
    delivered again.
    """

    __slots__ = ("_queue",)

    def __init__(self, envelope: Envelope, queue: Queue) -> None:
        super().__init__(envelope, queue._name)
        self._queue = queue

    @property
    def queue(self) -> Queue:
        """A handle on the queue that the message came from."""
        return self._queue

    async def delete(self, *, allow_expired: bool = False, timeout: Seconds | None = None) -> None:
        """Delete the message for good: see `spoolrack.Message.delete`."""
        await delete_message(self._queue, self, timeout, allow_expired=allow_expired)

    async def release(
        self,
        *,
        delay: Seconds | None = 0.0,
        reason: str = "",
        count: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """End the lease: see `spoolrack.Message.release`."""
        await release_message(self._queue, self, delay, reason, count, timeout)

    async def reject(self, reason: str = "", *, timeout: Seconds | None = None) -> None:
        """Make the message a dead letter at once: see `spoolrack.Message.reject`."""
        await reject_message(self._queue, self, reason, timeout)

    async def extend(
        self, seconds: Seconds, *, allow_expired: bool = False, timeout: Seconds | None = None
    ) -> datetime:
        """Extend the lease; return its new end: see `spoolrack.Message.extend`."""
        return await extend_message(self._queue, self, seconds, timeout, allow_expired=allow_expired)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish_message(self._queue, self, error, None)


class MessageStream(AsyncIterator[Message]):
    """A queue's messages as they arrive; `queue.messages()` makes one. Close it, or use `async with`.

    May be shared: each message goes to one of the tasks that iterate. Ends when it is closed.
    """

    def __init__(self, core: EnvelopeStream, queue: Queue) -> None:
        self._core = core
        self._queue = queue

    async def __anext__(self) -> Message:
        envelope = await self._core.next()
        if envelope is None:
            raise StopAsyncIteration
        return Message(envelope, self._queue)

    async def receive(self, max_messages: int = 1, *, wait: Seconds | None = None) -> list[Message]:
        """Return up to `max_messages` messages that have arrived: see
        `spoolrack.MessageStream.receive`."""
        envelopes = await self._core.receive(max_messages, wait)
        return [Message(envelope, self._queue) for envelope in envelopes]

    def ack(self, message: Message) -> None:
        """Delete a message without waiting for it: see `spoolrack.MessageStream.ack`."""
        ack_message(self._core, message)

    async def close(self) -> None:
        """Wait for acks, end the stream, and release the messages that wait in it."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        self._core.abandon()

    def __repr__(self) -> str:
        return f"<spoolrack.aio.MessageStream {self._core.describe()}>"
