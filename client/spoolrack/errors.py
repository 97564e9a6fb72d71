"""Errors of the client, each with its own class and stable reason.

A class's name is its reason, and `_contract/reasons.py` has the code of each that a server answers. The
last few have no reason of a server: they come to be on this side. docs/reference/errors.md shows all of
them in one table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from ._contract.reasons import CODES as _CODES
from ._contract.reasons import reason_of as _reason_of
from ._former_names import former_name as _former_name


class SpoolrackError(Exception):
    """A call failed. A reason that this version of the client doesn't know has this class."""

    reason: str = "UNKNOWN"
    """A name that never changes, for programs: the class's own in capitals, as `STALE_RECEIPT`."""
    code: ClassVar[str] = "UNKNOWN"
    """The gRPC status code that goes with the reason."""
    retry_delay: timedelta | None
    """How long to wait before a repetition may succeed. None: the server didn't say."""
    metadata: Mapping[str, str]
    """The facts of the message, for programs."""

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        retry_delay: timedelta | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))
        if reason is not None:
            self.reason = reason
        self.retry_delay = retry_delay
        self.metadata = dict(metadata or {})

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later. The client has then tried until its timeout."""
        return self.retry_delay is not None


class InvalidRequest(SpoolrackError):
    """An argument of the request is invalid."""


class InvalidQueueName(InvalidRequest):
    """A queue can't have this name: use 1 to 80 letters, digits, '_', '.' and '-', the first a letter
    or a digit."""


class InvalidSetting(InvalidRequest):
    """A setting of a queue can't have this value."""


class InvalidMessage(InvalidRequest):
    """The message is invalid, and was not stored."""


class MessageTooLarge(InvalidMessage):
    """The body is larger than the queue's max_message_size."""


class AttributesTooLarge(InvalidMessage):
    """The attributes have more than 64 KiB together."""


class InvalidReceipt(InvalidRequest):
    """This is not a receipt: pass the one of the message, unchanged."""


class Unauthenticated(SpoolrackError):
    """The caller is unknown: it sent no token and no certificate, or none that the server knows."""


class PermissionDenied(SpoolrackError):
    """The caller has no permission to do this to this queue, whether it exists or not."""


class QueueNotFound(SpoolrackError):
    """There is no queue of this name."""


class MessageNotFound(SpoolrackError):
    """There is no message of this id in the queue: it was deleted, or never existed."""


class StageNotFound(SpoolrackError):
    """There is no stage of this name: it was published, was aborted, has expired, or never existed.
    Nothing was published."""


class StageIncomplete(SpoolrackError):
    """The stages hold another number of messages than were staged, and nothing was published: abort
    them, and stage the messages again."""


class EpochDiffers(SpoolrackError):
    """The writer has published this epoch with other messages, or to a queue that was deleted and
    created again since: nothing was published, and the stages are unchanged."""


class EpochPassed(SpoolrackError):
    """The writer has published a later epoch, and whether this one was published with these messages is
    not remembered: nothing was published, and the stages are unchanged."""


class ChunkDiffers(SpoolrackError):
    """The stage has a chunk of this number already, with other messages or for another queue: nothing
    was stored."""


class NameTaken(SpoolrackError):
    """The stage, writer or stream of this name belongs to another caller, or to another queue: nothing
    was done."""


class ReservationNotFound(SpoolrackError):
    """There is no reservation of this stream and number: it was never made by this server, or ended
    more than 30 days ago, or before 20 later ones that were lost."""


class RedriveNotFound(SpoolrackError):
    """There is no redrive of this id: it was never started, or ended more than 30 days ago, or
    before the last 100 of its queue."""


class ScheduleNotFound(SpoolrackError):
    """The queue has no schedule of this name: it was deleted, or never created."""


class ScheduleExists(SpoolrackError):
    """The queue has a schedule of this name with another content."""


class QueueExists(SpoolrackError):
    """A queue of this name exists with other settings."""


class VersionMismatch(SpoolrackError):
    """The queue has another version than `if_version`: another caller has changed it."""


class StaleReceipt(SpoolrackError):
    """The lease has expired: the message was delivered again, or can be at any time."""


class ReservationLost(SpoolrackError):
    """The reservation has expired, or was released: other consumers may have its messages."""


class ReservationCommitted(SpoolrackError):
    """The stream is committed up to this reservation or beyond: its messages are deleted. A reader that
    asks for it again has restarted from an older state, such as an old checkpoint."""


class ReservationUnread(SpoolrackError):
    """Nothing was deleted: the reservation was never read, and a commit needs a read."""


class WrongShard(SpoolrackError):
    """The queue, or the call, belongs to another shard than the server is, and nothing was done: call
    the server of that shard, or give the addresses of all shards in the order of their numbers; for a
    proxy that routes by queues give `routing="header"`."""


class RootDiffers(SpoolrackError):
    """The call is for another root than the server has, and nothing was done: check the server's
    address. A checkpoint goes on only with the server that it began with, or a copy of its root."""


class RedriveRunning(SpoolrackError):
    """A redrive of the queue is running: wait until it has ended, or cancel it."""


class NoDeadLetterQueue(SpoolrackError):
    """The queue has no dead-letter queue, so nothing was rejected: set its dead_letter_queue, or delete
    or release the message."""


class SendingPaused(SpoolrackError):
    """Sending to the queue is paused: nothing was stored. Not repeated by the client: a pause lasts
    until the queue's `sending` is set to open."""


class TooManyDeduplicationIds(SpoolrackError):
    """The queue remembers as many deduplication ids as it can: wait until the oldest leave its
    deduplication_window, or make that shorter."""


class TooManyWriters(SpoolrackError):
    """The server remembers the epochs of as many writers as it can, of the queue, or without messages
    of the caller: publish under a writer that it knows, or wait until the epoch_retention of others
    ends. Nothing was published."""


class TooManyReservations(SpoolrackError):
    """The queue has as many reservations and committed streams as it can: commit some, or wait until
    lost ones and idle streams are forgotten. Nothing was reserved."""


class QueueFull(SpoolrackError):
    """The queue holds as much as its limits allow: wait until consumers delete some."""


class DiskFull(SpoolrackError):
    """The server's disk is full, or nearly: nothing was stored. Deletes still work."""


class MemoryLimit(SpoolrackError):
    """The server has too little memory for this now: nothing was done. Receives and deletes still
    work."""


class QueueBeingDeleted(SpoolrackError):
    """A queue of this name is still being deleted."""


class DiskError(SpoolrackError):
    """The server's disk refused an operation, which had no effect."""


class Draining(SpoolrackError):
    """The server is shutting down and accepts no calls."""

    @property
    def retryable(self) -> bool:
        return True


class StoreFailed(SpoolrackError):
    """The server's disk failed to make data durable: nothing is accepted until the server was started
    again. This call had no effect."""


class OutcomeUnknown(SpoolrackError):
    """The server's disk failed to make this operation durable: whether it took place shows only after
    a restart of the server. Never repeated by the client: a repeated send may be a duplicate."""

    @property
    def retryable(self) -> bool:
        return False


class MessageDamaged(SpoolrackError):
    """The message's file doesn't match its name; the server has put it into quarantine."""


class InternalError(SpoolrackError):
    """The server has a fault: see its log, and report it."""


# Of this side.


class Unreachable(SpoolrackError, ConnectionError):
    """No answer from the server: it isn't there, or the connection broke in mid-call. A send may then
    have been stored all the same."""

    code = "UNAVAILABLE"

    @property
    def retryable(self) -> bool:
        return True


class Timeout(SpoolrackError, TimeoutError):  # the builtin too, so that `except TimeoutError` works
    """No answer within the timeout. The call may have taken place, or may take place later."""

    code = "DEADLINE_EXCEEDED"


class InvalidCredentials(SpoolrackError, ValueError):
    """The token or a certificate file can't be used, or the token would be sent without TLS."""


class InvalidUrl(SpoolrackError, ValueError):
    """The URL has an unknown form: it names neither a server nor a folder."""


class Unsupported(SpoolrackError):
    """The transport of the URL lacks this operation: the message names it, and what to do instead."""

    code = "UNIMPLEMENTED"


class ClientClosed(SpoolrackError):
    """The client was closed: connect again."""


class ForkedClient(SpoolrackError):
    """The client was opened in another process, and this one was forked off it: a connection can't be
    shared. Call connect() again after the fork."""


class WrongEventLoop(SpoolrackError, RuntimeError):
    """A client of spoolrack.aio belongs to the event loop in which aio.connect() was called, and this
    call comes from another one: connect in each loop (in each asyncio.run)."""


# Of a root that is opened without a server.


class RootUnusable(SpoolrackError):
    """The folder can't be a root of Spoolrack, or isn't one yet."""

    code = "FAILED_PRECONDITION"


class RootInUse(SpoolrackError):
    """Another process repairs the root, or has been starting for long: try again when it is done."""

    code = "UNAVAILABLE"


class UnknownFormat(SpoolrackError):
    """The root was written by a version of Spoolrack that this one can't read."""

    code = "FAILED_PRECONDITION"


class DamagedSettings(SpoolrackError):
    """A settings file of the root can't be read."""

    code = "DATA_LOSS"


def _all(kind: type[SpoolrackError]) -> list[type[SpoolrackError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _all(child))]


# Not by `__init_subclass__`: a program's own subclass has the reason and the code of its base.
for _kind in _all(SpoolrackError)[1:]:
    _kind.reason = _reason_of(_kind.__name__)
    _kind.code = _CODES.get(_kind.reason, (_kind.code, 0))[0]

_BY_REASON: Final[Mapping[str, type[SpoolrackError]]] = {
    kind.reason: kind for kind in _all(SpoolrackError)
}
"""The class of each reason."""


def _error_of(
    reason: str,
    message: str,
    *,
    retry_delay: timedelta | None = None,
    metadata: Mapping[str, str] | None = None,
) -> SpoolrackError:
    """Return the error that a server's reason stands for; a plain `SpoolrackError` for an unknown
    one."""
    kind = _BY_REASON.get(reason, SpoolrackError)
    return kind(message, reason=reason, retry_delay=retry_delay, metadata=metadata)


_FORMER: Final = {"BY_REASON": "_BY_REASON", "error_of": "_error_of"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _former_name(sys.modules[__name__], name, _FORMER)
