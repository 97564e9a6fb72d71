"""Between messages and Arrow's columns, in both directions. Knows Arrow, and nothing of Spark.

What can fail: a row that can't be a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ..v1 import queue_pb2 as pb
from ._rows import WRITTEN, Sized, as_bytes, message_of

READ: Final = (
    "id string, body binary, attributes map<string, string>, sent_at timestamp, receive_count int, "
    "binary_attributes map<string, binary>"
)
"""The columns of a queue that is read, as Spark writes them."""
READ_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("body", pa.binary()),
        pa.field("attributes", pa.map_(pa.string(), pa.string())),
        pa.field("sent_at", pa.timestamp("us", tz="UTC")),
        pa.field("receive_count", pa.int32()),
        pa.field("binary_attributes", pa.map_(pa.string(), pa.binary())),
    ]
)


def record_batch(messages: Sequence[pb.Message]) -> pa.RecordBatch:
    """The messages as rows of `READ_SCHEMA`."""
    sent = [m.send_time.seconds * 1_000_000 + m.send_time.nanos // 1_000 for m in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([m.id for m in messages], pa.string()),
            pa.array([m.body for m in messages], pa.binary()),
            _attributes(messages, "string_value", READ_SCHEMA.types[2]),
            pa.array(sent, READ_SCHEMA.types[3]),
            pa.array([m.receive_count for m in messages], pa.int32()),
            _attributes(messages, "binary_value", READ_SCHEMA.types[5]),
        ],
        schema=READ_SCHEMA,
    )


def _attributes(messages: Sequence[pb.Message], field: str, kind: pa.DataType) -> pa.Array:
    """Return the attributes of one type of values: a map of Spark has no more."""
    return pa.array([_of_type(m, field) if m.attributes else () for m in messages], kind)


def _of_type(message: pb.Message, field: str) -> list[tuple[str, str | bytes]]:
    return [
        (name, getattr(attribute, field))
        for name, attribute in sorted(message.attributes.items())
        if attribute.WhichOneof("value") == field
    ]


def messages_of(batch: pa.RecordBatch, *, must_deduplicate: bool = False) -> Iterator[Sized]:
    """The rows of a batch whose columns are checked; raises `InvalidColumn` for a bad row."""
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
    for body, attributes, key, delay, binary in rows:
        yield message_of(body, attributes, key, delay, binary, must_deduplicate=must_deduplicate)
