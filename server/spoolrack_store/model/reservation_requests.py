"""The requests about reservations, and what each is answered with. Values.

A reservation is a set of leases under a name, which its reader may read as often as it likes, also
after a restart, until it commits them or the hold is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from .clock import Millis
from .operations import Allowed, Answer, Delivery, GiveBack, Message, MessageRun, Request

DEFAULT_RESERVED_MESSAGES = 1_000
MAX_RESERVED_MESSAGES = 100_000
MAX_EFFORT = 5_000
"""Of the leases of a set, in renames, as `names.effort` says: so many messages with a file each."""
DEFAULT_RESERVED_BYTES = 64 * 1024 * 1024
MAX_STREAM_NAME = 80
MIN_RESERVATION_TIMEOUT = Millis(1_000)
MAX_SEQUENCE_NUMBER = 2**63 - 1
REMEMBERED_SETS = 100
"""Sets of earlier commits that a stream's marker names, so that a repetition is told from a stray."""
MAX_RESERVATIONS = 100_000
"""Of a queue, held or lost, with the streams that are committed; one counts once more for ten files."""
REMEMBERED_LOST_SETS = 20
"""Of a stream, the last: a reader that fails again and again without a commit fills no queue."""
MEMORY = Millis(30 * 24 * 60 * 60 * 1_000)
"""Lost sets, and how far a stream is committed, are remembered for so long."""


class ReservationState(Enum):
    HELD = "held"
    LOST = "lost"
    """The hold is over: the messages can be leased again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    queue: str
    stream: str
    sequence_number: int
    message_count: int
    """As many as were reserved, also if some were deleted since."""
    byte_count: int
    expires_at: Millis
    """Unix time."""
    state: ReservationState
    read_count: int
    """How often it was read from its beginning, as far as this process knows."""
    is_new: bool = field(default=False, compare=False)
    """Whether the request that this answers has made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    deleted_count: int
    """Deleted now."""
    lost_sequence_numbers: Sequence[int]
    """The numbers of sets that were lost before; none of their messages was deleted."""


@dataclass(slots=True, kw_only=True, eq=False)
class Reserve(Request[Reservation | None]):
    """Lease messages under a name, or find it reserved already; None if nothing is ready in time.

    A number that is reserved for another queue, and a stream that has sets of a queue that isn't
    `allowed`, is a `NameTaken`.
    """

    queue: str
    stream: str
    sequence_number: int
    max_messages: int = DEFAULT_RESERVED_MESSAGES
    max_bytes: int = DEFAULT_RESERVED_BYTES
    visibility_timeout: Millis | None = None
    """None takes the queue's visibility timeout."""
    wait: Millis | None = Millis(0)
    allowed: Allowed = None
    queue_identity: tuple[Millis, str] | None = None
    """Which queue of this name it began with. The engine notes it at the first try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSet(Request[Answer]):
    """A request about one set. A stream with sets of a queue that isn't `allowed` is a `NameTaken`, a
    set of another queue than `queue` not found, a `queue` of another shard a `WrongShard`."""

    stream: str
    sequence_number: int
    queue: str = ""
    """The set's; empty: not told."""
    allowed: Allowed = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendReservation(OfSet[Reservation]):
    """Hold a reservation for so long from now on; `ReservationLost` if it is over."""

    visibility_timeout: Millis | None = None
    """None: as long as at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReservations(Request[Committed]):
    """Delete the messages of all sets of the stream up to a number. May be repeated.

    `ReservationNotFound` if the stream isn't committed up to it, and no set of `queue` has that number:
    the set was never made in this root, or was lost more than 30 days ago. `ReservationCommitted` if
    the stream is committed beyond it, and the set isn't remembered: made here long ago, or never. A
    stream with sets of a queue that isn't `allowed` is a `NameTaken`, a `queue` of another shard a
    `WrongShard`.
    """

    stream: str
    last_sequence_number: int
    queue: str = ""
    """That of the last set; empty: not told."""
    allowed: Allowed = None
    only_read: bool = False
    """Whether a set that isn't marked as read is a `ReservationUnread`, and nothing is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRead(OfSet[None]):
    """Note that a set was read: `CommitReservations` can ask for it. May be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(OfSet[None]):
    """Give the messages of a set back; it counts as lost from now on. May be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReservation(Request[None]):
    """Undo a new reservation whose response reached no caller: its messages are ready again, not
    counted.

    If another call was answered with it since, it stays.
    """

    stream: str
    sequence_number: int


def undo_of(leased: Sequence[Delivery] | Reservation | None) -> GiveBack | UndoReservation | None:
    """Return what takes back an answer that no caller hears; None if there is nothing to take back."""
    if not leased:
        return None
    if isinstance(leased, Reservation):
        # A set that was there before was an answer already.
        undone = UndoReservation(stream=leased.stream, sequence_number=leased.sequence_number)
        return undone if leased.is_new else None
    receipts = [receipt for delivery in leased for receipt in delivery.receipts]
    return GiveBack(queue=leased[0].queue, receipts=receipts)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReserved(Request[None]):
    """A message of a set turned out to be damaged: it goes to quarantine and leaves the set."""

    stream: str
    sequence_number: int
    id: str
    why: str


@dataclass(slots=True, kw_only=True)
class Page:
    """Messages of a set, read."""

    runs: list[MessageRun] = field(default_factory=list)
    size: int = 0
    """Bytes of their bodies and attributes."""
    next_index: int
    """The place at which the next page begins."""
    damaged: list[QuarantineReserved] = field(default_factory=list)
    """Messages that can't be read: taken out before the page is shown, so that a commit of the set
    doesn't delete them."""

    @property
    def messages(self) -> list[Message]:
        return [message for run in self.runs for message in run.messages()]
