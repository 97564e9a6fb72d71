"""The sinks that Spark drives: rows appear together when a batch is committed, or one by one.

Each attempt of a task stages into a stage of its own, and the driver publishes those of the winners
under the query's id and the batch's number. A batch that is committed again publishes nothing. What
can fail: as with `_row_sender`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ._columns import chunks_of, messages_of, only_written
from ._options import InvalidOption, WriteOptions
from ._row_sender import StagedRows, abort, publish, send, stage, together, writer_name

QUERY: Final = "sql.streaming.queryId"
"""Spark's local property with the query's id, in a task."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one attempt of a task."""

    writer: str
    """The name under which it is published."""
    staged: StagedRows
    """No stage: there was no row, or all rows were sent at once."""


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch], writer: str) -> Written:
    """Stage or send the rows of a task."""
    batches = map(only_written, batches)
    caller, queue = options.place.caller, options.place.queue
    if options.is_direct:
        rows = (row for batch in batches for row in messages_of(batch, must_deduplicate=True))
        send(caller, queue, rows)
        return Written(writer, StagedRows())
    return Written(writer, stage(caller, queue, chunks_of(batches)))


def commit_rows(
    options: WriteOptions,
    messages: Sequence[WriterCommitMessage | None],
    epoch: int,
    *,
    is_repeatable: bool = True,
) -> None:
    """Publish the stages of the successful attempts, once.

    Of a write that is not `is_repeatable` nothing is remembered if it has no rows."""
    written = [one for one in messages if isinstance(one, Written)]
    is_staged = any(one.staged.stages for one in written)
    if written and (is_staged or is_repeatable) and not options.is_direct:
        publish(
            options.place.caller,
            options.place.queue,
            [one.staged for one in written],
            written[0].writer,
            epoch,
            skips_different=options.skips_different,
        )


def abort_rows(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort the tasks' stages, unless a failed commit has decided about them."""
    written = [one for one in messages if isinstance(one, Written)]
    if len(written) < len(messages):
        stages = together(one.staged for one in written).stages
        abort(options.place.caller, options.place.queue, stages)


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's writes, which its id names."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        if not query:
            raise InvalidOption(
                "Spark didn't say which streaming query this is: use Spark 4.1 or newer."
            )
        return write_rows(self._options, iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit_rows(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        # Spark seldom passes any: the stages of the other tasks expire.
        abort_rows(self._options, messages)


class QueueWriter(DataSourceArrowWriter):
    """One batch write. Without a name of the user's, each run is one of its own."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        named = options.transaction and writer_name(options.transaction, options.place.queue)
        self._writer = named or secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(self._options, iterator, self._writer)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_rows(self._options, messages, 0, is_repeatable=bool(self._options.transaction))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_rows(self._options, messages)
