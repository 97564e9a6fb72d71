"""Conversion between messages and Arrow's columns, in both directions. Knows Arrow, and nothing of
Spark.

What can fail: a row that can't be a message.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from operator import sub
from typing import Any, Final, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..v1 import columns_pb2
from ..v1 import queue_pb2 as pb
from ._options import STATES
from ._rows import BYTES, MESSAGES, WRITTEN, Chunk, InvalidColumn, Sized, as_bytes, chunks, message_of

TIME: Final = pa.timestamp("us", tz="UTC")
TEXTS: Final = pa.map_(pa.string(), pa.string())
BINARIES: Final = pa.map_(pa.string(), pa.binary())
_IN_SPARK: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    TIME: "timestamp",
}
_STATES: Final = {number: state for state, number in STATES.items()}


class Run(Protocol):
    """Messages that follow each other in a page, and are alike in many columns."""

    @property
    def length(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Column:
    kind: pa.DataType
    values: Callable[[Sequence[Any]], pa.Array]
    """Its values for a page, which is a sequence of runs."""
    is_alike: bool = False
    """Whether there is one of them for each run, not for each message."""


def alike(kind: pa.DataType, value: Callable[[Any], Any]) -> Column:
    """Return a column with one `value` for all messages of a run."""
    return Column(kind, lambda page: pa.array([value(run) for run in page], kind), is_alike=True)


def apart(kind: pa.DataType, values: Callable[[Any], Iterable[Any]]) -> Column:
    """Return a column with a value for each message: `values` are those of a run."""
    return Column(kind, lambda page: pa.array([*chain.from_iterable(map(values, page))], kind))


def ddl(names: Iterable[str], table: Mapping[str, Column]) -> str:
    """Return columns as Spark writes them."""
    return ", ".join(f"`{name}` {in_spark(table[name].kind)}" for name in names)


def in_spark(kind: pa.DataType) -> str:
    """Return the type of Spark for a type of Arrow."""
    if pa.types.is_map(kind):
        return f"map<{in_spark(kind.key_type)}, {in_spark(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{in_spark(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {in_spark(field.type)}' for field in kind)}>"
    return _IN_SPARK[kind]


def record_batch(
    page: Sequence[Run], names: Sequence[str], table: Mapping[str, Column]
) -> pa.RecordBatch:
    """Return the messages of a page as rows of these columns."""
    ends = [*accumulate(run.length for run in page)]
    has_runs = bool(ends) and ends[-1] != len(page)
    arrays = []
    for column in map(table.__getitem__, names):
        values = column.values(page)
        if has_runs and column.is_alike:
            runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)
            values = pc.run_end_decode(runs)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, names=[*names])


class Rows(NamedTuple):
    """Messages of a queue as they came: one, or several by column."""

    queue: str
    first: pb.Message
    length: int = 1
    columns: columns_pb2.MessageColumns | None = None

    @staticmethod
    def of(queue: str, run: columns_pb2.MessageRun) -> Rows:
        if not run.HasField("columns"):
            return Rows(queue, run.first)
        return Rows(queue, run.first, len(run.columns.body_sizes), run.columns)


def _time(field: Literal["send", "first_receive", "deliver", "lease_expire"]) -> Column:
    name = f"{field}_time"
    return alike(
        TIME,
        lambda rows: getattr(rows.first, name).ToMicroseconds() if rows.first.HasField(name) else None,
    )


def _ids(rows: Rows) -> Sequence[str]:
    if rows.columns is None:
        return (rows.first.id,)
    head, tail = rows.first.id[:24], int(rows.first.id[24:], 16)
    return [f"{head}{number:012x}" for number in range(tail, tail + rows.length)]


def _attributes(kind: pa.DataType, field: str) -> Column:
    """Return the attributes of one type of values: a map of Spark has no more."""

    def of_type(attributes: Mapping[str, pb.Attribute]) -> list[tuple[str, str | bytes]]:
        return [
            (name, getattr(attribute, field))
            for name, attribute in sorted(attributes.items())
            if attribute.WhichOneof("value") == field
        ]

    def values(rows: Rows) -> Iterable[Any]:
        if rows.columns is None:
            return (of_type(rows.first.attributes),)
        by_place = rows.columns.attributes
        if not by_place:
            return repeat((), rows.length)
        return (
            of_type(by_place[place].by_name) if place in by_place else ()
            for place in range(rows.length)
        )

    return apart(kind, values)


def _groups(rows: Rows) -> Iterable[str | None]:
    if rows.columns is None:
        return (rows.first.group or None,)
    groups = rows.columns.groups
    return map(groups.get, range(rows.length)) if groups else repeat(None, rows.length)


def _body_sizes(rows: Rows) -> Sequence[int]:
    return (rows.first.body_size,) if rows.columns is None else rows.columns.body_sizes


def _bodies(page: Sequence[Rows]) -> pa.Array:
    if any(rows.columns is None for rows in page):
        return pa.array([*chain.from_iterable(map(_each_body, page))], pa.binary())
    parts = [rows.columns.bodies for rows in page if rows.columns is not None]
    sizes = chain.from_iterable(map(_body_sizes, page))
    offsets = array("i", accumulate(sizes, initial=0))
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _each_body(rows: Rows) -> Iterator[bytes | None]:
    if rows.columns is None:
        # One that has no place in memory is left out: it is in a file of its own.
        yield rows.first.body if rows.first.body or not rows.first.body_size else None
        return
    end = 0
    for size in rows.columns.body_sizes:
        begin, end = end, end + size
        yield rows.columns.bodies[begin:end]


COLUMNS: Final[dict[str, Column]] = {
    "id": apart(pa.string(), _ids),
    "body": Column(pa.binary(), _bodies),
    "attributes": _attributes(TEXTS, "string_value"),
    "sent_at": _time("send"),
    "receive_count": alike(pa.int32(), lambda rows: rows.first.receive_count),
    "binary_attributes": _attributes(BINARIES, "binary_value"),
    "group": apart(pa.string(), _groups),
    "priority": alike(pa.int32(), lambda rows: rows.first.priority),
    "body_size": apart(pa.int64(), _body_sizes),
    "state": alike(pa.string(), lambda rows: _STATES.get(rows.first.state)),
    "first_received_at": _time("first_receive"),
    "deliver_at": _time("deliver"),
    "lease_expires_at": _time("lease_expire"),
    "queue": alike(pa.string(), lambda rows: rows.queue),
}
"""The columns of a queue that is read."""

TEXT_COLUMNS: Final = {
    **COLUMNS,
    "body": Column(pa.string(), lambda page: _bodies(page).view(pa.string())),
}
"""The same, with bodies as Spark casts them to strings: not checked."""


def only_written(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that are written; raise `InvalidColumn` unless the others are null."""
    names = [name for name in batch.schema.names if name in WRITTEN]
    for name in batch.schema.names:
        if name not in names and batch.column(name).null_count < batch.num_rows:
            raise InvalidColumn(
                f"The column {name} is only read: it must be null in rows that are written."
            )
    return batch.select(names)


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


def _body_chunks(bodies: pa.Array) -> Iterator[columns_pb2.MessageColumns]:
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
        yield columns_pb2.MessageColumns(
            bodies=bytes(data[starts[begin] : starts[end]]),
            body_sizes=map(sub, starts[begin + 1 : end + 1], starts[begin:end]),
        )
        begin = end


def messages_of(batch: pa.RecordBatch, *, must_deduplicate: bool = False) -> Iterator[Sized]:
    """Return the rows of a batch whose columns are checked; raise `InvalidColumn` for a bad row."""
    names, nothing = batch.schema.names, [None] * batch.num_rows
    columns = [batch.column(name).to_pylist() if name in names else nothing for name in WRITTEN]
    if names == ["body"]:
        for body in columns[0]:
            raw = as_bytes(body)
            yield pb.OutgoingMessage(body=raw), len(raw) + 8, None
    else:
        for row in zip(*columns, strict=True):
            yield message_of(*row, must_deduplicate=must_deduplicate)
