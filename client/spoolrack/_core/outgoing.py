"""Outgoing messages: validation, and division into calls.

Pure, but for the trace context that a message gets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from datetime import datetime
from typing import TypeVar

from .. import _arguments as arguments
from .. import tracing
from .._values import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_PRIORITY,
    Attributes,
    Outgoing,
    Seconds,
    SendOptions,
)

Item = TypeVar("Item")


def outgoing_of(message: bytes | str | Outgoing) -> Outgoing:
    """Return a message with a body of bytes and a delay in seconds; raise `InvalidRequest`."""
    if not isinstance(message, Outgoing):
        return Outgoing(body=arguments.body("a message", message), attributes=tracing.traced({}))
    return outgoing(
        message.body,
        attributes=message.attributes,
        delay=message.delay,
        deliver_at=message.deliver_at,
        deduplication_id=message.deduplication_id,
        group=message.group,
        priority=message.priority,
    )


def outgoing(
    body: bytes | str,
    *,
    attributes: Attributes | None = None,
    delay: Seconds | None = None,
    deliver_at: datetime | None = None,
    deduplication_id: str = "",
    group: str = "",
    priority: int = 0,
    **unknown: object,
) -> Outgoing:
    """Return such a message; raise `InvalidRequest`. Defaults are not checked."""
    if unknown:
        arguments.check_options(unknown, SendOptions)
    if attributes is None:
        attributes = {}
    elif attributes or type(attributes) is not dict:
        arguments.attributes(attributes)
    return Outgoing(
        body=body if type(body) is bytes else arguments.body("body", body),
        attributes=attributes if tracing.API not in sys.modules else tracing.traced(attributes),
        delay=None if delay is None else arguments.span("delay", delay),
        deliver_at=None if deliver_at is None else arguments.optional_moment("deliver_at", deliver_at),
        deduplication_id=deduplication_id
        if deduplication_id == ""
        else arguments.text("deduplication_id", deduplication_id),
        group=group if group == "" else arguments.text("group", group),
        priority=priority
        if priority == 0 and type(priority) is int
        else arguments.integer("priority", priority, most=MAX_PRIORITY),
    )


def outgoing_of_all(messages: Iterable[bytes | str | Outgoing]) -> Iterable[Outgoing]:
    """Convert many messages as `outgoing_of` does. A list is checked as a whole before anything of it
    is sent; any other iterable is checked message by message."""
    found = map(outgoing_of, arguments.some("messages", messages, "bytes, str or Outgoing"))
    return list(found) if isinstance(messages, Sized) else found


def size_of(message: Outgoing) -> int:
    """Return the bytes of body and attributes; for text outside ASCII a little less."""
    size = len(message.body)
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
    chunk_size = 0
    for item in items:
        size = size_of(item)
        if chunk and (len(chunk) >= max_batch or chunk_size + size > max_bytes):
            yield chunk
            chunk, chunk_size = [], 0
        chunk.append(item)
        chunk_size += size
    if chunk:
        yield chunk
