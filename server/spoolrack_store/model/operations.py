"""Requests to the store about messages, and their answers, by column: a frame of a stream is one
request. Values only.

A column has a value for each message, in the order of the request; a value that few messages have is in
a mapping by position. Where a request names many messages, each has its own result: a value, or the
`StoreError` of this message alone. Stages, reservations and redrives have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final, Generic, NamedTuple, TypeVar

from ..credits import Credits
from .batch_file import Line
from .clock import Millis
from .dead_letter_records import DeadLetterRecord
from .errors import StoreError
from .message_content import Attributes
from .message_ids import INDEX_DIGITS
from .names import body_path
from .settings import QueueSettings
from .transitions import State

DEFAULT_RECEIVE_BYTES = 4 * 1024 * 1024
OLDEST_LEASES = 5
"""The number of its oldest leases that a queue shows."""
LARGE_BODY = 256 * 1024
"""A body above this has a file of its own, whose bytes go when it is deleted."""
MAX_BODY_IN_MEMORY = 64 * 1024 * 1024
"""A larger body, which is in a file of its own, is never read into memory."""

Allowed = Callable[[str], bool] | None
"""The queues that a caller may use as a request does; None: all."""
Answer = TypeVar("Answer", covariant=True)


class Request(Generic[Answer]):
    """Work for the store, whose answer has the type `Answer`."""

    __slots__ = ()


Outcome = Any
"""The answer of a request, or its `StoreError`, or `UNFINISHED`."""


class Unfinished:
    """The outcome of a request that goes on in the next commit, and can't be cancelled any more."""


UNFINISHED: Final = Unfinished()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as a receive, a get or a list shows it."""

    queue: str
    id: str
    state: State
    body: bytes
    attributes: Attributes
    body_size: int
    """Bytes of the whole body, also where `body` holds only its beginning, or nothing of it."""
    sent_at: Millis
    receive_count: int
    first_received_at: Millis | None
    due: Millis | None
    """Unix time at which the lease or the delay ends."""
    receipt: str | None
    dead_letter_records: Sequence[DeadLetterRecord] = ()
    """How it came to be a dead letter."""
    group: str = ""
    """Empty: none."""
    priority: int = 0
    body_path: str = ""
    """From the root, if the body is in a file of its own. Above `MAX_BODY_IN_MEMORY` it is nowhere
    else: `body` is empty then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRun:
    """Messages with consecutive ids, which share all properties that are no columns here."""

    first: Message
    """The first of them, without body, attributes and group."""
    bodies: bytes
    """One after the other."""
    body_sizes: Sequence[int]
    """Of the bodies."""
    attributes: Mapping[int, Attributes]
    """By place in the run, of the messages that have any."""
    groups: Mapping[int, str]
    """By place in the run, of the messages that have one."""

    def __len__(self) -> int:
        return len(self.body_sizes)

    def messages(self) -> Iterator[Message]:
        """Yield the messages one by one."""
        first, end = self.first, 0
        head, index = first.id[:-INDEX_DIGITS], int(first.id[-INDEX_DIGITS:], 16)
        for place, size in enumerate(self.body_sizes):
            begin, end = end, end + size
            yield replace(
                first,
                id=f"{head}{index + place:03x}",
                body=self.bodies[begin:end],
                attributes=self.attributes.get(place, {}),
                group=self.groups.get(place, ""),
                body_size=first.body_size or size,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of a queue's messages: those that match all given properties."""

    states: frozenset[State] = frozenset()
    """Ready, leased or delayed. Empty: all."""
    sent_since: Millis | None = None
    """The Unix time at which they were sent, or later."""
    sent_before: Millis | None = None
    """The Unix time before which they were sent."""
    group: str = ""
    """Empty: of any group, and of none."""
    attributes: Attributes = field(default_factory=dict)
    """Names and values that are among theirs."""

    def matches(self, line: Line, index: int) -> bool:
        """Return whether a message has the group and the attributes, by its file's line."""
        if self.group and line.group_of(index) != self.group:
            return False
        found = line.attributes.get(index, {})
        return all(found.get(name) == value for name, value in self.attributes.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """A page of a list of messages."""

    messages: Sequence[Message]
    """May be empty although more follow: a page looks at a bounded number of messages."""
    last: str
    """The id after which the next page begins; empty if this is the last page."""


@dataclass(slots=True, kw_only=True, eq=False)
class SendResults:
    """The results of a send, for each message."""

    results: list[str | StoreError]
    """The id of each, or why it wasn't stored."""
    sent_at: Millis
    """Unix time; of a duplicate its id's time counts."""
    duplicates: set[int] = field(default_factory=set)
    """The positions of those that were sent before, with the same deduplication id: the results are the
    first ones' ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBody:
    """A body in a file of the root, on stable media."""

    path: str
    """From the root, in `new/`."""
    size: int
    crc: int | None
    """None: it was linked, and never read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Send(Request[SendResults]):
    """Send messages. All valid ones of one delay and priority commit together, as far as one file may
    hold them; each invalid one fails alone."""

    queue: str
    bodies: Sequence[bytes]
    attributes: Mapping[int, Attributes] = field(default_factory=dict)
    """By position, of the messages that have any."""
    deduplication_ids: Mapping[int, str] = field(default_factory=dict)
    """By position. Within the queue's window a second message with the same is answered with the first
    one's id."""
    delays: Mapping[int, Millis] = field(default_factory=dict)
    """By position, of those that are not to be hidden for the queue's delivery delay."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """By position, of the messages that have one."""
    priorities: Mapping[int, int] = field(default_factory=dict)
    """By position, from 0, which is the default, to `names.MAX_PRIORITY`."""
    deliver_at: Mapping[int, Millis] = field(default_factory=dict)
    """By position the Unix times until which messages are hidden, in place of a delay. A past time is
    no delay."""
    written: WrittenBody | None = None
    """The body of the only message, which is empty in `bodies`: it stays in a file of its own."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """Messages of one file that a receive has leased: one column for each of their properties."""

    queue: str
    sent_at: Millis
    receive_count: int
    first_received_at: Millis | None
    """Unix time of the first receive."""
    lease_expires_at: Millis
    """Unix time at which the lease ends."""
    ids: list[str]
    receipts: list[str]
    bodies: list[bytes]
    attributes: dict[int, Attributes]
    """By position, of the messages that have any."""
    groups: dict[int, str] = field(default_factory=dict)
    """By position, of the messages that have one."""
    dead_letter_records: Sequence[DeadLetterRecord] = ()
    """Of a dead letter, which is alone in its file: how it came to be one."""
    priority: int = 0
    external_size: int | None = None
    """The bytes of the only message's body, if it is in a file of its own. One of more than
    `MAX_BODY_IN_MEMORY` is empty in `bodies`."""
    left_out: int | None = None
    """The bytes of the only message's body, if the receive leaves it out of `bodies`."""

    def messages(self) -> Iterator[Message]:
        """Yield the messages row by row."""
        columns = zip(self.ids, self.receipts, self.bodies, strict=True)
        size = self.left_out if self.external_size is None else self.external_size
        for position, (id, receipt, body) in enumerate(columns):
            yield Message(
                queue=self.queue,
                id=id,
                state=State.LEASED,
                body=body,
                attributes=self.attributes.get(position, {}),
                group=self.groups.get(position, ""),
                priority=self.priority,
                body_size=len(body) if size is None else size,
                body_path="" if self.external_size is None else body_path(id),
                sent_at=self.sent_at,
                receive_count=self.receive_count,
                first_received_at=self.first_received_at,
                due=self.lease_expires_at,
                receipt=receipt,
                dead_letter_records=self.dead_letter_records,
            )


def messages_of(deliveries: Iterable[Delivery]) -> list[Message]:
    """Return all messages of an answer, row by row."""
    return [message for delivery in deliveries for message in delivery.messages()]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A message whose body isn't in memory. The caller closes the file."""

    message: Message
    """With an empty body."""
    file: BinaryIO
    """It stands at `offset`, and stays readable whatever becomes of the message."""
    offset: int
    """The body is `message.size` bytes of the file from here on."""


@dataclass(slots=True, kw_only=True, eq=False)
class Receive(Request[list[Delivery]]):
    """Lease up to `max_messages` messages, in order; at least one, and else no more than `max_bytes` of
    bodies and attributes. Without any, wait up to `wait` for the first."""

    queue: str
    max_messages: int = 1
    max_bytes: int = DEFAULT_RECEIVE_BYTES
    visibility_timeout: Millis | None = None
    """None takes the queue's visibility timeout."""
    wait: Millis | None = Millis(0)
    """None waits for ever."""
    with_large_bodies: bool = True
    """False: a body of more than `LARGE_BODY` that is alone in its file is checked, and left out of the
    answer."""
    credits: Credits | None = None
    """Take no more than these allow, and charge them until the lease ends."""
    consumer: str = ""
    """A short text that tells people what receives: the oldest leases of a queue show it. It is kept in
    memory alone, as long as the lease."""
    queue_identity: tuple[Millis, str] | None = None
    """Which queue of this name it began with. The engine notes it at the first try."""


class LastReceive(NamedTuple):
    """A receive of a message, by the facts that its name keeps after the lease.

    The next receive changes it, and so does a redrive.
    """

    receive_count: int
    first_received_at: Millis
    """Unix time of the first receive."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delete(Request[list[StoreError | None]]):
    """Delete messages by their receipts, and then by their ids in any state.

    The result is None for each that is deleted; by receipt, also for one that was already gone.
    """

    queue: str
    receipts: Sequence[str] = ()
    ids: Sequence[str] = ()
    last_receives: Mapping[int, LastReceive] = field(default_factory=dict)
    """By position of a receipt: delete the message also if its lease is over, as long as this is its
    last receive. The receipt's tag is not checked then: a name keeps it no longer than the lease."""


@dataclass(slots=True, kw_only=True, eq=False)
class ChangeVisibility(Request[list[Millis | StoreError]]):
    """Extend leases to a time from now; zero releases them.

    The result is each one's new end, in Unix time, or 0.
    """

    queue: str
    receipts: Sequence[str]
    visibility_timeout: Millis
    last_receives: Mapping[int, LastReceive] = field(default_factory=dict)
    """By position: hide the message again also if its lease is over, as long as this is its last
    receive. The new lease isn't counted as a receive, and only `last_receives` ends or extends it. A
    queue whose groups are strict, or whose leases are limited, refuses: another message may be leased
    in its place."""


@dataclass(slots=True, kw_only=True, eq=False)
class ReleaseMessages(Request[list[Millis | StoreError]]):
    """End leases, and hide the messages for a delay.

    The result is the Unix time at which each is ready again. One that has used up its receives goes to
    the dead-letter queue instead.
    """

    queue: str
    receipts: Sequence[str]
    delay: Millis | None = Millis(0)
    """None takes the queue's back-off: see `QueueSettings.backoff`."""
    reason: str = ""
    """Why, for people: kept in the history of a message that becomes a dead letter by this release."""
    uncounted: bool = False
    """Whether the receive doesn't count."""


@dataclass(slots=True, kw_only=True, eq=False)
class RejectMessages(Request[list[StoreError | None]]):
    """Move leased messages to the dead-letter queue, however often they were received.

    The answer comes once they are there: they are not delivered from this queue again.
    """

    queue: str
    receipts: Sequence[str]
    reason: str = ""
    """Why, for people: kept in the history."""


@dataclass(slots=True, kw_only=True, eq=False)
class GiveBack(Request[None]):
    """Undo leases that no consumer has seen: ready again at once, and the receive isn't counted."""

    queue: str
    receipts: Sequence[str]


@dataclass(slots=True, kw_only=True, eq=False)
class Purge(Request[int]):
    """Delete messages of a queue, by default all of them; the answer is their number."""

    queue: str
    sent_before: Millis | None = None
    """Only messages that were sent before this Unix time."""
    states: frozenset[State] = frozenset()
    """Only messages that are ready, leased or delayed. Empty: all."""

    def matches(self, state: State, sent_at: Millis) -> bool:
        """Return whether a message in this state, sent at this time, is to be deleted."""
        return (not self.states or state in self.states) and (
            self.sent_before is None or sent_at < self.sent_before
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingMessage:
    """A poison message, which is received again and again, and its effect."""

    id: str
    receive_count: int
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A cause that keeps messages from going into a queue or out of it."""

    reason: str
    """A stable name, as errors have."""
    explanation: str
    """For a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLease:
    """Messages that one consumer leased together, and holds."""

    message_id: str
    """The first of them."""
    message_count: int
    first_received_at: Millis | None
    """Unix time of the first receive."""
    lease_expires_at: Millis
    receive_count: int
    stream: str
    """The stream of the reservation that holds them; "": a receive does."""
    consumer: str = ""
    """As its receive named it, or that this process doesn't know it; "": a reservation."""
    received_at: Millis | None = None
    """Unix time of that receive; None: the consumer is unknown, or a reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    ready_count: int
    leased_count: int
    delayed_count: int
    byte_count: int
    """Of bodies and attributes, in all states."""
    oldest: Millis | None
    """Unix time at which the oldest message that is ready or leased was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Counts of this process's work on a queue since it began; other processes have their own."""

    entered: int = 0
    """Messages that it brought into the queue: sent, published, dead-lettered or redriven there."""
    left: int = 0
    """Messages that it deleted, let expire, or moved away; a purge isn't counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    settings: QueueSettings
    created_at: Millis
    version: int
    """Rises with each update."""
    counts: Counts
    labels: Mapping[str, str] = field(default_factory=dict)
    blocking_message: BlockingMessage | None = None
    obstacles: Sequence[Obstacle] = ()
    """Where a queue was asked for by its name; so are the oldest leases."""
    oldest_leases: Sequence[OldLease] = ()
    traffic: Traffic = field(default_factory=Traffic, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue(Request[Queue]):
    """Create a queue, or find it with equal settings and these labels; `QueueExists` if they differ."""

    name: str
    settings: QueueSettings
    labels: Mapping[str, str] = field(default_factory=dict)
    """Up to 64 texts by name, which the store keeps and doesn't read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQueue(Request[Queue]):
    name: str
    changes: Mapping[str, object]
    """Settings by name, as in `QueueSettings`."""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    """Labels by name; None removes one."""
    replaces_labels: bool = False
    """Whether all other labels are removed."""
    if_version: int = 0
    """Above 0: the queue has this version, or the answer is `VersionMismatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue(Request[None]):
    """Delete a queue with all its messages. The answer is durable."""

    name: str
    if_version: int = 0
    """Above 0: the queue has this version, or the answer is `VersionMismatch`."""


SHORT_BYTES: Final = 2 * 1024 * 1024
"""Of bodies to be written: requests with more keep the thread that does them."""
SHORT_MESSAGES: Final = 4_000


def are_short(requests: Iterable[Request[Any]]) -> bool:
    """Return whether `requests` together take only milliseconds, by their sizes."""
    messages, size = 0, 0
    for request in requests:
        named = messages_named(request)
        if named is None:
            return False
        messages += named
        if isinstance(request, Send):
            size += sum(map(len, request.bodies))
    return messages <= SHORT_MESSAGES and size <= SHORT_BYTES


def messages_named(request: Request[Any]) -> int | None:
    """Return how many messages a request moves at most; None: it isn't told by its size."""
    if isinstance(request, Send):
        return len(request.bodies)
    if isinstance(request, Receive):
        return request.max_messages
    if isinstance(request, Delete):
        return len(request.receipts) + len(request.ids)
    if isinstance(request, ChangeVisibility | ReleaseMessages | GiveBack):
        return len(request.receipts)
    return None
