"""Messages on their way out: made fit for the wire, and divided into calls.

Pure, but that a message takes along the trace in which it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from . import tracing
from .values import MAX_BATCH, MAX_BATCH_BYTES, Outgoing, body_of, seconds_of

Item = TypeVar("Item")


def outgoing_of(message: bytes | str | Outgoing) -> Outgoing:
    """A message with a body of bytes and a delay in seconds; raises `TypeError` for other kinds."""
    if not isinstance(message, Outgoing):
        return Outgoing(body=body_of(message), attributes=tracing.traced({}))
    for name, value in message.attributes.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise TypeError(
                f"the attribute {name!r} must be str or bytes, not {type(value).__name__}: encode it"
            )
    if not isinstance(message.deduplication_id, str):
        raise TypeError(
            f"a deduplication_id must be str, not {type(message.deduplication_id).__name__}: encode it"
        )
    return Outgoing(
        body=body_of(message.body),
        attributes=tracing.traced(message.attributes),
        delay=None if message.delay is None else seconds_of(message.delay),
        deduplication_id=message.deduplication_id,
    )


def size_of(message: Outgoing) -> int:
    """Bytes of body and attributes; for text of other than ASCII a little less."""
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
    """The items in calls of bounded count and size; a larger item goes alone."""
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
