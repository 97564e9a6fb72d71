"""The sources that Spark drives: a streaming one, and one that looks at a queue as it is.

A thin layer over `_queues_reader`, which knows what is promised. Spark makes these objects in several
processes and pickles them: they hold options, and make all else when it is first asked for.
"""

# ruff: noqa: N802 - Spark names the methods

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ._columns import COLUMNS, TEXT_COLUMNS, Rows, record_batch
from ._offsets import QueuesOffset
from ._options import MAX_MESSAGES, ReadOptions
from ._queue_peek import PeekShare, peek, shares
from ._queues_reader import Piece, QueuesReading, read_pieces

ALL_BYTES = 2**40


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._open_reading: QueuesReading | None = None
        self._latest: QueuesOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_open_reading": None, "_latest": None}

    @property
    def _reading(self) -> QueuesReading:
        if self._open_reading is None:
            self._open_reading = QueuesReading(self._options, self._options.place.caller)
        return self._open_reading

    def _offset(self, content: dict[str, Any]) -> QueuesOffset:
        return QueuesOffset.from_json(content, self._options.only_queue, self._options.shards)

    def initialOffset(self) -> dict[str, Any]:
        return QueuesOffset.initial(self._options.only_queue, self._options.shards).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows, size = self._options.max_messages, self._options.max_bytes
        is_only = isinstance(limit, ReadAllAvailable)  # trigger(once=True)
        match limit:
            case ReadAllAvailable():
                rows, size = MAX_MESSAGES, ALL_BYTES
            case ReadMaxRows(max_rows=rows):
                pass
            case ReadMaxBytes(max_bytes=size):
                pass
        self._latest = self._reading.latest(
            self._offset(start), max_messages=rows, max_bytes=size, is_only=is_only
        )
        return self._latest.as_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._reading.only_what_is_there()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._reading.lag(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        parts = self._reading.parts(self._offset(start), self._offset(end))
        return [InputPartition(pieces) for pieces in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        pieces = cast(tuple[Piece, ...], partition.value)
        for queue, runs in read_pieces(self._options.place.caller, pieces):
            yield _batch([Rows.of(queue, run) for run in runs], self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._reading.commit(self._offset(end))

    def stop(self) -> None:
        if self._open_reading is not None:
            self._open_reading.stop()


class QueueReader(DataSourceReader):
    """Looks at the messages of queues, whatever their state, and leaves them there."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        caller = self._options.place.caller
        return [InputPartition(share) for share in shares(caller, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        share = cast(PeekShare, partition.value)
        for messages in peek(self._options.place.caller, self._options, share):
            yield _batch([Rows(share.queue, message) for message in messages], self._options)


def _batch(page: Sequence[Rows], options: ReadOptions) -> pa.RecordBatch:
    return record_batch(page, options.columns, TEXT_COLUMNS if options.is_text else COLUMNS)
