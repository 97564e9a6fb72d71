"""Writes rows without the data source: by `foreachBatch`, `foreachPartition` and `mapInArrow`.

`writer` stages and publishes: each batch appears once, whatever Spark repeats. `write_partition` and
`write_batches` send rows as they come: at least once, because Spark repeats tasks; once with a
`deduplication_id` of the user's own in each row, within the queue's window. What can fail: as with
`_row_sender` and `_publication`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ._options import InvalidOption, QueueAddress, queue_address

if TYPE_CHECKING:
    import pyarrow as pa

    from ._row_sender import SentCounts
    from ._rows import Sized

COUNTS: Final = "sent long, duplicates long"
"""The schema of what `write_batches` answers, for `mapInArrow`."""
STAGED: Final = "stage string, messages long, total string"
_QUERY: Final = re.compile(r"[A-Za-z0-9_-]{1,70}")


@dataclass(frozen=True, slots=True)
class PartitionWriter:
    """For `foreachPartition` and `rdd.mapPartitions`: rows in, one `SentCounts` out."""

    place: QueueAddress

    def __call__(self, rows: Iterable[Any]) -> list[SentCounts]:
        from ._row_sender import send

        return [send(self.place.caller, self.place, map(_message, rows))]


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """For `mapInArrow`: record batches in, one row of `COUNTS` out."""

    place: QueueAddress

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from ._columns import messages_of
        from ._row_sender import send
        from ._rows import check_columns

        def messages() -> Iterator[Sized]:
            for batch in batches:
                check_columns(batch.schema.names, may_deduplicate=True)
                yield from messages_of(batch)

        counts = send(self.place.caller, self.place, messages())
        yield pa.RecordBatch.from_pydict(
            {"sent": [counts.sent], "duplicates": [counts.duplicates]},
            schema=pa.schema([("sent", pa.int64()), ("duplicates", pa.int64())]),
        )


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes batches once each, whatever Spark repeats: known by the query's name and the epoch.

    `df.writeStream.foreachBatch(writer(...))`: all rows of a batch appear together.
    `df.foreachPartition(writer(...).partition(epoch))`: those of a partition do. A repeated batch must
    have the same rows, and for `partition` the same partitions: else `OtherRows` is raised.
    """

    place: QueueAddress
    query: str

    def __call__(self, df: Any, epoch: int) -> None:
        """Write a batch. Needs `mapInArrow`, which Spark has since 3.3, also over Connect."""
        from ._publication import publish
        from ._row_sender import StagedRows

        staged = df.mapInArrow(StagingWriter(self.place), STAGED).collect()
        parts = [(row[0], StagedRows(messages=row[1], total=int(row[2]))) for row in staged]
        publish(self.place, parts, self.query, epoch)

    def partition(self, epoch: int) -> EpochWriter:
        """Return what writes one partition of the batch `epoch`: for `foreachPartition`."""
        return EpochWriter(self.place, self.query, epoch)


@dataclass(frozen=True, slots=True)
class StagingWriter:
    """For `mapInArrow`: record batches in, one row of `STAGED` out."""

    place: QueueAddress

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from ._columns import chunks_of
        from ._publication import stage_rows
        from ._rows import check_columns

        def checked() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                check_columns(batch.schema.names, may_deduplicate=False)
                yield batch

        name, staged = stage_rows(self.place, chunks_of(checked()))
        columns = {"stage": [name], "messages": [staged.messages], "total": [str(staged.total)]}
        types = [("stage", pa.string()), ("messages", pa.int64()), ("total", pa.string())]
        yield pa.RecordBatch.from_pydict(columns, schema=pa.schema(types))


@dataclass(frozen=True, slots=True)
class EpochWriter:
    """For `foreachPartition`: the rows of a partition are a publication of their own."""

    place: QueueAddress
    query: str
    epoch: int

    def __call__(self, rows: Iterable[Any]) -> None:
        from pyspark import TaskContext

        from ._chunks import chunks
        from ._publication import publish, stage_rows

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        messages = (_message(row, may_deduplicate=False) for row in rows)
        staged = stage_rows(self.place, chunks(messages, is_staged=True))
        publish(self.place, [staged], f"{self.query}-{number}", self.epoch)


def writer(endpoint: str, queue: str, *, query: str, **options: Any) -> Writer:
    """Return a writer for `foreachBatch` and `foreachPartition`, also with a Spark that has no Python
    data sources: 3.4 and newer.

    `query` names the query, in up to 70 of A-Z, a-z, 0-9, '_' and '-': no other one has that name, and
    it stays over restarts. `options`: credentials, retry_seconds. Raises `InvalidOption`.
    """
    if not _QUERY.fullmatch(query):
        raise InvalidOption(
            f"query is {query!r}: it must be 1 to 70 of A-Z, a-z, 0-9, '_' and '-', and name this "
            "query alone."
        )
    return Writer(queue_address(endpoint, queue, **options), query)


def write_partition(endpoint: str, queue: str, **options: Any) -> PartitionWriter:
    """Return a function that sends the rows of a partition:
    `df.foreachPartition(write_partition(...))`.

    A row is bytes or text, which are its body, or has `body` and perhaps `attributes`,
    `binary_attributes`, `deduplication_id` and `delay_seconds`: a Row or a mapping. With
    `rdd.mapPartitions` its counts come back. `options`: credentials, retry_seconds. Raises
    `InvalidOption`.
    """
    return PartitionWriter(queue_address(endpoint, queue, **options))


def write_batches(endpoint: str, queue: str, **options: Any) -> BatchWriter:
    """Return the same for Arrow: `df.mapInArrow(write_batches(...), COUNTS)`, many times as fast."""
    return BatchWriter(queue_address(endpoint, queue, **options))


def _message(row: Any, *, may_deduplicate: bool = True) -> Sized:
    from ._rows import check_columns, message_of

    if isinstance(row, bytes | bytearray | str):
        return message_of(row, None, None, None)
    named = row if isinstance(row, Mapping) else row.asDict()
    check_columns(named, may_deduplicate=may_deduplicate)
    return message_of(
        named["body"],
        named.get("attributes"),
        named.get("deduplication_id"),
        named.get("delay_seconds"),
        named.get("binary_attributes"),
        named.get("group"),
        named.get("priority"),
    )
