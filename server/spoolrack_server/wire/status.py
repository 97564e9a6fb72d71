"""Errors on the wire, with the codes of the contract's table of reasons.

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
from spoolrack._contract import reasons
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError

from .convert import duration

DOMAIN: Final = "spoolrack"
DETAILS_KEY: Final = "grpc-status-details-bin"
"""Where gRPC carries a `google.rpc.Status`, in every language."""

CODES: Final = {reason: StatusCode[code] for reason, (code, _) in reasons.CODES.items()}
HTTP_CODES: Final = {reason: status for reason, (_, status) in reasons.CODES.items()}
INTERNAL_ERROR: Final = "INTERNAL_ERROR"

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
    code=CODES[INTERNAL_ERROR],
    http_code=HTTP_CODES[INTERNAL_ERROR],
    reason=INTERNAL_ERROR,
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
