"""Errors on the wire: the one table from the store's reasons to codes.

Owns the one form of an error: `google.rpc.Status` with `ErrorInfo`, and `RetryInfo` where a repetition
may succeed. A failed call has it in its trailers, one message of many in its result. Knows nothing of
sockets or of the store's work. A reason that is not in the table is a defect: the caller logs it and
answers `INTERNAL_ERROR`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError

from .convert import duration

DOMAIN: Final = "spoolrack"
DETAILS_KEY: Final = "grpc-status-details-bin"
"""Where gRPC carries a `google.rpc.Status`, in every language."""

_CODES: Final[Mapping[str, tuple[StatusCode, int]]] = {
    "INVALID_QUEUE_NAME": (StatusCode.INVALID_ARGUMENT, 400),
    "INVALID_SETTING": (StatusCode.INVALID_ARGUMENT, 400),
    "INVALID_REQUEST": (StatusCode.INVALID_ARGUMENT, 400),
    "INVALID_MESSAGE": (StatusCode.INVALID_ARGUMENT, 400),
    "INVALID_RECEIPT": (StatusCode.INVALID_ARGUMENT, 400),
    "MESSAGE_TOO_LARGE": (StatusCode.INVALID_ARGUMENT, 413),
    "ATTRIBUTES_TOO_LARGE": (StatusCode.INVALID_ARGUMENT, 431),
    "UNAUTHENTICATED": (StatusCode.UNAUTHENTICATED, 401),
    "PERMISSION_DENIED": (StatusCode.PERMISSION_DENIED, 403),
    "QUEUE_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "MESSAGE_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "STAGE_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "RESERVATION_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "REDRIVE_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "SCHEDULE_NOT_FOUND": (StatusCode.NOT_FOUND, 404),
    "SCHEDULE_EXISTS": (StatusCode.ALREADY_EXISTS, 409),
    "QUEUE_EXISTS": (StatusCode.ALREADY_EXISTS, 409),
    "VERSION_MISMATCH": (StatusCode.ABORTED, 412),
    "STALE_RECEIPT": (StatusCode.FAILED_PRECONDITION, 412),
    "STAGE_INCOMPLETE": (StatusCode.FAILED_PRECONDITION, 412),
    "EPOCH_DIFFERS": (StatusCode.FAILED_PRECONDITION, 412),
    "EPOCH_PASSED": (StatusCode.FAILED_PRECONDITION, 412),
    "CHUNK_DIFFERS": (StatusCode.FAILED_PRECONDITION, 412),
    "NAME_TAKEN": (StatusCode.ALREADY_EXISTS, 409),
    "RESERVATION_LOST": (StatusCode.FAILED_PRECONDITION, 412),
    "RESERVATION_COMMITTED": (StatusCode.FAILED_PRECONDITION, 412),
    "RESERVATION_UNREAD": (StatusCode.FAILED_PRECONDITION, 412),
    "ROOT_DIFFERS": (StatusCode.FAILED_PRECONDITION, 412),
    "WRONG_SHARD": (StatusCode.FAILED_PRECONDITION, 421),
    "REDRIVE_RUNNING": (StatusCode.FAILED_PRECONDITION, 409),
    "NO_DEAD_LETTER_QUEUE": (StatusCode.FAILED_PRECONDITION, 409),
    "SENDING_PAUSED": (StatusCode.FAILED_PRECONDITION, 409),
    # softlayer/mq has one answer for whatever can't be guaranteed: retry after so many seconds.
    "QUEUE_FULL": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "TOO_MANY_DEDUPLICATION_IDS": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "TOO_MANY_WRITERS": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "TOO_MANY_RESERVATIONS": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "DISK_FULL": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "MEMORY_LIMIT": (StatusCode.RESOURCE_EXHAUSTED, 503),
    "QUEUE_BEING_DELETED": (StatusCode.UNAVAILABLE, 503),
    "DISK_ERROR": (StatusCode.UNAVAILABLE, 503),
    "DRAINING": (StatusCode.UNAVAILABLE, 503),
    "STORE_FAILED": (StatusCode.UNAVAILABLE, 503),
    "OUTCOME_UNKNOWN": (StatusCode.UNKNOWN, 503),
    "MESSAGE_DAMAGED": (StatusCode.DATA_LOSS, 500),
}
"""Every reason that a client can meet, with its code of gRPC and its status of HTTP, which never
change."""
CODES: Final = {reason: code for reason, (code, _) in _CODES.items()}
HTTP_CODES: Final = {reason: status for reason, (_, status) in _CODES.items()}


LONGEST_MESSAGE: Final = 1_500
LONGEST_VALUE: Final = 120
"""Bytes of a value in an error: it may hold anything that a client sent, and the end of a call has 8
KiB of headers, in which a byte of the message takes up to three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure, ready for the wire."""

    code: StatusCode
    http_code: int
    reason: str
    message: str
    metadata: Mapping[str, str]
    retry_after: Millis | None = None

    @property
    def number(self) -> int:
        """The code as a number of gRPC."""
        number: int = self.code.value[0]
        return number

    def status(self) -> Status:
        """Return the failure as a status with details: for the trailers of a failed call, and the
        result of one message of many."""
        info = Any()
        info.Pack(ErrorInfo(domain=DOMAIN, reason=self.reason, metadata=self.metadata))
        details = [info]
        if self.retry_after is not None:
            retry = Any()
            retry.Pack(RetryInfo(retry_delay=duration(self.retry_after)))
            details.append(retry)
        return Status(code=self.number, message=self.message, details=details)

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Return the trailing metadata of a failed call."""
        return ((DETAILS_KEY, self.status().SerializeToString()),)


INTERNAL: Final = Failure(
    code=StatusCode.INTERNAL,
    http_code=500,
    reason="INTERNAL_ERROR",
    message="The server made a mistake, and its log says more: please report it.",
    metadata={},
)
"""The failure that a client sees for a defect of the server."""


def failure_of(error: StoreError) -> Failure | None:
    """Return the failure of `error` for the wire; None for an error that must not reach a client."""
    code = CODES.get(error.reason)
    if code is None:
        return None
    return Failure(
        code=code,
        http_code=HTTP_CODES[error.reason],
        reason=error.reason,
        message=_text(str(error), LONGEST_MESSAGE),
        metadata={name: _text(str(fact), LONGEST_VALUE) for name, fact in error.facts.items()},
        retry_after=error.retry_after,
    )


def status_of(error: StoreError) -> Status:
    """Return the error in the result of a message that failed with `error`."""
    return (failure_of(error) or INTERNAL).status()


def _text(text: str, longest: int) -> str:
    # A file's name may hold bytes that are no text, and the wire takes only valid UTF-8.
    raw = text.encode(errors="replace")
    if len(raw) <= longest:
        return raw.decode()
    ellipsis = "…"
    return raw[: longest - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
