"""Conversion between messages and Arrow's columns, in both directions. Knows Arrow, and nothing of
Spark.

What can fail: a row that can't be a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp

from ..v1 import queue_pb2 as pb
from ._options import STATES
from ._rows import WRITTEN, Sized, as_bytes, message_of

Values: TypeAlias = Callable[[Sequence[pb.Message], str], list[Any]]
"""Of the messages of a queue, which is named."""
Column: TypeAlias = tuple[pa.DataType, str, Values]
_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_BYTES: Final = pa.map_(pa.string(), pa.binary())
_STATES: Final = {number: state for state, number in STATES.items()}


def _micros(times: Iterable[Timestamp]) -> list[int]:
    return [time.seconds * 1_000_000 + time.nanos // 1_000 for time in times]


Time: TypeAlias = Literal["first_receive_time", "deliver_time", "lease_expire_time"]


def _time_of(field: Time) -> Values:
    return lambda messages, _: [
        getattr(m, field).ToMicroseconds() if m.HasField(field) else None for m in messages
    ]


def _attributes(field: str) -> Values:
    """Return the attributes of one type of values: a map of Spark has no more."""
    return lambda messages, _: [_of_type(m, field) if m.attributes else () for m in messages]


def _of_type(message: pb.Message, field: str) -> list[tuple[str, str | bytes]]:
    return [
        (name, getattr(attribute, field))
        for name, attribute in sorted(message.attributes.items())
        if attribute.WhichOneof("value") == field
    ]


def _bodies(page: Sequence[pb.Message], _: str) -> list[bytes | None]:
    # One that has no place in memory is left out: it is in a file of its own.
    return [m.body if m.body or not m.body_size else None for m in page]


COLUMNS: Final[dict[str, Column]] = {
    "id": (pa.string(), "string", lambda page, _: [m.id for m in page]),
    "body": (pa.binary(), "binary", _bodies),
    "attributes": (_TEXTS, "map<string, string>", _attributes("string_value")),
    "sent_at": (_TIME, "timestamp", lambda page, _: _micros(m.send_time for m in page)),
    "receive_count": (pa.int32(), "int", lambda page, _: [m.receive_count for m in page]),
    "binary_attributes": (_BYTES, "map<string, binary>", _attributes("binary_value")),
    "group": (pa.string(), "string", lambda page, _: [m.group or None for m in page]),
    "priority": (pa.int32(), "int", lambda page, _: [m.priority for m in page]),
    "body_size": (pa.int64(), "bigint", lambda page, _: [m.body_size for m in page]),
    "state": (pa.string(), "string", lambda page, _: [_STATES.get(m.state) for m in page]),
    "first_received_at": (_TIME, "timestamp", _time_of("first_receive_time")),
    "deliver_at": (_TIME, "timestamp", _time_of("deliver_time")),
    "lease_expires_at": (_TIME, "timestamp", _time_of("lease_expire_time")),
    "queue": (pa.string(), "string", lambda page, queue: [queue] * len(page)),
}
"""The columns of a queue that is read, each with its type in Arrow, in Spark, and its values."""


def ddl(columns: Iterable[str]) -> str:
    """Return columns as Spark writes them."""
    return ", ".join(f"`{name}` {COLUMNS[name][1]}" for name in columns)


def record_batch(messages: Sequence[pb.Message], columns: Sequence[str], queue: str) -> pa.RecordBatch:
    """Return the messages of a queue as rows of these columns."""
    chosen = [COLUMNS[name] for name in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(values(messages, queue), kind) for kind, _, values in chosen], names=[*columns]
    )


def messages_of(batch: pa.RecordBatch, *, must_deduplicate: bool = False) -> Iterator[Sized]:
    """Return the rows of a batch whose columns are checked; raise `InvalidColumn` for a bad row."""
    names = batch.schema.names
    bodies = batch.column(names.index("body")).to_pylist()
    if len(names) == 1:
        for body in bodies:
            raw = as_bytes(body)
            yield pb.OutgoingMessage(body=raw), len(raw) + 8, None
        return
    columns = {name: batch.column(names.index(name)).to_pylist() for name in names}
    nothing = [None] * batch.num_rows
    rows = zip(*(columns.get(name, nothing) for name in WRITTEN), strict=True)
    for body, attributes, key, delay, *others in rows:
        yield message_of(body, attributes, key, delay, *others, must_deduplicate=must_deduplicate)
