"""Translation of a gRPC status into the client's errors.

A status with the server's `ErrorInfo` is the server's word: its reason names the error. A status
without one was made by gRPC, on either side, or by a proxy on the way, and has a table of its own. Most
of these are transient: the connection broke, or a proxy reached no server.
"""

from __future__ import annotations

import re
from http.client import responses
from typing import Any, Final

import grpc
from google.rpc.status_pb2 import Status

from ..errors import (
    ClientClosed,
    InvalidRequest,
    MessageTooLarge,
    PermissionDenied,
    SpoolrackError,
    Timeout,
    Unauthenticated,
    Unreachable,
)
from .grpc_channels import proxy_hint
from .grpc_values import server_error

DETAILS_KEY: Final = "grpc-status-details-bin"
# Texts of gRPC, which has no code for these.
_HTTP_STATUS: Final = re.compile(r"http2 header with status: (\d{3})")
"""Of a response without a gRPC status."""
_TOO_LARGE: Final = "message larger than max"
"""Of a message above the limit of either side."""
_EXCEPTION: Final = "Exception "
"""Of a defect on either side, such as a message that can't be read."""
_TRANSIENT: Final = {
    404: "it has no route to the server",
    408: "the call took longer than its time-out",
    421: "it doesn't serve this name on this connection",
    425: "it wants the call again",
    429: "it limits the rate of calls",
    504: "the call took longer than its time-out",
}
"""Reasons by HTTP status, of a proxy that may let the same call pass later."""


def error_from(
    error: Any, target: str, timeout: float | None = None, *, is_ours: bool
) -> SpoolrackError:
    """Return the error of a failed call.

    `timeout`: the call's deadline; None: it had none. `is_ours`: whether a cancelled call may have been
    cancelled on this side.
    """
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            told = server_error(Status.FromString(value))
            if told is not None:
                return told
    code, text = error.code(), error.details() or ""
    http = _HTTP_STATUS.search(text)
    if http is not None:
        return _of_http(int(http[1]), target)
    match code:
        case grpc.StatusCode.CANCELLED if is_ours:
            return ClientClosed("The call was cancelled: its client or its stream was closed.")
        case grpc.StatusCode.CANCELLED:
            # By a server that stops: it may have done what was asked, or not have looked at it.
            return Unreachable(f"The server at {target} has ended the call.")
        case grpc.StatusCode.DEADLINE_EXCEEDED if timeout is not None:
            return Timeout(
                f"No answer from {target} within {timeout:.3g} s: it may have taken place all the same."
                f"{proxy_hint(target)}"
            )
        case grpc.StatusCode.UNAVAILABLE:
            return Unreachable(f"{_why_unreachable(target, text)} ({text}){proxy_hint(target)}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if _TOO_LARGE in text:
            return MessageTooLarge(
                f"{target} refused the call for its size: send less at once, and a body above 64 MiB "
                f"over HTTP. ({text})"
            )
        case grpc.StatusCode.UNAUTHENTICATED:
            return Unauthenticated(f"A proxy at {target} refused the caller's credentials. ({text})")
        case grpc.StatusCode.PERMISSION_DENIED:
            return PermissionDenied(f"A proxy at {target} refused the call. ({text})")
        case grpc.StatusCode.UNIMPLEMENTED:
            return InvalidRequest(
                f"{target} doesn't know this call: it is no Spoolrack server, or one of "
                f"another version. ({text})"
            )
        case (
            grpc.StatusCode.INTERNAL
            | grpc.StatusCode.UNKNOWN
            | grpc.StatusCode.RESOURCE_EXHAUSTED
            | grpc.StatusCode.DEADLINE_EXCEEDED
        ) if not text.startswith(_EXCEPTION):
            return Unreachable(
                f"The call to {target} broke off: the connection, or a proxy on the way, ended it. "
                f"({code.name}: {text})"
            )
        case _:
            return SpoolrackError(f"{target} answered {code.name}: {text}", reason=code.name)


def ended(target: str) -> SpoolrackError:
    """Return the error of a stream that ended against the contract."""
    return Unreachable(f"The server at {target} ended the stream.")


def _of_http(status: int, target: str) -> SpoolrackError:
    """Return the error of a response that a proxy made without gRPC."""
    answer = f"A proxy at {target} answered HTTP {status} ({responses.get(status, 'unknown')})"
    match status:
        case 401 | 407:
            return Unauthenticated(f"{answer}: it wants credentials, or refuses the caller's.")
        case 403:
            return PermissionDenied(f"{answer}: it refuses the call.")
        case 413:
            return MessageTooLarge(
                f"{answer}: raise its limit for request bodies, or send less at once."
            )
        case _ if status in _TRANSIENT or status >= 500:
            return Unreachable(f"{answer}: {_TRANSIENT.get(status, 'it reaches no server')}.")
        case _:
            return SpoolrackError(f"{answer}: no gRPC is served there. Check the address and the port.")


def _why_unreachable(target: str, text: str) -> str:
    """Translate gRPC's text for UNAVAILABLE; TLS errors have no code of their own."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            f"TLS with {target} failed: the server's certificate has expired, or no CA that this "
            "client trusts has signed it. Name its CA: ca=, --ca."
        )
    if "WRONG_VERSION_NUMBER" in text:
        return f"TLS with {target} failed: no TLS is spoken there. Use grpc://, or another port."
    if "missing selected ALPN" in text:
        return (
            f"{target} speaks TLS and not gRPC: it may be the server's port for HTTPS or SQS, or a "
            "proxy without HTTP/2. Use the port for gRPC (50051 unless serve --grpc says another)."
        )
    if "andshake failed" in text:
        return f"TLS with {target} failed: client or server refuses what the other one shows."
    if "http1.x server" in text or "Failed parsing HTTP/2" in text:
        return (
            f"{target} speaks HTTP/1 and not gRPC: it may be the server's port for HTTP or SQS, or a "
            "proxy. Use the port for gRPC (50051 unless serve --grpc says another)."
        )
    if "address lookup failed" in text or "hostname lookup error" in text:
        return f"The name of {target} can't be resolved: check the host name."
    if "Hostname Verification Check failed" in text:
        return (
            f"TLS with {target} failed: the server's certificate is for other names than this one. "
            "Connect by a name of the certificate, or get one for this name."
        )
    if "failed to connect" in text and "Socket closed" in text:
        # With TLS 1.3 a client's certificate is refused after the handshake: gRPC hides the alert.
        return (
            f"{target} closes each new connection. With grpcs:// the server may want a client's "
            "certificate, or refuse the one that it is shown (certificate=, --certificate). With "
            "grpc:// it may want TLS: use grpcs://."
        )
    more = (
        " localhost may have two addresses, and this is the error of one: try 127.0.0.1."
        if target.startswith("localhost:")
        else ""
    )
    return (
        f"No answer from {target}: is a Spoolrack server there? Start one with spoolrack serve, or "
        f"check host and port.{more}"
    )
