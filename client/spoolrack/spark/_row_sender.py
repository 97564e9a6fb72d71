"""Sending of rows, into a stage or straight into the queue: an executor's part, without Spark.

What can fail: a call that can't succeed or not in time, and a row that can't be a message. Messages
written before stay: in a stage they are invisible, after a direct send they are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from .._transports.grpc_values import duration
from .._transports.grpc_values import error as error_of_message
from ..errors import SpoolrackError
from ..v1 import queue_pb2 as pb
from ..v1 import queue_service_pb2 as rpc
from ..v1 import staging_service_pb2 as staging
from ._chunks import Chunk, chunks
from ._light_client import LightClient, may_repeat
from ._options import QueueAddress
from ._rows import Sized


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCounts:
    sent: int
    """Messages that the queue holds now, ..."""
    duplicates: int
    """... and those that it had before, by their deduplication_id: they were not stored again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The content of a stage, or of several."""

    messages: int
    total: int
    """The sum of the messages' checksums: it is the same for any order of the messages, and any
    division into stages."""

    @property
    def digest(self) -> str:
        """Return the digest as `PublishRequest` takes it."""
        return f"{self.messages}-{self.total:032x}"


_CHECKSUM: Final = 16
"""Bytes."""


def together(parts: Iterable[StagedRows]) -> StagedRows:
    """Return the content of all of them."""
    messages = total = 0
    for part in parts:
        messages += part.messages
        total += part.total
    return StagedRows(messages=messages, total=total % (1 << 8 * _CHECKSUM))


def checksums(queue: str, chunk: Chunk) -> StagedRows:
    """Return the checksums that these messages for the queue add to a stage: of each message as its
    `OutgoingMessage` is written, whichever form the chunk has."""
    begun = blake2b(f"{queue}\n".encode(), digest_size=_CHECKSUM)
    total = 0
    if isinstance(chunk, list):
        for message in chunk:
            checksum = begun.copy()
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
            before = begun_by_size[size] = begun.copy()
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


def stage(
    caller: LightClient, place: QueueAddress, name: str, chunks: Iterable[Chunk], lives: float
) -> StagedRows:
    """Put chunks into a stage, durable and invisible; answers what is in it.

    The stage is there for `lives` seconds, and not at all if there is no message. A failure drops it,
    if the server can be reached; else it expires.
    """
    parts: list[StagedRows] = []

    def requests() -> Iterator[staging.StageRequest]:
        for number, chunk in enumerate(chunks):
            request = staging.StageRequest(
                stage=name, chunk_number=number, queue=place.queue, time_to_live=duration(lives)
            )
            if isinstance(chunk, list):
                request.messages.extend(chunk)
            else:
                request.columns.CopyFrom(chunk)
            yield request
            # While the server works on it.
            parts.append(checksums(place.queue, chunk))

    try:
        caller.call_each("Stage", requests())
    except BaseException:
        abort(caller, [name])
        raise
    return together(parts)


def abort(caller: LightClient, stages: Iterable[str]) -> None:
    """Delete stages that will not be published. Those that can't be reached now expire."""
    for name in stages:
        try:
            caller.once("AbortStage", staging.AbortStageRequest(stage=name), timeout=5.0)
        except SpoolrackError:
            # It takes room until it expires, and does no other harm.
            return


def send(caller: LightClient, place: QueueAddress, messages: Iterable[Sized]) -> SentCounts:
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
        rpc.SendRequest(queue=place.queue, messages=chunk)
        for chunk in chunks(messages, is_staged=False)
    )
    caller.call_each("Send", requests, count)
    return SentCounts(sent=sent, duplicates=duplicates)
