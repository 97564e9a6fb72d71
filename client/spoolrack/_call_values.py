"""The calls of a transport as values: a class for each method of the contract, but for those that run
for each message.

A class has the name of its method, its fields those of the request; its base says what the answer is.
Times are `datetime`s, spans seconds as floats; None leaves a field out. No behaviour, no protobuf.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Generic, TypeVar

from ._redrive_values import Redrive
from ._reservation_values import CommitResult, Reservation
from ._schedule_values import Schedule
from ._stage_values import PublishResult, StageInfo, StageResult
from ._values import Attributes, Envelope, MessageFilter, MessageState, Outgoing, Page, QueueInfo
from .errors import RedriveNotFound, ReservationNotFound, SpoolrackError, StageNotFound

Answer = TypeVar("Answer", covariant=True)
Item = TypeVar("Item", covariant=True)


@dataclass(kw_only=True, eq=False, repr=False)
class Call(Generic[Answer]):
    """A call."""

    queue: str = ""
    """The queue that it is for; empty: all, or that of an id, which isn't told."""
    missing: ClassVar[type[SpoolrackError] | None] = None
    """Of a call by an id: the error of a server that doesn't know the id."""


@dataclass(kw_only=True, eq=False, repr=False)
class ListCall(Call[Page[Item]]):
    """A call for a page of a list; an empty token is for the first."""

    page_token: str = ""


# Queues.


@dataclass(kw_only=True, eq=False, repr=False)
class CatalogCall(Call[Answer]):
    """A call on a queue itself, whose name it has."""

    name: str

    def __post_init__(self) -> None:
        self.queue = self.name


@dataclass(kw_only=True, eq=False, repr=False)
class CreateQueue(CatalogCall[QueueInfo]):
    """Create a queue, or find it with equal settings and these labels."""

    settings: Mapping[str, object]
    """As in `QueueSettings`, only those that differ from the default or were named."""
    labels: Mapping[str, str]


class GetQueue(CatalogCall[QueueInfo]):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class ListQueues(ListCall[QueueInfo]):
    prefix: str


@dataclass(kw_only=True, eq=False, repr=False)
class UpdateQueue(CatalogCall[QueueInfo]):
    """Change the settings and labels that are named; None sets a setting back to its default, and
    removes a label."""

    settings: Mapping[str, object]
    labels: Mapping[str, str | None]
    version: int
    """Above 0 the version that the queue must have."""


@dataclass(kw_only=True, eq=False, repr=False)
class DeleteQueue(CatalogCall[None]):
    version: int
    """Above 0 the version that the queue must have."""


@dataclass(kw_only=True, eq=False, repr=False)
class PurgeQueue(CatalogCall[int]):
    """Delete messages; the answer is their number."""

    sent_before: datetime | None
    """None: of any age."""
    states: Collection[MessageState]
    """None: in any."""


# Looks at messages.


@dataclass(kw_only=True, eq=False, repr=False)
class GetMessage(Call[Envelope]):
    queue: str = field()
    id: str


@dataclass(kw_only=True, eq=False, repr=False)
class ListMessages(ListCall[Envelope]):
    """Return a page of the messages that pass the filter, in order. It may be empty although others
    follow."""

    queue: str = field()
    wanted: MessageFilter
    page_size: int
    """0: the default."""
    max_body_bytes: int | None
    """None: whole bodies."""


# Stages. `queue`: one that a stage has messages for.


@dataclass(kw_only=True, eq=False, repr=False)
class Stage(Call[StageResult]):
    """Store 1 to 1,000 messages as one chunk, all or none. Bodies are bytes, delays are floats."""

    queue: str = field()
    stage: str
    chunk_number: int
    messages: Sequence[Outgoing]
    time_to_live: float | None


@dataclass(kw_only=True, eq=False, repr=False)
class Publish(Call[PublishResult]):
    missing = StageNotFound
    writer: str
    epoch: int
    stages: Sequence[str]
    message_count: int = 0
    """How many messages they must have; 0: not compared."""
    epoch_retention: float | None


@dataclass(kw_only=True, eq=False, repr=False)
class StageCall(Call[Answer]):
    """A call on a stage."""

    missing = StageNotFound
    stage: str


class AbortStage(StageCall[int]):
    """Drop a stage; the answer is how many messages it had."""


class GetStage(StageCall[StageInfo]):
    pass


class ListStages(ListCall[StageInfo]):
    """Return a page by name."""


# Reservations.


@dataclass(kw_only=True, eq=False, repr=False)
class Reserve(Call[Reservation | None]):
    """Lease messages under a name, or find them so leased; None: there was none in time."""

    queue: str = field()
    stream: str
    sequence_number: int
    max_messages: int
    max_bytes: int
    visibility_timeout: float | None
    wait: float


@dataclass(kw_only=True, eq=False, repr=False)
class ReservationCall(Call[Answer]):
    """A call on a reservation."""

    missing = ReservationNotFound
    stream: str
    sequence_number: int


class GetReservation(ReservationCall[Reservation]):
    pass


class ReleaseReservation(ReservationCall[None]):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class ExtendReservation(ReservationCall[Reservation]):
    visibility_timeout: float | None


@dataclass(kw_only=True, eq=False, repr=False)
class ReadReservation(ReservationCall[None]):
    """Read the messages from one place to before another; 0 is the end of the set."""

    begin_index: int
    end_index: int


@dataclass(kw_only=True, eq=False, repr=False)
class CommitReservations(Call[CommitResult]):
    missing = ReservationNotFound
    stream: str
    last_sequence_number: int


@dataclass(kw_only=True, eq=False, repr=False)
class ListReservations(ListCall[Reservation]):
    """Return a page by stream and number."""

    stream: str
    """Empty: all."""


# Redrives. `queue`: the dead-letter queue.


@dataclass(kw_only=True, eq=False, repr=False)
class StartRedrive(Call[Redrive]):
    """Start moving dead letters back."""

    queue: str = field()
    destination: str
    message_ids: Sequence[str]
    """None: all."""
    source_queue: str
    max_messages_per_second: int
    """0: as fast as possible."""


@dataclass(kw_only=True, eq=False, repr=False)
class RedriveCall(Call[Redrive]):
    """A call on a redrive."""

    missing = RedriveNotFound
    id: str


class GetRedrive(RedriveCall):
    pass


class CancelRedrive(RedriveCall):
    """End a redrive; return it as it ended."""


class ListRedrives(ListCall[Redrive]):
    """Return a page, the oldest first."""


# Schedules.


@dataclass(kw_only=True, eq=False, repr=False)
class ScheduleCall(Call[Answer]):
    """A call on a schedule."""

    queue: str = field()
    name: str


@dataclass(kw_only=True, eq=False, repr=False)
class CreateSchedule(ScheduleCall[Schedule]):
    """Create a schedule, or find it with this content."""

    cron: str
    time_zone: str
    body: bytes
    attributes: Attributes
    group: str


class GetSchedule(ScheduleCall[Schedule]):
    pass


@dataclass(kw_only=True, eq=False, repr=False)
class UpdateSchedule(ScheduleCall[Schedule]):
    """Change what isn't None."""

    cron: str | None
    time_zone: str | None
    body: bytes | None
    attributes: Attributes | None
    group: str | None


class ListSchedules(ListCall[Schedule]):
    """Return a page by queue and name."""


class PauseSchedule(ScheduleCall[Schedule]):
    pass


class ResumeSchedule(ScheduleCall[Schedule]):
    pass


class DeleteSchedule(ScheduleCall[None]):
    pass
