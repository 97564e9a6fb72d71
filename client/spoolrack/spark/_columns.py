"""Conversion between messages and Arrow's columns, in both directions. Knows Arrow, and nothing of
Spark.

What can fail: a row that can't be a message.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from operator import sub
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from ..v1 import queue_pb2 as pb
from ._options import STATES
from ._rows import BYTES, MESSAGES, WRITTEN, Chunk, Sized, as_bytes, chunks, message_of


class Rows(NamedTuple):
    """Messages as they came: one, or several by column."""

    first: pb.Message
    length: int = 1
    columns: pb.MessageColumns | None = None

    @staticmethod
    def of(run: pb.MessageRun) -> Rows:
        if not run.HasField("columns"):
            return Rows(run.first)
        return Rows(run.first, len(run.columns.body_sizes), run.columns)


Values: TypeAlias = Callable[[Sequence[Rows], str], "list[Any] | pa.Array"]
"""Of the messages of a queue, which is named."""
Column: TypeAlias = tuple[pa.DataType, str, Values]
_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_BYTES: Final = pa.map_(pa.string(), pa.binary())
_STATES: Final = {number: state for state, number in STATES.items()}

Time: TypeAlias = Literal["send_time", "first_receive_time", "deliver_time", "lease_expire_time"]


def _same(value: Callable[[pb.Message], Any]) -> Values:
    """Return a value that all messages of a run have."""
    return lambda page, _: [each for rows in page for each in repeat(value(rows.first), rows.length)]


def _time(field: Time) -> Values:
    return _same(
        lambda first: getattr(first, field).ToMicroseconds() if first.HasField(field) else None
    )


def _ids(page: Sequence[Rows], _: str) -> list[str]:
    found: list[str] = []
    for rows in page:
        if rows.columns is None:
            found.append(rows.first.id)
            continue
        head, tail = rows.first.id[:24], int(rows.first.id[24:], 16)
        found += [f"{head}{number:012x}" for number in range(tail, tail + rows.length)]
    return found


def _attributes(field: str) -> Values:
    """Return the attributes of one type of values: a map of Spark has no more."""

    def values(page: Sequence[Rows], _: str) -> list[Any]:
        found: list[Any] = []
        for rows in page:
            if rows.columns is None:
                found.append(_of_type(rows.first.attributes, field))
                continue
            by_place = rows.columns.attributes
            if by_place:
                found += [
                    _of_type(by_place[place].by_name, field) if place in by_place else ()
                    for place in range(rows.length)
                ]
            else:
                found += repeat((), rows.length)
        return found

    return values


def _of_type(attributes: Mapping[str, pb.Attribute], field: str) -> list[tuple[str, str | bytes]]:
    return [
        (name, getattr(attribute, field))
        for name, attribute in sorted(attributes.items())
        if attribute.WhichOneof("value") == field
    ]


def _groups(page: Sequence[Rows], _: str) -> list[str | None]:
    found: list[str | None] = []
    for rows in page:
        if rows.columns is None:
            found.append(rows.first.group or None)
        else:
            groups = rows.columns.groups
            found += map(groups.get, range(rows.length)) if groups else repeat(None, rows.length)
    return found


def _body_sizes(page: Sequence[Rows], _: str) -> list[int]:
    found: list[int] = []
    for rows in page:
        found += [rows.first.body_size] if rows.columns is None else rows.columns.body_sizes
    return found


def _bodies(page: Sequence[Rows], _: str) -> list[bytes | None] | pa.Array:
    if any(rows.columns is None for rows in page):
        return list(_each_body(page))
    parts = [rows.columns.bodies for rows in page if rows.columns is not None]
    offsets = array("i", accumulate(_body_sizes(page, ""), initial=0))
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _each_body(page: Sequence[Rows]) -> Iterator[bytes | None]:
    for first, _, columns in page:
        if columns is None:
            # One that has no place in memory is left out: it is in a file of its own.
            yield first.body if first.body or not first.body_size else None
            continue
        end = 0
        for size in columns.body_sizes:
            begin, end = end, end + size
            yield columns.bodies[begin:end]


COLUMNS: Final[dict[str, Column]] = {
    "id": (pa.string(), "string", _ids),
    "body": (pa.binary(), "binary", _bodies),
    "attributes": (_TEXTS, "map<string, string>", _attributes("string_value")),
    "sent_at": (_TIME, "timestamp", _time("send_time")),
    "receive_count": (pa.int32(), "int", _same(lambda first: first.receive_count)),
    "binary_attributes": (_BYTES, "map<string, binary>", _attributes("binary_value")),
    "group": (pa.string(), "string", _groups),
    "priority": (pa.int32(), "int", _same(lambda first: first.priority)),
    "body_size": (pa.int64(), "bigint", _body_sizes),
    "state": (pa.string(), "string", _same(lambda first: _STATES.get(first.state))),
    "first_received_at": (_TIME, "timestamp", _time("first_receive_time")),
    "deliver_at": (_TIME, "timestamp", _time("deliver_time")),
    "lease_expires_at": (_TIME, "timestamp", _time("lease_expire_time")),
    "queue": (pa.string(), "string", lambda page, queue: [queue] * sum(rows.length for rows in page)),
}
"""The columns of a queue that is read, each with its type in Arrow, in Spark, and its values."""


def ddl(columns: Iterable[str]) -> str:
    """Return columns as Spark writes them."""
    return ", ".join(f"`{name}` {COLUMNS[name][1]}" for name in columns)


def record_batch(page: Sequence[Rows], columns: Sequence[str], queue: str) -> pa.RecordBatch:
    """Return the messages of a queue as rows of these columns."""
    arrays = []
    for kind, _, values in map(COLUMNS.__getitem__, columns):
        found = values(page, queue)
        arrays.append(pa.array(found, kind) if isinstance(found, list) else found)
    return pa.RecordBatch.from_arrays(arrays, names=[*columns])


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """Yield the rows of batches, which have the same columns and are checked, as the chunks of a stage;
    raise `InvalidColumn` for a bad row."""
    rest = iter(batches)
    for batch in rest:
        if batch.schema.names == ["body"]:
            for each in chain([batch], rest):
                yield from _body_chunks(each.column(0))
        else:
            rows = (row for each in chain([batch], rest) for row in messages_of(each))
            yield from chunks(rows, is_staged=True)


def _body_chunks(bodies: pa.Array) -> Iterator[pb.MessageColumns]:
    """Yield rows of bodies alone, which are never looked at one by one: a chunk's are one buffer."""
    if bodies.null_count:
        as_bytes(None)
    bodies = bodies.cast(pa.large_binary())
    _, offsets, buffer = bodies.buffers()
    starts = memoryview(offsets).cast("q")[bodies.offset : bodies.offset + len(bodies) + 1]
    data = memoryview(b"" if buffer is None else buffer)
    begin = 0
    while begin < len(bodies):
        most = min(begin + MESSAGES, len(bodies))
        end = max(begin + 1, bisect_right(starts, starts[begin] + BYTES, begin, most + 1) - 1)
        yield pb.MessageColumns(
            bodies=bytes(data[starts[begin] : starts[end]]),
            body_sizes=map(sub, starts[begin + 1 : end + 1], starts[begin:end]),
        )
        begin = end


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
