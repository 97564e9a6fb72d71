"""Errors of the store, each with its own class, stable reason and facts.

The docstring of a class is its message, with the facts filled in. The edges (gRPC, HTTP, the command
line) translate by `reason` in one table each. A lost race is not among these: it is a result.
"""

from __future__ import annotations

import inspect
from typing import ClassVar

from .clock import Millis
from .terminal_text import printable

LONGEST_FACT = 300
"""Characters of a text that an error carries; a longer one is cut."""


class StoreError(Exception):
    """Something went wrong in the store."""

    reason: ClassVar[str] = "STORE_ERROR"
    """A name that never changes, for programs."""
    retry_after: ClassVar[Millis | None] = None
    """How long to wait before the same call may succeed; None where a repetition can't help."""

    def __init__(self, **facts: object) -> None:
        self.facts = {name: _cut(fact) for name, fact in facts.items()}
        message = (inspect.getdoc(type(self)) or "").replace("\n", " ").format(**self.facts)
        # A caller's own text is shown to others: in logs, and on terminals.
        super().__init__(printable(message))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.facts)


def _cut(fact: object) -> object:
    # A caller's own text comes back in an error: ten megabytes of it must not fill headers and logs.
    if isinstance(fact, str) and len(fact) > LONGEST_FACT:
        return fact[: LONGEST_FACT - 1] + "…"
    return fact


def _rebuilt(kind: type[StoreError], facts: dict[str, object]) -> StoreError:
    return kind(**facts)


# The caller's mistakes: the same call will fail again.


class InvalidQueueName(StoreError):
    """{name!r} can't be a queue's name: use 1 to 80 letters, digits, '_', '.' and '-', the first a
    letter or a digit."""

    reason = "INVALID_QUEUE_NAME"


class InvalidSetting(StoreError):
    """The setting {name} can't be {value!r}: it {rule}."""

    reason = "INVALID_SETTING"


class InvalidRequest(StoreError):
    """{what} can't be {value!r}: it {rule}."""

    reason = "INVALID_REQUEST"


class InvalidMessage(StoreError):
    """The message can't be stored: {why}."""

    reason = "INVALID_MESSAGE"


class MessageTooLarge(StoreError):
    """The body has {size} bytes, and the queue {queue} takes {limit} at most: split the message, or
    raise the queue's max_message_size."""

    reason = "MESSAGE_TOO_LARGE"


class AttributesTooLarge(StoreError):
    """The attributes have {size} bytes together, above the limit of {limit}: put large values into the
    body."""

    reason = "ATTRIBUTES_TOO_LARGE"


class InvalidReceipt(StoreError):
    """{receipt!r} is not a receipt: pass the receipt of the message unchanged."""

    reason = "INVALID_RECEIPT"


class QueueNotFound(StoreError):
    """There is no queue {queue}: it was deleted, or never created. Check its name; to use it, create
    it."""

    reason = "QUEUE_NOT_FOUND"


class QueueExists(StoreError):
    """The queue {queue} exists with other settings ({differing}): update it, or choose another
    name."""

    reason = "QUEUE_EXISTS"


class VersionMismatch(StoreError):
    """The queue {queue} has version {version}, not {expected}: another caller has changed it. Read it
    again, and decide anew."""

    reason = "VERSION_MISMATCH"


class MessageNotFound(StoreError):
    """There is no message {id} in the queue {queue}: it was deleted, or was never there."""

    reason = "MESSAGE_NOT_FOUND"


class StaleReceipt(StoreError):
    """The lease on message {id} is over: the message was delivered again, or can be at any time. Drop
    the work on it, or make it idempotent. Use a longer visibility timeout, or extend the lease in
    time."""

    reason = "STALE_RECEIPT"


class StageNotFound(StoreError):
    """There is no stage {stage}: it was published, was aborted, has expired, or was never on this
    server. Nothing was done; to publish its messages, stage them again."""

    reason = "STAGE_NOT_FOUND"


class StageIncomplete(StoreError):
    """The stages hold {held} messages, and {expected} were staged: a part has expired, was aborted, or
    is on another server. Nothing was published, and the stages are unchanged: abort them, and stage
    the messages again."""

    reason = "STAGE_INCOMPLETE"


class EpochDiffers(StoreError):
    """The writer {writer} has published epoch {epoch} with other messages, or to a queue that was
    deleted and created again since. Nothing was published, and the stages are unchanged: publish them
    under a new epoch, or abort them."""

    reason = "EPOCH_DIFFERS"


class EpochPassed(StoreError):
    """The writer {writer} has published epoch {last_epoch}; the server doesn't remember whether epoch
    {epoch} was published with these messages. Nothing was published, and the stages are unchanged:
    publish them under a new epoch, or abort them."""

    reason = "EPOCH_PASSED"


class ChunkDiffers(StoreError):
    """The stage {stage} has a chunk {chunk} already, with other messages or for another queue. Nothing
    was stored: give this chunk another number, or stage it under another name."""

    reason = "CHUNK_DIFFERS"


class NameTaken(StoreError):
    """The {kind} {name} belongs to another caller, or to another queue than this call's. Nothing was
    done: choose another name, or call as the identity that uses this one."""

    reason = "NAME_TAKEN"


class ReservationNotFound(StoreError):
    """There is no reservation {sequence_number} of the stream {stream}: it was never made here, or
    ended more than 30 days ago. Check that this server made it; to continue here, reserve again."""

    reason = "RESERVATION_NOT_FOUND"


class ReservationLost(StoreError):
    """The lease of reservation {sequence_number} of the stream {stream} has expired or was released, or
    its queue was deleted: its messages may be leased by other consumers now, or gone. Drop the work on
    them, or make it idempotent, and reserve again under a new number. Reserve for longer, or extend the
    reservation in time."""

    reason = "RESERVATION_LOST"


class ReservationCommitted(StoreError):
    """The stream {stream} is committed up to {committed} on this server. The messages of reservation
    {sequence_number} are deleted, or it was never made here: the request is older than that commit,
    such as from an old checkpoint, or is for another server."""

    reason = "RESERVATION_COMMITTED"


class ReservationUnread(StoreError):
    """Reservation {sequence_number} of the stream {stream} was never read, so nothing was deleted, also
    not of the reservations before it: read it, or release it."""

    reason = "RESERVATION_UNREAD"


class RootDiffers(StoreError):
    """The call is for the root {named}, and this server has the root {found}: nothing was done. Check
    the server's address. If this root is meant, such as after a restore with a new identity, begin
    anew with it."""

    reason = "ROOT_DIFFERS"


class WrongShard(StoreError):
    """{what} belongs to shard {shard} of {shards}, and this server is {found}: nothing was done. Call
    the server of that shard; a client of several addresses needs those of all shards, in the order of
    their numbers from 0 on."""

    reason = "WRONG_SHARD"


# The state of things: the same call may succeed later.


class TooManyDeduplicationIds(StoreError):
    """The queue {queue} remembers {held} deduplication ids, the limit is {limit}: nothing was stored.
    Wait until the oldest leave the window, or make the queue's deduplication_window shorter."""

    reason = "TOO_MANY_DEDUPLICATION_IDS"
    retry_after = Millis(5_000)


class RedriveNotFound(StoreError):
    """There is no redrive {redrive}: it was never started, or ended more than 30 days ago."""

    reason = "REDRIVE_NOT_FOUND"


class ScheduleNotFound(StoreError):
    """The queue {queue} has no schedule {schedule}: it was deleted, or never created."""

    reason = "SCHEDULE_NOT_FOUND"


class ScheduleExists(StoreError):
    """The queue {queue} has a schedule {schedule} with another {differing}: change it, or choose
    another name."""

    reason = "SCHEDULE_EXISTS"


class Unauthenticated(StoreError):
    """The caller isn't known: {why}."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(StoreError):
    """{identity} may not {permission} at the queue {queue}: ask the server's operator, who gives
    permissions in a file (serve --permissions)."""

    reason = "PERMISSION_DENIED"

    def __init__(self, **facts: object) -> None:
        """The queue is "*" for a caller without the permission on any, or on all."""
        super().__init__(**facts)
        if self.facts["queue"] == "*":
            self.args = (str(self).replace("the queue *", "this server"),)


class NoDeadLetterQueue(StoreError):
    """The queue {queue} has no dead-letter queue: nothing was rejected. Set its dead_letter_queue, or
    delete or release the message."""

    reason = "NO_DEAD_LETTER_QUEUE"


class RedriveRunning(StoreError):
    """The queue {queue} has a running redrive, {redrive}: wait until it ends, or cancel it."""

    reason = "REDRIVE_RUNNING"


class QueueFull(StoreError):
    """The queue {queue} is full, with {held} of {limit} {unit}: wait until consumers delete some, or
    raise the limit."""

    reason = "QUEUE_FULL"
    retry_after = Millis(1_000)


class SendingPaused(StoreError):
    """Sending to the queue {queue} is paused, and nothing was stored: send to another queue, or set
    the queue's sending to open."""

    reason = "SENDING_PAUSED"


class QueueBeingDeleted(StoreError):
    """The queue {queue} is still being deleted: try again in a moment."""

    reason = "QUEUE_BEING_DELETED"
    retry_after = Millis(200)


class DiskFull(StoreError):
    """The disk under the root is full, or nearly: nothing was stored. Delete messages or make room,
    and try again: {detail}."""

    reason = "DISK_FULL"
    retry_after = Millis(5_000)


class MemoryLimit(StoreError):
    """The server has too little memory for this now: {why}. Nothing was done: try again."""

    reason = "MEMORY_LIMIT"
    retry_after = Millis(1_000)


class DiskError(StoreError):
    """The disk under the root refused an operation, which had no effect: {detail}."""

    reason = "DISK_ERROR"
    retry_after = Millis(1_000)


class Draining(StoreError):
    """The server is shutting down and accepts no calls: connect again."""

    reason = "DRAINING"
    retry_after = Millis(500)


class StoreFailed(StoreError):
    """The disk failed to make data durable ({detail}): the server accepts nothing until it is started
    again, and has read the folders. This call had no effect."""

    reason = "STORE_FAILED"
    retry_after = Millis(5_000)


class OutcomeUnknown(StoreError):
    """The disk failed to make this operation durable ({detail}): whether it took place shows only after
    a restart. A repeated send may be a duplicate."""

    reason = "OUTCOME_UNKNOWN"


class MessageDamaged(StoreError):
    """The file of message {id} in the queue {queue} doesn't match its name ({why}). The next receive
    puts it into quarantine; other messages are not affected."""

    reason = "MESSAGE_DAMAGED"


# The root itself: the store doesn't open.


class RootUnusable(StoreError):
    """{root} can't be a root of Spoolrack: {why}."""

    reason = "ROOT_UNUSABLE"


class TargetUnusable(RootUnusable):
    """{root} can't become a snapshot: {why}."""

    reason = "TARGET_UNUSABLE"


class RootInUse(StoreError):
    """{root} is served by another process{holder}: stop that one, or choose another root."""

    reason = "ROOT_IN_USE"


class UnknownFormat(StoreError):
    """{root} was written in the format {found!r}, and this program knows {known!r}: use the version
    of Spoolrack that wrote it, or a newer one."""

    reason = "UNKNOWN_FORMAT"


class NotRestorable(Exception):
    """Why something in quarantine can't come back."""


class DamagedSettings(StoreError):
    """The settings file {file} can't be read: {why}."""

    reason = "DAMAGED_SETTINGS"
