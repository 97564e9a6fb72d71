"""Conversion of rows to messages, and of messages to requests of a good size. Knows nothing of Spark or
Arrow.

What can fail: a row that can't be a message, or columns that are none of ours, are an `InvalidColumn`
that says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from .._transports.grpc_values import duration
from ..errors import InvalidRequest
from ..v1 import columns_pb2
from ..v1 import queue_pb2 as pb

WRITTEN: Final = (
    *("body", "attributes", "deduplication_id", "delay_seconds", "binary_attributes"),
    *("group", "priority"),
)
"""The columns of what is written; the first is required."""

Sized: TypeAlias = tuple[pb.OutgoingMessage, int, float | None]
"""A message, about how many bytes it has, and its delay in seconds where it has one."""
Chunk: TypeAlias = columns_pb2.MessageColumns | list[pb.OutgoingMessage]
"""The messages of one request."""

MESSAGES: Final = 1_000
"""The contract's most for one request."""
BYTES: Final = 1024 * 1024
"""About as many bytes in one request: more doesn't make it faster."""
OPEN: Final = 64
"""Chunks of a delay and a priority that are gathered at once; beyond it the fullest goes."""


class InvalidColumn(InvalidRequest, ValueError):
    """The rows can't be written as messages."""


def check_columns(
    names: Iterable[str], *, may_deduplicate: bool, must_deduplicate: bool = False
) -> None:
    """Raise `InvalidColumn` for columns that can't be part of a message."""
    columns = list(names)
    if others := [name for name in columns if name not in WRITTEN]:
        raise InvalidColumn(
            f"The columns {', '.join(others)} can't be written: a queue takes {', '.join(WRITTEN)}. "
            "Select these, or put the others into the body: to_json(struct(...)) AS body."
        )
    if "body" not in columns:
        raise InvalidColumn("The column body is missing: it is what is sent, as binary or string.")
    if "deduplication_id" in columns and not may_deduplicate:
        raise InvalidColumn(
            "The column deduplication_id goes with .option('mode', 'direct'), which sends each row by "
            "itself. Without it all rows of a batch appear together and once, and need no ids."
        )
    if "deduplication_id" not in columns and must_deduplicate:
        raise InvalidColumn(
            "mode 'direct' needs the column deduplication_id, by which a row that comes twice is known."
        )


def message_of(
    body: Any,
    attributes: Any = None,
    key: Any = None,
    delay: Any = None,
    binary: Any = None,
    group: Any = None,
    priority: Any = None,
    *,
    must_deduplicate: bool = False,
) -> Sized:
    """Return one row, the values of `WRITTEN`, as a message. `attributes` and the `binary` ones are
    mappings, or pairs as Arrow gives them; a name may be in one of them."""
    raw = as_bytes(body)
    message = pb.OutgoingMessage(body=raw)
    size = len(raw) + 8
    for given in (attributes, binary):
        for name, value in given.items() if isinstance(given, Mapping) else given or ():
            if name in message.attributes:
                raise InvalidColumn(
                    f"The attribute {name!r} is in attributes and in binary_attributes: a message has "
                    "one value for a name."
                )
            if isinstance(value, str):
                message.attributes[name].string_value = value
            elif isinstance(value, bytes | bytearray):
                message.attributes[name].binary_value = bytes(value)
            else:
                raise InvalidColumn(f"The attribute {name!r} is {value!r}: it must be text or bytes.")
            size += len(name) + len(value) + 12
    if key:
        message.deduplication_id = key
        size += len(key) + 4
    elif must_deduplicate:
        raise InvalidColumn(
            f"A row has no deduplication_id, and mode 'direct' needs one. Its body: {raw[:80]!r}"
        )
    if group:
        message.group = group
        size += len(group) + 4
    if priority:
        if not 0 <= priority <= 9:
            raise InvalidColumn(f"priority is {priority}: it must be from 0 to 9.")
        message.priority = priority
        size += 2
    seconds = None if delay is None else float(delay)
    if seconds is not None:
        if not 0 <= seconds <= 365 * 86_400:
            raise InvalidColumn(f"delay_seconds is {delay}: it must be from 0 to 365 days.")
        message.delay.CopyFrom(duration(seconds))
        size += 12
    return message, size, seconds


def as_bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise InvalidColumn(f"A row's body is {body!r}: it must be binary or a string, and not null.")


def chunks(messages: Iterable[Sized], *, is_staged: bool) -> Iterator[list[pb.OutgoingMessage]]:
    """Yield the messages in groups, in their order within each group.

    A chunk of a stage has one delay and one priority.
    """
    gathered: dict[tuple[float | None, int], list[pb.OutgoingMessage]] = {}
    sizes: dict[tuple[float | None, int], int] = {}
    for message, size, delay in messages:
        key = (delay, message.priority) if is_staged else (None, 0)
        group = gathered.get(key)
        if group is None:
            if len(gathered) >= OPEN:
                fullest = max(gathered, key=lambda one: len(gathered[one]))
                yield gathered.pop(fullest)
            group = gathered[key] = []
            sizes[key] = 0
        elif len(group) >= MESSAGES or sizes[key] + size > BYTES:
            yield group
            group = gathered[key] = []
            sizes[key] = 0
        group.append(message)
        sizes[key] += size
    yield from gathered.values()
