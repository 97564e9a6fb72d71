"""Errors read from a `google.rpc.Status`, in trailers and in the results of messages."""

from __future__ import annotations

from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status


def info_of(status: Status) -> ErrorInfo:
    """Return the `ErrorInfo`; an empty one of a status without details."""
    info = ErrorInfo()
    for detail in status.details[:1]:
        assert detail.Unpack(info)
        assert info.domain == "spoolrack"
    return info


def reason_of(status: Status) -> str:
    """Return the stable reason; empty if there is no error."""
    return info_of(status).reason


def retry_millis_of(status: Status) -> int | None:
    """Return the retry delay; None without a `RetryInfo`."""
    retry = RetryInfo()
    has_retry = len(status.details) > 1 and status.details[1].Unpack(retry)
    return retry.retry_delay.ToMilliseconds() if has_retry else None
