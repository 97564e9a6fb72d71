"""Rows on their way into a queue: staged by tasks and published by the driver, or sent at once.

Tasks stage rows, durable and invisible; a publication makes those of a batch appear together, and once.
A batch is known by its writer and its number. Knows nothing of Spark. What can fail: a call that can't
succeed or not in time; a row that can't be a message; a batch whose number is behind the last one
published (`CheckpointTooOld`), and one that was published with other rows (`OtherRows`), after both of
which the rows stay staged; tasks that have met servers of different roots (`SeveralServers`). Rows that
were sent at once before a failure stay sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from .._transports.grpc_values import duration
from .._transports.grpc_values import error as error_of_message
from ..errors import SpoolrackError, StageNotFound
from ..v1 import queue_pb2 as pb
from ..v1 import queue_service_pb2 as rpc
from ..v1 import staging_service_pb2 as staging
from ._light_client import LightClient, may_repeat
from ._offsets import SeveralServers
from ._options import InvalidOption
from ._queue_reader import CheckpointTooOld
from ._rows import Chunk, Sized, chunks

STAGES: Final = 10_000
"""The contract's most for one publication."""
LIVES: Final = 86_400.0
"""Seconds that a batch may take from its first row to its commit."""
_AFTER_RESTORE: Final = (
    "go on with the newest checkpoint, if it is still there. If not, start with a new "
    "checkpointLocation and a new output queue, or with a source that lacks what is written already: "
    "a new checkpoint begins with all that the source has."
)


_CHECKSUM: Final = 16
"""Bytes."""
_PREFIX: Final = 47
"""Characters that a writer has of its own name: with a checksum they are the contract's most."""
_PASSED: Final = "EPOCH_PASSED"


class OtherRows(SpoolrackError):
    """A batch of this number was published before, with other rows or to a queue that is gone."""

    reason = "EPOCH_DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCounts:
    sent: int
    """Messages that the queue holds now, ..."""
    duplicates: int
    """... and those that it had before, by their deduplication_id: they were not stored again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Stages of a batch, and their content."""

    stages: tuple[str, ...] = ()
    messages: int = 0
    root: str = ""
    """The identity of the root that has the stages; empty: not known."""
    total: int = 0
    """The sum of the messages' checksums: it is the same for any order of the messages, and any
    division into stages."""

    @property
    def digest(self) -> str:
        """Return the digest as `PublishRequest` takes it."""
        return f"{self.messages}-{self.total:032x}"


def writer_name(name: str, queue: str, partition: int | None = None) -> str:
    """Return the writer for the batches of this name to a queue, or for a partition of theirs.

    Each has one of its own, because the server has one space of writers for all queues.
    """
    place = f"{name}\n{queue}\n{'' if partition is None else partition}"
    return f"{name[:_PREFIX]}-{blake2b(place.encode(), digest_size=_CHECKSUM).hexdigest()}"


def together(parts: Iterable[StagedRows]) -> StagedRows:
    """Return the stages and the content of all of them; raise `SeveralServers` for stages of different
    roots."""
    listed_parts = [*parts]
    roots = {part.root for part in listed_parts if part.root}
    if len(roots) > 1:
        raise SeveralServers(sorted(roots))
    return StagedRows(
        stages=tuple(name for part in listed_parts for name in part.stages),
        root=roots.pop() if roots else "",
        messages=sum(part.messages for part in listed_parts),
        total=sum(part.total for part in listed_parts) % (1 << 8 * _CHECKSUM),
    )


def checksums(queue: str, chunk: Chunk) -> StagedRows:
    """Return the checksums that these messages for the queue add to a stage: of each message as its
    `OutgoingMessage` is written, whichever form the chunk has."""
    prefix = blake2b(f"{queue}\n".encode(), digest_size=_CHECKSUM)
    total = 0
    if isinstance(chunk, list):
        for message in chunk:
            checksum = prefix.copy()
            # Deterministic: attributes in the order of their names.
            checksum.update(message.SerializeToString(deterministic=True))
            total += int.from_bytes(checksum.digest(), "big")
        return together([StagedRows(messages=len(chunk), total=total)])
    begun_by_size: dict[int, Any] = {}
    bodies, end = chunk.bodies, 0
    for size in chunk.body_sizes:
        begin, end = end, end + size
        before = begun_by_size.get(size)
        if before is None:
            before = begun_by_size[size] = prefix.copy()
            before.update(_before_body(size))
        checksum = before.copy()
        checksum.update(bodies[begin:end])
        total += int.from_bytes(checksum.digest(), "big")
    return together([StagedRows(messages=len(chunk.body_sizes), total=total)])


def _before_body(size: int) -> bytes:
    """Return what a message with a body of so many bytes begins with: a tag and a varint."""
    if not size:
        return b""
    digits = bytearray(b"\n")
    while size > 0x7F:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    digits.append(size)
    return bytes(digits)


def stage(caller: LightClient, queue: str, chunks: Iterable[Chunk]) -> StagedRows:
    """Stage the rows of one attempt of a task, durable and invisible.

    Attempts of one task may run at the same time: each has a stage of its own, and none if there is no
    message. A failure drops it, if the server can be reached; else it expires.
    """
    name = secrets.token_hex(16)
    parts: list[StagedRows] = []

    def requests() -> Iterator[staging.StageRequest]:
        for number, chunk in enumerate(chunks):
            request = staging.StageRequest(
                stage=name, chunk_number=number, queue=queue, time_to_live=duration(LIVES)
            )
            if isinstance(chunk, list):
                request.messages.extend(chunk)
            else:
                request.columns.CopyFrom(chunk)
            yield request
            # While the server works on it.
            parts.append(checksums(queue, chunk))

    def note_root(request: staging.StageRequest, response: staging.StageResponse) -> None:
        staged.append(StagedRows(root=response.root_id))

    staged = [StagedRows(stages=(name,))]
    try:
        caller.call_each("Stage", requests(), note_root)
        return together([*staged, *parts]) if parts else StagedRows()
    except BaseException:
        abort(caller, queue, [name])
        raise


def publish(
    caller: LightClient,
    queue: str,
    written: Iterable[StagedRows],
    writer: str,
    epoch: int,
    *,
    skips_different: bool = False,
) -> None:
    """Publish the stages of the successful attempts for a queue, once.

    `skips_different`: a batch that was published with other rows counts as done.

    A batch without rows is published, too: with rows its repetition is another batch, and the reverse.
    """
    rows = together(written)
    stages = rows.stages
    caller = caller.to(rows.root)
    if len(stages) > STAGES:
        abort(caller, queue, stages)
        raise InvalidOption(
            f"The batch has {len(stages)} partitions, and {STAGES} can be published together: "
            "coalesce() it before the write."
        )
    request = staging.PublishRequest(
        writer=writer,
        epoch=epoch,
        stages=stages,
        queue=queue,
        message_count=rows.messages,
    )
    if not skips_different:
        request.digest = rows.digest
    try:
        answer = caller("Publish", request)
    except SpoolrackError as error:
        if error.reason == _PASSED:
            raise _too_old(
                writer, epoch, error.metadata.get("last_epoch", "of later"), stages
            ) from error
        if error.reason != OtherRows.reason:
            abort(caller, queue, stages)
            raise
        raise OtherRows(
            f"Batch {epoch} of the writer {writer} was published before, with other rows than the "
            f"{rows.messages} of now, or to a queue that was deleted and created again since, and "
            f"these were not written. {_kept(stages)} If the queue is a new one: write under a new "
            "txnId, query name or checkpointLocation. If an old "
            f"checkpoint was put back: {_AFTER_RESTORE} If a repeated batch has other rows by itself, "
            "as with uuid() or rand(), set onDifferentRows to 'skip' for this one start: it counts as "
            "done then. If another write to this queue had this txnId: give each its own."
        ) from error
    if answer.last_epoch > epoch:
        raise _too_old(writer, epoch, str(answer.last_epoch), stages)
    if answer.duplicate:
        abort(caller, queue, stages)


def _too_old(writer: str, epoch: int, last: str, stages: Sequence[str]) -> CheckpointTooOld:
    return CheckpointTooOld(
        f"Batch {epoch} of the writer {writer} can't be published after batch {last}: the checkpoint "
        "is older than what the query has done. Nothing of this batch was written. "
        f"{_kept(stages)} If it was put back: {_AFTER_RESTORE}"
    )


def _kept(stages: Sequence[str]) -> str:
    """Say where the rows of a batch are that can't be published."""
    if not stages:
        return "It has no rows."
    names = ", ".join(stages[:3]) + (f" and {len(stages) - 3} more" if len(stages) > 3 else "")
    return (
        f"They stay for {LIVES / 3_600:.0f} hours, invisible, in the stages {names}: "
        "'spoolrack stages publish' makes them appear, 'spoolrack stages abort' drops them."
    )


def abort(caller: LightClient, queue: str, stages: Iterable[str]) -> None:
    """Delete stages for a queue that will not be published. Those that can't be reached now expire."""
    for name in stages:
        try:
            request = staging.AbortStageRequest(stage=name, queue=queue)
            caller.once("AbortStage", request, timeout=5.0)
        except StageNotFound:
            continue
        except SpoolrackError:
            # It takes room until it expires, and does no other harm.
            return


def send(caller: LightClient, queue: str, messages: Iterable[Sized]) -> SentCounts:
    """Send the messages at once: each at least once, and once if it has a deduplication_id."""
    sent = duplicates = 0

    def count(request: rpc.SendRequest, response: rpc.SendResponse) -> None:
        nonlocal sent, duplicates
        left: list[tuple[pb.OutgoingMessage, SpoolrackError]] = []
        for message, result in zip(request.messages, response.results, strict=True):
            if result.HasField("error"):
                left.append((message, error_of_message(result.error)))
            elif result.sent.duplicate:
                duplicates += 1
            else:
                sent += 1
        if left:
            del request.messages[:]
            request.messages.extend(message for message, _ in left)
            # One that can't be repeated, if there is one.
            raise min((error for _, error in left), key=may_repeat)

    requests = (
        rpc.SendRequest(queue=queue, messages=chunk) for chunk in chunks(messages, is_staged=False)
    )
    caller.call_each("Send", requests, count)
    return SentCounts(sent=sent, duplicates=duplicates)
