"""Messages with what can be done with them, and the stream of them.

The functions serve `spoolrack.Message` too, which differs only in how it is called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .. import _arguments as arguments
from .._message import MessageFacts
from .._retry import Backoff, Retry
from .._stream import LAST_WORDS, EnvelopeStream
from .._values import Envelope, LastReceive, Seconds
from ..errors import InvalidReceipt, SpoolrackError, StaleReceipt

if TYPE_CHECKING:
    from ._queue import Queue


def receipt_of(message: MessageFacts | str) -> str:
    """The receipt of a message, or the one given; raises `InvalidReceipt` for a message without."""
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
    """The receive that a message came with, if its lease may be over."""
    if not allow_expired:
        return None
    if not isinstance(message, MessageFacts):
        raise arguments.refusal(
            "what allow_expired goes with", message, "a received message, not its receipt alone"
        )
    return LastReceive(message.receive_count, message._envelope.first_receive_ms or 0)


def ack_message(stream: EnvelopeStream, message: MessageFacts) -> None:
    stream.ack(receipt_of(message))
    message._settled = True


async def delete_message(
    queue: Queue, message: MessageFacts, timeout: Seconds | None, *, allow_expired: bool = False
) -> None:
    await queue.delete(message, allow_expired=allow_expired, timeout=timeout)
    message._settled = True


async def release_message(
    queue: Queue, message: MessageFacts, delay: Seconds, timeout: Seconds | None
) -> None:
    await queue.release(message, delay=delay, timeout=timeout)
    message._settled = True


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


async def settle_message(
    queue: Queue, message: MessageFacts, error: BaseException | None, backoff: Backoff
) -> None:
    """Delete a message after a success, release it with a delay after a failure.

    Nothing, if the block deleted or released it. An end of the program or its task is no failure of
    the block: the message is released at once.
    """
    if message._settled:
        return
    if error is None:
        await delete_message(queue, message, None)
        return
    try:
        delay = _delay_after(error, message, backoff, queue._calling.random)
        await release_message(queue, message, delay, LAST_WORDS)
    except StaleReceipt:
        message._settled = True  # It is ready, or another consumer's, as a release would have it.
    except SpoolrackError as why:
        # The program's own error matters more, and must pass.
        error.add_note(f"Message {message.id} could not be given back, and stays leased: {why}")


def _delay_after(
    error: BaseException, message: MessageFacts, backoff: Backoff, random: Random
) -> float:
    if isinstance(error, Retry) and error.after is not None:
        return error.after
    if isinstance(error, Exception):
        return backoff.delay(message.receive_count, random)
    return 0.0


class Message(MessageFacts):
    """A message with the queue that it came from.

    With `async with` it is deleted when the block succeeds, and released with the delay of the default
    `Backoff`, or of a `Retry(after=...)`, when it raises; nothing more is done if the block deleted
    or released it itself. If the lease was lost meanwhile, the end of a successful
    block raises `StaleReceipt`: the message was, or will be, delivered again.
    """

    __slots__ = ("_queue",)

    def __init__(self, envelope: Envelope, queue: Queue) -> None:
        super().__init__(envelope, queue.name)
        self._queue = queue

    @property
    def queue(self) -> Queue:
        return self._queue

    async def delete(self, *, allow_expired: bool = False, timeout: Seconds | None = None) -> None:
        """Delete the message for good: see `spoolrack.Message.delete`."""
        await delete_message(self._queue, self, timeout, allow_expired=allow_expired)

    async def release(self, *, delay: Seconds = 0.0, timeout: Seconds | None = None) -> None:
        """End the lease: see `spoolrack.Message.release`."""
        await release_message(self._queue, self, delay, timeout)

    async def extend(
        self, seconds: Seconds, *, allow_expired: bool = False, timeout: Seconds | None = None
    ) -> datetime:
        """Let the lease end so long after now; returns the moment: see `spoolrack.Message.extend`."""
        return await extend_message(self._queue, self, seconds, timeout, allow_expired=allow_expired)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await settle_message(self._queue, self, error, Backoff())


class MessageStream(AsyncIterator[Message]):
    """A queue's messages as they come; `queue.messages()` makes one. Close it, or use `async with`.

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
        """Up to so many messages of those that have come: see `spoolrack.MessageStream.receive`."""
        envelopes = await self._core.receive(max_messages, wait)
        return [Message(envelope, self._queue) for envelope in envelopes]

    def ack(self, message: Message) -> None:
        """Delete a message without waiting for it: see `spoolrack.MessageStream.ack`."""
        ack_message(self._core, message)

    async def close(self) -> None:
        """Wait for acks, end the stream, and release the messages that it holds and has not handed
        out."""
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
