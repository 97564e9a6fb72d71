"""Writes partitions by hand: a function for `foreachPartition`, and one for `mapInArrow`.

Rows are sent as they come: at least once, because Spark repeats tasks; once with a `deduplication_id`
of the user's own in each row, within the queue's window. All or nothing is the data source's. What can
fail: as with `_row_sender`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ._light_client import Caller, Patience
from ._options import Place, place_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ._row_sender import Counts
    from ._rows import Sized

COUNTS: Final = "sent long, duplicates long"
"""The schema of what `write_batches` answers, for `mapInArrow`."""


@dataclass(frozen=True, slots=True)
class PartitionWriter:
    """For `foreachPartition` and `rdd.mapPartitions`: rows in, one `Counts` out."""

    place: Place

    def __call__(self, rows: Iterable[Any]) -> list[Counts]:
        from ._row_sender import send

        return [send(_caller(self.place), self.place, map(_message, rows))]


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """For `mapInArrow`: record batches in, one row of `COUNTS` out."""

    place: Place

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from ._columns import messages_of
        from ._row_sender import send
        from ._rows import check_columns

        def messages() -> Iterator[Sized]:
            for batch in batches:
                check_columns(batch.schema.names, may_deduplicate=True)
                yield from messages_of(batch)

        counts = send(_caller(self.place), self.place, messages())
        yield pa.RecordBatch.from_pydict(
            {"sent": [counts.sent], "duplicates": [counts.duplicates]},
            schema=pa.schema([("sent", pa.int64()), ("duplicates", pa.int64())]),
        )


def write_partition(endpoint: str, queue: str, **options: Any) -> PartitionWriter:
    """A function that sends the rows of a partition: `df.foreachPartition(write_partition(...))`.

    A row is bytes or text, which are its body, or has `body` and perhaps `attributes`,
    `binary_attributes`, `deduplication_id` and `delay_seconds`: a Row or a mapping. With
    `rdd.mapPartitions` its counts come back. `options`: credentials, retry_seconds. Raises
    `InvalidOption`.
    """
    return PartitionWriter(place_of(endpoint, queue, **options))


def write_batches(endpoint: str, queue: str, **options: Any) -> BatchWriter:
    """The same for Arrow: `df.mapInArrow(write_batches(...), COUNTS)`, many times as fast."""
    return BatchWriter(place_of(endpoint, queue, **options))


def _caller(place: Place) -> Caller:
    return Caller(place.address, Patience(place.retry_seconds), place.credentials)


def _message(row: Any) -> Sized:
    from ._rows import check_columns, message_of

    if isinstance(row, bytes | bytearray | str):
        return message_of(row, None, None, None)
    named = row if isinstance(row, Mapping) else row.asDict()
    check_columns(named, may_deduplicate=True)
    return message_of(
        named["body"],
        named.get("attributes"),
        named.get("deduplication_id"),
        named.get("delay_seconds"),
        named.get("binary_attributes"),
        named.get("group"),
        named.get("priority"),
    )
