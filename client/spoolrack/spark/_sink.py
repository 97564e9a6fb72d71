"""The sinks that Spark drives: rows appear together when a batch is committed, or one by one.

Each attempt of a task stages into a stage of its own, and the driver publishes those of the winners
under the query's id and the batch's number. A batch that is committed again publishes nothing. What
can fail: as with `_row_sender`; a batch whose number is behind the last one published
(`CheckpointTooOld`); and one that was published with other rows (`OtherRows`). After these two the rows
stay staged.
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

from ..errors import SpoolrackError
from ..v1 import staging_service_pb2 as staging
from ._columns import messages_of
from ._light_client import Caller, Patience
from ._options import InvalidOption, WriteOptions
from ._queue_reader import CheckpointTooOld
from ._row_sender import Staged, abort, send, stage, together
from ._rows import Sized

QUERY: Final = "sql.streaming.queryId"
"""Where Spark tells a task which query it is for."""
NOTHING: Final = Staged(messages=0, total=0)
STAGES: Final = 10_000
"""The contract's most for one publication."""
LIVES: Final = 86_400.0
"""Seconds that a batch may take from its first row to its commit."""
_AFTER_RESTORE: Final = (
    "go on with the newest checkpoint, if it is still there. If not, start with a new "
    "checkpointLocation and a new output queue, or with a source that lacks what is written already: "
    "a new checkpoint begins with all that the source has."
)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one attempt of a task."""

    query: str
    """The streaming query's id; empty in a batch write."""
    stage: str
    """Empty: there was nothing to stage."""
    staged: Staged


class OtherRows(SpoolrackError):
    """A batch of this number was published before, with other rows."""

    reason = "EPOCH_DIFFERS"


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch], query: str) -> Written:
    """What a task does with its rows."""
    caller = _caller(options)

    def messages() -> Iterator[Sized]:
        for batch in batches:
            yield from messages_of(batch, must_deduplicate=options.is_direct)

    if options.is_direct:
        send(caller, options.place, messages())
        return Written(query=query, stage="", staged=NOTHING)
    # Attempts of one task may run at the same time: each has a name that nobody else has.
    name = secrets.token_hex(16)
    staged = stage(caller, options.place, name, messages(), LIVES)
    return Written(query=query, stage=name if staged.messages else "", staged=staged)


def publish(options: WriteOptions, written: Sequence[Written | None], writer: str, epoch: int) -> None:
    """Make what the winners staged appear, once."""
    winners = [one for one in written if one is not None and one.stage]
    stages = [one.stage for one in winners]
    if not stages:
        return
    caller = _caller(options)
    if len(stages) > STAGES:
        abort(caller, stages)
        raise InvalidOption(
            f"The batch has {len(stages)} partitions, and {STAGES} can be published together: "
            "coalesce() it before the write."
        )
    all_of_it = together(one.staged for one in winners)
    request = staging.PublishRequest(writer=writer, epoch=epoch, stages=stages)
    if not options.skips_different:
        request.digest = all_of_it.digest
    try:
        answer = caller("Publish", request)
    except SpoolrackError as error:
        if error.reason != OtherRows.reason:
            abort(caller, stages)
            raise
        raise OtherRows(
            f"Batch {epoch} of the writer {writer} was published before, with other rows than the "
            f"{all_of_it.messages} of now, and these were not written. {_kept(stages)} If an old "
            f"checkpoint was put back: {_AFTER_RESTORE} If a repeated batch has other rows by itself, "
            "as with uuid() or rand(), set onDifferentRows to 'skip' for this one start: it counts as "
            "done then. If another write had this txnId: give each its own."
        ) from error
    if answer.last_epoch > epoch:
        raise CheckpointTooOld(
            f"Batch {epoch} of the writer {writer} can't be published after batch {answer.last_epoch}: "
            "the checkpoint is older than what the query has done, as after a restore. Nothing of this "
            f"batch was written. {_kept(stages)} {_AFTER_RESTORE}"
        )
    if answer.duplicate:
        abort(caller, stages)


def _kept(stages: Sequence[str]) -> str:
    """Where the rows of a batch are that can't be published."""
    names = ", ".join(stages[:3]) + (f" and {len(stages) - 3} others" if len(stages) > 3 else "")
    return (
        f"They stay for {LIVES / 3_600:.0f} hours, invisible, in the stages {names}: "
        "'spoolrack stages publish' makes them appear, 'spoolrack stages abort' drops them."
    )


def _caller(options: WriteOptions) -> Caller:
    place = options.place
    return Caller(place.address, Patience(place.retry_seconds), place.credentials)


def _drop(options: WriteOptions, written: Sequence[Any]) -> None:
    if all(isinstance(one, Written) for one in written):
        return  # A commit has failed, and has decided what becomes of them.
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
