"""Publishes what tasks have staged: the rows of a batch appear together, and once.

A batch is known by its writer and its number. Knows nothing of Spark. What can fail: a batch whose
number is behind the last one published (`CheckpointTooOld`), and one that was published with other rows
(`OtherRows`). After these two the rows stay staged.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from ..errors import SpoolrackError
from ..v1 import staging_service_pb2 as staging
from ._chunks import Chunk
from ._options import InvalidOption, QueueAddress
from ._queue_reader import CheckpointTooOld
from ._row_sender import StagedRows, abort, stage, together

STAGES: Final = 10_000
"""The contract's most for one publication."""
LIVES: Final = 86_400.0
"""Seconds that a batch may take from its first row to its commit."""
_AFTER_RESTORE: Final = (
    "go on with the newest checkpoint, if it is still there. If not, start with a new "
    "checkpointLocation and a new output queue, or with a source that lacks what is written already: "
    "a new checkpoint begins with all that the source has."
)


class OtherRows(SpoolrackError):
    """A batch of this number was published before, with other rows."""

    reason = "EPOCH_DIFFERS"


def stage_rows(place: QueueAddress, chunks: Iterable[Chunk]) -> tuple[str, StagedRows]:
    """Stage the rows of one attempt of a task; return the stage's name, "" if there is none, and its
    content.

    Attempts of one task may run at the same time: each stage has a name of its own.
    """
    name = secrets.token_hex(16)
    staged = stage(place.caller, place, name, chunks, LIVES)
    return name if staged.messages else "", staged


def publish(
    place: QueueAddress,
    written: Iterable[tuple[str, StagedRows]],
    writer: str,
    epoch: int,
    *,
    skips_different: bool = False,
) -> None:
    """Make what the winners staged appear, once. `skips_different`: a batch that was published with
    other rows counts as done."""
    winners = [one for one in written if one[0]]
    stages = [name for name, _ in winners]
    if not stages:
        return
    caller = place.caller
    if len(stages) > STAGES:
        abort(caller, stages)
        raise InvalidOption(
            f"The batch has {len(stages)} partitions, and {STAGES} can be published together: "
            "coalesce() it before the write."
        )
    all_of_it = together(staged for _, staged in winners)
    request = staging.PublishRequest(writer=writer, epoch=epoch, stages=stages)
    if not skips_different:
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
    """Say where the rows of a batch are that can't be published."""
    names = ", ".join(stages[:3]) + (f" and {len(stages) - 3} others" if len(stages) > 3 else "")
    return (
        f"They stay for {LIVES / 3_600:.0f} hours, invisible, in the stages {names}: "
        "'spoolrack stages publish' makes them appear, 'spoolrack stages abort' drops them."
    )
