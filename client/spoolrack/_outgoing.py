"""Outgoing messages: validation, and division into calls.

Pure, but for the trace context that a message gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar, cast

from . import _arguments as arguments
from . import tracing
from ._values import MAX_BATCH, MAX_BATCH_BYTES, MAX_PRIORITY, Outgoing

Item = TypeVar("Item")


def outgoing_of(message: bytes | str | Outgoing) -> Outgoing:
    """Return a message with a body of bytes and a delay in seconds; raise `InvalidRequest`."""
    if not isinstance(message, Outgoing):
        return Outgoing(body=arguments.body("a message", message), attributes=tracing.traced({}))
    arguments.attributes(message.attributes)
    return Outgoing(
        body=arguments.body("body", message.body),
        attributes=tracing.traced(message.attributes),
        delay=arguments.optional_span("delay", message.delay),
        deliver_at=arguments.optional_moment("deliver_at", message.deliver_at),
        deduplication_id=arguments.text("deduplication_id", message.deduplication_id),
        group=arguments.text("group", message.group),
        priority=arguments.integer("priority", message.priority, most=MAX_PRIORITY),
    )


def outgoing_of_all(messages: Iterable[bytes | str | Outgoing]) -> Iterable[Outgoing]:
    """Convert many messages as `outgoing_of` does. A list is checked as a whole before anything of it
    is sent; any other iterable is checked message by message."""
    found = map(outgoing_of, arguments.some("messages", messages, "bytes, str or Outgoing"))
    return list(found) if isinstance(messages, Sized) else found


def size_of(message: Outgoing) -> int:
    """Return the bytes of body and attributes; for text outside ASCII a little less."""
    size = len(cast(bytes, message.body))
    for name, value in message.attributes.items():
        size += len(name) + len(value)
    return size


def chunks_of(
    items: Iterable[Item],
    size_of: Callable[[Item], int],
    *,
    max_batch: int = MAX_BATCH,
    max_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[list[Item]]:
    """Cut items into calls of bounded count and size; a larger item is a call alone."""
    chunk: list[Item] = []
    held = 0
    for item in items:
        size = size_of(item)
        if chunk and (len(chunk) >= max_batch or held + size > max_bytes):
            yield chunk
            chunk, held = [], 0
        chunk.append(item)
        held += size
    if chunk:
        yield chunk
