"""The sinks that Spark drives: rows appear together when a batch is committed, or one by one.

Each attempt of a task stages into a stage of its own, and the driver publishes those of the winners
under the query's id and the batch's number. A batch that is committed again publishes nothing. What
can fail: as with `sending`; and a batch whose number is behind the last one published, because its
checkpoint was put back.
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

from ..v1 import staging_pb2 as staging
from .channel import Caller, Patience
from .columns import messages_of
from .options import InvalidOption, WriteOptions
from .reading import CheckpointTooOld
from .rows import Sized
from .sending import abort, send, stage

QUERY: Final = "sql.streaming.queryId"
"""Where Spark tells a task which query it is for."""
STAGES: Final = 10_000
"""The contract's most for one publication."""
LIVES: Final = 86_400.0
"""Seconds that a batch may take from its first row to its commit."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one attempt of a task has done."""

    query: str
    """The streaming query's id; empty in a batch write."""
    stage: str
    """Empty: there was nothing to stage."""
    messages: int


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch], query: str) -> Written:
    """What a task does with its rows."""
    caller = _caller(options)

    def messages() -> Iterator[Sized]:
        for batch in batches:
            yield from messages_of(batch, must_deduplicate=options.is_direct)

    if options.is_direct:
        counts = send(caller, options.place, messages())
        return Written(query=query, stage="", messages=counts.sent + counts.duplicates)
    # Attempts of one task may run at the same time: each has a name that nobody else has.
    name = secrets.token_hex(16)
    count = stage(caller, options.place, name, messages(), LIVES)
    return Written(query=query, stage=name if count else "", messages=count)


def publish(options: WriteOptions, written: Sequence[Written | None], writer: str, epoch: int) -> None:
    """Make what the winners staged appear, once."""
    stages = [one.stage for one in written if one is not None and one.stage]
    if not stages:
        return
    if len(stages) > STAGES:
        raise InvalidOption(
            f"The batch has {len(stages)} partitions, and {STAGES} can be published together: "
            "coalesce() it before the write."
        )
    caller = _caller(options)
    answer = caller("Publish", staging.PublishRequest(writer=writer, epoch=epoch, stages=stages))
    if not answer.already:
        return
    abort(caller, stages)
    if answer.last_epoch > epoch:
        raise CheckpointTooOld(
            f"Batch {epoch} of the writer {writer} can't be published after batch {answer.last_epoch}: "
            "the checkpoint is older than what the query has done, as after a restore. Nothing of this "
            "batch was written. Start the query with a new checkpointLocation."
        )


def _caller(options: WriteOptions) -> Caller:
    place = options.place
    return Caller(place.address, Patience(place.retry_seconds), place.credentials)


def _drop(options: WriteOptions, written: Sequence[Any]) -> None:
    abort(_caller(options), [one.stage for one in written if one is not None and one.stage])


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
        # Spark seldom has any: what the others staged expires.
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
