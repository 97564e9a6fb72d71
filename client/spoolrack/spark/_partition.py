"""Writes rows without the data source: by `foreachBatch`, `foreachPartition` and `mapInArrow`.

`writer` stages and publishes: each batch appears once, whatever Spark repeats. `write_partition` and
`write_batches` send rows as they come: at least once, because Spark repeats tasks; once with a
`deduplication_id` of the user's own in each row, within the queue's window. Spark pickles what they
return. What can fail: as with `_row_sender`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ._options import InvalidOption, QueueAddress, queue_address
from ._row_sender import SentCounts, StagedRows, publish, send, stage, writer_name
from ._rows import WRITTEN, Sized, check_columns, chunks, message_of

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS: Final = "sent long, duplicates long"
"""The schema of what `write_batches` answers, for `mapInArrow`."""
STAGED: Final = "stage string, messages long, total string, root string"
_QUERY: Final = re.compile(r"[A-Za-z0-9_-]{1,70}")


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
        parts = [
            StagedRows(stages=(name,), messages=messages, total=int(total), root=root)
            for name, messages, total, root in df.mapInArrow(
                partial(_stage_batches, self.place), STAGED
            ).collect()
        ]
        queue = self.place.queue
        publish(self.place.caller, queue, parts, writer_name(self.query, queue), epoch)

    def partition(self, epoch: int) -> Callable[[Iterable[Any]], None]:
        """Return what writes one partition of the batch `epoch`: for `foreachPartition`."""
        return partial(_publish_partition, self.place, self.query, epoch)


def writer(endpoint: str, queue: str, *, query: str, **options: Any) -> Writer:
    """Return a writer for `foreachBatch` and `foreachPartition`, also with a Spark that has no Python
    data sources: 3.4 and newer.

    `query` names the query, in up to 70 of A-Z, a-z, 0-9, '_' and '-': no other one that writes to
    this queue has that name, and it stays over restarts. `options`: credentials, retry_seconds. Raises
    `InvalidOption`.
    """
    if not _QUERY.fullmatch(query):
        raise InvalidOption(
            f"query is {query!r}: it must be 1 to 70 of A-Z, a-z, 0-9, '_' and '-', and name this "
            "query alone among those that write to the queue."
        )
    return Writer(queue_address(endpoint, queue, **options), query)


def write_partition(
    endpoint: str, queue: str, **options: Any
) -> Callable[[Iterable[Any]], list[SentCounts]]:
    """Return a function that sends the rows of a partition:
    `df.foreachPartition(write_partition(...))`.

    A row is bytes or text, which are its body, or has `body` and perhaps `attributes`,
    `binary_attributes`, `deduplication_id` and `delay_seconds`: a Row or a mapping. With
    `rdd.mapPartitions` its counts come back. `options`: credentials, retry_seconds. Raises
    `InvalidOption`.
    """
    return partial(_send_partition, queue_address(endpoint, queue, **options))


def write_batches(
    endpoint: str, queue: str, **options: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the same for Arrow: `df.mapInArrow(write_batches(...), COUNTS)`, many times as fast."""
    return partial(_send_batches, queue_address(endpoint, queue, **options))


def _send_partition(place: QueueAddress, rows: Iterable[Any]) -> list[SentCounts]:
    return [send(place.caller, place.queue, map(_message, rows))]


def _send_batches(place: QueueAddress, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send the rows of a task; yield one row of `COUNTS`."""
    import pyarrow as pa

    from ._columns import messages_of

    rows = (row for batch in _checked(batches, may_deduplicate=True) for row in messages_of(batch))
    counts = send(place.caller, place.queue, rows)
    yield pa.RecordBatch.from_pydict({"sent": [counts.sent], "duplicates": [counts.duplicates]})


def _stage_batches(place: QueueAddress, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stage the rows of a task; yield one row of `STAGED` for its stage, if there is one."""
    import pyarrow as pa

    from ._columns import chunks_of

    staged = stage(place.caller, place.queue, chunks_of(_checked(batches, may_deduplicate=False)))
    for name in staged.stages:
        yield pa.RecordBatch.from_pydict(
            {
                "stage": [name],
                "messages": [staged.messages],
                "total": [str(staged.total)],
                "root": [staged.root],
            }
        )


def _publish_partition(place: QueueAddress, query: str, epoch: int, rows: Iterable[Any]) -> None:
    """Write the rows of a partition as a publication of their own."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    messages = (_message(row, may_deduplicate=False) for row in rows)
    staged = stage(place.caller, place.queue, chunks(messages, is_staged=True))
    publish(place.caller, place.queue, [staged], writer_name(query, place.queue, number), epoch)


def _checked(batches: Iterable[pa.RecordBatch], *, may_deduplicate: bool) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        check_columns(batch.schema.names, may_deduplicate=may_deduplicate)
        yield batch


def _message(row: Any, *, may_deduplicate: bool = True) -> Sized:
    if isinstance(row, bytes | bytearray | str):
        return message_of(row)
    named = row if isinstance(row, Mapping) else row.asDict()
    check_columns(named, may_deduplicate=may_deduplicate)
    return message_of(*map(named.get, WRITTEN))
