"""The sinks that Spark drives: rows appear together when a batch is committed, or one by one.

Each attempt of a task stages into a stage of its own, and the driver publishes those of the winners
under the query's id and the batch's number. A batch that is committed again publishes nothing. What
can fail: as with `_row_sender` and `_publication`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ._columns import chunks_of, messages_of
from ._options import InvalidOption, WriteOptions
from ._publication import publish as publish_stages
from ._publication import stage_rows
from ._row_sender import StagedRows, abort, send

QUERY: Final = "sql.streaming.queryId"
"""Spark's local property with the query's id, in a task."""
NOTHING: Final = StagedRows(messages=0, total=0)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one attempt of a task."""

    query: str
    """The streaming query's id; empty in a batch write."""
    stage: str
    """Empty: there was nothing to stage."""
    staged: StagedRows


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch], query: str) -> Written:
    """Stage or send the rows of a task."""

    if options.is_direct:
        rows = (row for batch in batches for row in messages_of(batch, must_deduplicate=True))
        send(options.place.caller, options.place, rows)
        return Written(query=query, stage="", staged=NOTHING)
    name, staged = stage_rows(options.place, chunks_of(batches))
    return Written(query=query, stage=name, staged=staged)


def publish(options: WriteOptions, written: Sequence[Written | None], writer: str, epoch: int) -> None:
    """Make what the winners staged appear, once."""
    publish_stages(
        options.place,
        [(one.stage, one.staged) for one in written if one is not None],
        writer,
        epoch,
        skips_different=options.skips_different,
    )


def _drop(options: WriteOptions, written: Sequence[Any]) -> None:
    if all(isinstance(one, Written) for one in written):
        return  # A commit has failed, and has decided what becomes of them.
    abort(options.place.caller, [one.stage for one in written if one is not None and one.stage])


class QueueStreamWriter(DataSourceStreamArrowWriter):
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
        written = [one for one in messages if isinstance(one, Written)]
        if not self._options.is_direct and written:
            publish(self._options, written, written[0].query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        # Spark seldom passes any: the stages of the other tasks expire.
        _drop(self._options, messages)


class QueueWriter(DataSourceArrowWriter):
    """One batch write. Without a name of the user's, each run is one of its own."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._writer = options.transaction or secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(self._options, iterator, "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._options.is_direct:
            publish(
                self._options, [one for one in messages if isinstance(one, Written)], self._writer, 0
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _drop(self._options, messages)
