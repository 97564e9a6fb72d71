"""The requests about stages, and what each is answered with. Values, and what a chunk may hold.

A stage holds messages that are stored and invisible. Publishing makes all of it appear at one
commit point, in one queue or several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .clock import Millis
from .errors import InvalidMessage
from .message_content import Attributes
from .operations import Allowed, Request, Send

DEFAULT_TIME_TO_LIVE = Millis(24 * 60 * 60 * 1_000)
MAX_TIME_TO_LIVE = Millis(14 * 24 * 60 * 60 * 1_000)
MIN_TIME_TO_LIVE = Millis(1_000)
MAX_STAGE_NAME = 64
"""Characters of a stage's name, and of a digest."""
MAX_WRITER_NAME = 80
MAX_CHUNK = 999_999_999
MAX_EPOCH = 2**63 - 1
MAX_STAGES = 10_000
"""In one publication."""
MAX_WRITERS = 100_000
"""Writers whose last epoch is remembered: of a queue, and of a caller without messages."""
DEFAULT_EPOCH_RETENTION = Millis(30 * 24 * 60 * 60 * 1_000)
MIN_EPOCH_RETENTION = Millis(60 * 1_000)
MAX_EPOCH_RETENTION = Millis(365 * 24 * 60 * 60 * 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    message_count: int
    """In the chunk."""
    duplicate: bool
    """Whether the chunk was there already, and nothing was stored."""
    expires_at: Millis
    """Unix time at which the stage expires unless it is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    message_count: int
    duplicate: bool
    """Whether this epoch, or a later one, was published before, and nothing was done."""
    last_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInfo:
    name: str
    chunk_count: int
    message_counts: Mapping[str, int]
    """By queue."""
    expires_at: Millis


@dataclass(slots=True, kw_only=True, eq=False)
class Stage(Request[Staged]):
    """Store one chunk of a stage, whole or not at all.

    The same chunk again is answered; another one under its number is a `ChunkDiffers`. A stage that has
    messages for a queue that isn't `allowed` is another caller's: `NameTaken`.
    """

    stage: str
    chunk_number: int
    queue: str
    bodies: Sequence[bytes]
    attributes: Mapping[int, Attributes] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)
    """By position, of the messages that have one."""
    delay: Millis | None = None
    """Counts from the publication."""
    priority: int = 0
    time_to_live: Millis = DEFAULT_TIME_TO_LIVE
    """Counted from the stage's first chunk."""
    allowed: Allowed = None
    is_tick: bool = False
    """Whether a schedule stages it, whose names are refused to others."""


def chunk_of(empty: Stage, messages: Send) -> Stage:
    """Return a chunk with messages; raise `InvalidMessage` for the first one that can't be in it."""
    places = range(len(messages.bodies))
    delays = [messages.delays.get(place) for place in places]
    priorities = [messages.priorities.get(place, 0) for place in places]
    for place in places:
        if delays[place] != delays[0]:
            raise not_staged(place, "its delay is not that of the first message of its chunk")
        if priorities[place] != priorities[0]:
            raise not_staged(place, "its priority is not that of the first message of its chunk")
        if place in messages.deliver_at:
            raise not_staged(place, "it has a deliver_time, and in a stage messages have delays only")
        if place in messages.deduplication_ids:
            raise not_staged(place, "it has a deduplication id, and in a stage none can have one")
    return replace(
        empty,
        bodies=messages.bodies,
        attributes=messages.attributes,
        groups=messages.groups,
        delay=delays[0],
        priority=priorities[0],
    )


def not_staged(position: int, why: object) -> InvalidMessage:
    """Return the error of a message that can't be in a chunk, by its position."""
    return InvalidMessage(why=f"number {position}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Request[Published]):
    """Make all messages of `stages` appear, unless the writer has published this epoch before.

    A stage, or a writer, of another caller is a `NameTaken`; a `queue` of another shard a `WrongShard`.
    """

    writer: str
    epoch: int
    stages: Sequence[str]
    epoch_retention: Millis = DEFAULT_EPOCH_RETENTION
    """The epoch is remembered for so long, unless the writer publishes another."""
    digest: str = ""
    """The writer's checksum of the messages, remembered with the epoch: the same epoch with another one
    is an `EpochDiffers`, an older epoch an `EpochPassed`. Empty: not compared."""
    allowed: Allowed = None
    queue: str = ""
    """One of those that the stages have messages for; empty: not told."""
    message_count: int = 0
    """How many the stages hold together: another number is a `StageIncomplete`. 0: not compared."""
    owner: str = ""
    """The caller's identity. Empty: nothing keeps it from any writer's name."""
    is_tick: bool = False
    """Whether a schedule publishes it, whose names are refused to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(Request[int]):
    """Drop a stage; answers how many messages it had. `StageNotFound` if there is none; one of another
    caller is a `NameTaken`, a `queue` of another shard a `WrongShard`."""

    stage: str
    queue: str = ""
    """One of those that it has messages for; empty: not told."""
    allowed: Allowed = None
