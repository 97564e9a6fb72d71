"""Errors of the store, each with its own class and facts.

The name of a class is its reason, which programs rely on, and its docstring the message, with the facts
filled in. gRPC and HTTP translate by `reason` in one table, SQS and the command line in one each. A
lost race is not among these: it is a result.
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import ClassVar

from .clock import Millis
from .terminal_text import printable

LONGEST_FACT = 300
"""Characters of a text that an error carries; a longer one is cut."""


class StoreError(Exception):
    """Something went wrong in the store."""

    reason: ClassVar[str] = "STORE_ERROR"
    """A name that never changes, for programs: the class's own in capitals, as `STALE_RECEIPT`."""
    retry_after: ClassVar[Millis | None] = None
    """How long to wait before the same call may succeed; None where a repetition can't help."""

    def __init__(self, **facts: object) -> None:
        self.facts = {name: _cut(fact) for name, fact in facts.items()}
        message = (inspect.getdoc(type(self)) or "").replace("\n", " ").format(**self.facts)
        if message.endswith(".."):
            message = message[:-1]  # A fact at the end was a whole sentence, of another error.
        # A caller's own text is shown to others: in logs, and on terminals.
        super().__init__(printable(message))

    def __init_subclass__(cls) -> None:
        cls.reason = re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.facts), ()


def _cut(fact: object) -> object:
    # A caller's own text comes back in an error: ten megabytes of it must not fill headers and logs.
    if isinstance(fact, str) and len(fact) > LONGEST_FACT:
        return fact[: LONGEST_FACT - 1] + "…"
    return fact


# The caller's mistakes: the same call will fail again.


class InvalidQueueName(StoreError):
    """{name!r} can't be a queue's name: use 1 to 80 letters, digits, '_', '.' and '-', the first a
    letter or a digit."""


class InvalidSetting(StoreError):
    """The setting {name} can't be {value!r}: it {rule}."""


class InvalidRequest(StoreError):
    """{what} can't be {value!r}: it {rule}."""


class InvalidMessage(StoreError):
    """The message can't be stored: {why}."""


class MessageTooLarge(StoreError):
    """The body has {size} bytes, and the queue {queue} takes {limit} at most: split the message, or
    raise the queue's max_message_size."""


class AttributesTooLarge(StoreError):
    """The attributes have {size} bytes together, above the limit of {limit}: put large values into the
    body."""


class InvalidReceipt(StoreError):
    """{receipt!r} is not a receipt: pass the receipt of the message unchanged."""


class QueueNotFound(StoreError):
    """There is no queue {queue}: it was deleted, or never created. Check its name; to use it, create
    it."""


class QueueExists(StoreError):
    """The queue {queue} exists with other settings ({differing}): update it, or choose another
    name."""


class VersionMismatch(StoreError):
    """The queue {queue} has version {version}, not {expected}: another caller has changed it. Read it
    again, and decide anew."""


class MessageNotFound(StoreError):
    """There is no message {id} in the queue {queue}: it was deleted, or was never there."""


class StaleReceipt(StoreError):
    """The lease on message {id} is over: the message was delivered again, or can be at any time. Drop
    the work on it, or make it idempotent. Use a longer visibility timeout, or extend the lease in
    time."""


class StageNotFound(StoreError):
    """There is no stage {stage}: it was published, was aborted, has expired, or was never on this
    server. Nothing was done; to publish its messages, stage them again."""


class StageIncomplete(StoreError):
    """The stages hold {held} messages, and {expected} were staged: a part has expired, was aborted, or
    is on another server. Nothing was published, and the stages are unchanged: abort them, and stage
    the messages again."""


class EpochDiffers(StoreError):
    """The writer {writer} has published epoch {epoch} with other messages, or to a queue that was
    deleted and created again since. Nothing was published, and the stages are unchanged: publish them
    under a new epoch, or abort them."""


class EpochPassed(StoreError):
    """The writer {writer} has published epoch {last_epoch}; the server doesn't remember whether epoch
    {epoch} was published with these messages. Nothing was published, and the stages are unchanged:
    publish them under a new epoch, or abort them."""


class ChunkDiffers(StoreError):
    """The stage {stage} has a chunk {chunk} already, with other messages or for another queue. Nothing
    was stored: give this chunk another number, or stage it under another name."""


class NameTaken(StoreError):
    """The {kind} {name} belongs to another caller, or to another queue than this call's. Nothing was
    done: choose another name, or call as the identity that uses this one."""


class ReservationNotFound(StoreError):
    """There is no reservation {sequence_number} of the stream {stream}: it was never made here, or
    ended more than 30 days ago, or before 20 later ones that were lost. Check that this server made it;
    to continue here, reserve again."""


class ReservationLost(StoreError):
    """The lease of reservation {sequence_number} of the stream {stream} has expired or was released, or
    its queue was deleted: its messages may be leased by other consumers now, or gone. Drop the work on
    them, or make it idempotent, and reserve again under a new number. Reserve for longer, or extend the
    reservation in time."""


class ReservationCommitted(StoreError):
    """The stream {stream} is committed up to {committed} on this server. The messages of reservation
    {sequence_number} are deleted, or it was never made here: the request is older than that commit,
    such as from an old checkpoint, or is for another server."""


class ReservationUnread(StoreError):
    """Reservation {sequence_number} of the stream {stream} was never read, so nothing was deleted, also
    not of the reservations before it: read it, or release it."""


class RootDiffers(StoreError):
    """The call is for the root {named}, and this server has the root {found}: nothing was done. Check
    the server's address. If this root is meant, such as after a restore with a new identity, begin
    anew with it."""


class WrongShard(StoreError):
    """{what} belongs to shard {shard} of {shards}, and this server is {found}: nothing was done. Call
    the server of that shard. A client's addresses, and a proxy's servers, must be those of all shards,
    in the order of their numbers from 0 on; behind a proxy a client needs routing=header."""


# The state of things: the same call may succeed later.


class TooManyDeduplicationIds(StoreError):
    """The queue {queue} remembers {held} deduplication ids, the limit is {limit}: nothing was stored.
    Wait until the oldest leave the window, or make the queue's deduplication_window shorter."""

    retry_after = Millis(5_000)


class TooManyWriters(StoreError):
    """The epochs of {held} writers are remembered of {what}, the limit is {limit}: nothing was
    published, and the stages are unchanged. Publish under a writer that is known, or wait until the
    epoch_retention of others ends; use fewer writers, or a shorter epoch_retention."""

    retry_after = Millis(5_000)


class TooManyReservations(StoreError):
    """The queue {queue} has {held} reservations and committed streams, the limit is {limit}: nothing
    was reserved. Commit reservations of a stream that has several, or wait until lost ones and idle
    streams are forgotten, after 30 days; use fewer streams."""

    retry_after = Millis(5_000)


class RedriveNotFound(StoreError):
    """There is no redrive {redrive}: it was never started, or ended more than 30 days ago, or
    before the last 100 of its queue."""


class ScheduleNotFound(StoreError):
    """The queue {queue} has no schedule {schedule}: it was deleted, or never created."""


class ScheduleExists(StoreError):
    """The queue {queue} has a schedule {schedule} with another {differing}: change it, or choose
    another name."""


class Unauthenticated(StoreError):
    """The caller isn't known: {why}."""


class PermissionDenied(StoreError):
    """{identity} may not {permission} at the queue {queue}: ask the server's operator, who gives
    permissions in a file (serve --permissions)."""

    def __init__(self, **facts: object) -> None:
        """The queue is "*" for a caller without the permission on any, or on all."""
        super().__init__(**facts)
        if self.facts["queue"] == "*":
            self.args = (str(self).replace("the queue *", "this server"),)


class NoDeadLetterQueue(StoreError):
    """The queue {queue} has no dead-letter queue: nothing was rejected. Set its dead_letter_queue, or
    delete or release the message."""


class RedriveRunning(StoreError):
    """The queue {queue} has a running redrive, {redrive}: wait until it ends, or cancel it."""


class QueueFull(StoreError):
    """The queue {queue} is full, with {held} of {limit} {unit}: wait until consumers delete some, or
    raise the limit."""

    retry_after = Millis(1_000)


class SendingPaused(StoreError):
    """Sending to the queue {queue} is paused, and nothing was stored: send to another queue, or set
    the queue's sending to open."""


class QueueBeingDeleted(StoreError):
    """The queue {queue} is still being deleted: try again in a moment."""

    retry_after = Millis(200)


class DiskFull(StoreError):
    """The disk under the root is full, or nearly: nothing was stored. Delete messages or make room,
    and try again: {detail}."""

    retry_after = Millis(5_000)


class MemoryLimit(StoreError):
    """The server has too little memory for this now: {why}. Nothing was done: try again."""

    retry_after = Millis(1_000)


class DiskError(StoreError):
    """The disk under the root refused an operation, which had no effect: {detail}."""

    retry_after = Millis(1_000)


class Draining(StoreError):
    """The server is shutting down and accepts no calls: connect again."""

    retry_after = Millis(500)


class StoreFailed(StoreError):
    """The disk failed to make data durable ({detail}): the server accepts nothing until it is started
    again, and has read the folders. This call had no effect."""

    retry_after = Millis(5_000)


class OutcomeUnknown(StoreError):
    """The disk failed to make this operation durable ({detail}): whether it took place shows only after
    a restart. A repeated send may be a duplicate."""


class MessageDamaged(StoreError):
    """The file of message {id} in the queue {queue} doesn't match its name ({why}). The next receive
    puts it into quarantine; other messages are not affected."""


# The root itself: the store doesn't open.


class RootUnusable(StoreError):
    """{root} can't be a root of Spoolrack: {why}."""


class TargetUnusable(RootUnusable):
    """{root} can't become a snapshot: {why}."""


class RootInUse(StoreError):
    """{root} is served by another process{holder}: stop that one, or choose another root."""


class UnknownFormat(StoreError):
    """{root} was written in the format {found!r}, and this program knows {known!r}: {advice}."""


class NotRestorable(Exception):
    """Why something in quarantine can't come back."""


class DamagedSettings(StoreError):
    """The settings file {file} can't be read: {why}."""


class TornSettings(DamagedSettings):
    """The settings file {file} can't be read: {why}."""
