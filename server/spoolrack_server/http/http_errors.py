"""HTTP's form of an error: a status and a small JSON object.

The store's errors come by `status`'s table. Those that only HTTP knows have their classes here, each
with its reason, which never changes, and its status. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from aiohttp import web
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError, Unauthenticated
from spoolrack_store.model.terminal_text import printable

from ..access.access_control import CHALLENGE
from ..wire.status import INTERNAL, Failure, failure_of

RETRY_AFTER: Final = Millis(10_000)
"""Where the store doesn't say when to try again: softlayer/mq's own ten seconds."""

UNAVAILABLE: Final = 503


class GatewayError(Exception):
    """An error of a request before the store; its message is for the client."""

    reason: ClassVar[str]
    http_code: ClassVar[int]

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(printable(message))
        self.headers = headers or {}


class NoSuchPage(GatewayError):
    reason = "NO_SUCH_PAGE"
    http_code = 404

    def __init__(self, path: str) -> None:
        super().__init__(
            f"Nothing is served at {path[:200]}: messages are at /QUEUE/messages, and "
            "/-/openapi.json lists all paths."
        )


class WrongHost(GatewayError):
    reason = "WRONG_HOST"
    http_code = 421

    def __init__(self, host: str) -> None:
        super().__init__(
            f"This server serves this machine only, and the request's host is {host[:100]!r}: use "
            "localhost or an address, or start the server with --tokens."
        )


class CrossOrigin(GatewayError):
    reason = "CROSS_ORIGIN"
    http_code = 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"A page of another site ({origin[:100]!r}) can't change anything here. A program sends "
            "neither Origin nor Sec-Fetch-Site; a proxy in front of the dashboard keeps Host, or sets "
            "X-Forwarded-Host."
        )


class UnknownParameter(GatewayError):
    reason = "UNKNOWN_PARAMETER"
    http_code = 400

    def __init__(self, name: str, parameters: Collection[str]) -> None:
        allowed = f"use {', '.join(sorted(parameters))}" if parameters else "there are none here"
        super().__init__(f"There is no parameter {name[:100]!r}: {allowed}.")


class MethodNotAllowed(GatewayError):
    reason = "METHOD_NOT_ALLOWED"
    http_code = 405

    def __init__(self, method: str, path: str, allowed: set[str], *, is_sqs: bool) -> None:
        """`is_sqs`: it looks like a call of Amazon SQS, which has a port of its own."""
        names = ", ".join(sorted(allowed))
        told = f"use {names}"
        if is_sqs:
            told = "this is the HTTP port, and SQS is served at the port of serve --sqs"
        super().__init__(f"{method[:20]} can't be done at {path[:200]}: {told}.", {"Allow": names})


class UnreadableBody(GatewayError):
    reason = "UNREADABLE_BODY"
    http_code = 400

    def __init__(self, why: str) -> None:
        super().__init__(f"The body can't be read: {why[:200]}.")


class SettingsTooLarge(GatewayError):
    reason = "SETTINGS_TOO_LARGE"
    http_code = 413

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The JSON of a request, such as a queue's settings, has {limit} bytes at most: send less."
        )


class UploadTooSlow(GatewayError):
    reason = "UPLOAD_TOO_SLOW"
    http_code = 408

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The body arrived too slowly, {size} bytes of it: nothing is stored. Try again."
        )


class TooManyUploads(GatewayError):
    reason = "TOO_MANY_UPLOADS"
    http_code = UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("Uploads fill the memory that is reserved for them: try again later.")


class RangeNotSatisfiable(GatewayError):
    reason = "RANGE_NOT_SATISFIABLE"
    http_code = 416

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The body has {size} bytes, and none in this range: use a range within it.",
            {"Content-Range": f"bytes */{size}"},
        )


def response_to(error: StoreError | GatewayError) -> web.Response | None:
    """Return the HTTP error of `error`; None for one that must not reach a client."""
    if isinstance(error, GatewayError):
        retry_after = Millis(1_000) if error.http_code == UNAVAILABLE else None
        return _answer(error.http_code, error.reason, str(error), {}, error.headers, retry_after)
    failure = failure_of(error)
    if failure is None:
        return None
    response = _of(failure)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def internal_error() -> web.Response:
    """Return the HTTP error of a defect of the server."""
    return _of(INTERNAL)


def _of(failure: Failure) -> web.Response:
    retry_after = failure.retry_after
    if failure.http_code == UNAVAILABLE:
        retry_after = retry_after or RETRY_AFTER
    return _answer(
        failure.http_code, failure.reason, failure.message, failure.metadata, {}, retry_after
    )


def _answer(
    code: int,
    reason: str,
    message: str,
    metadata: Mapping[str, str],
    headers: Mapping[str, str],
    retry_after: Millis | None,
) -> web.Response:
    content = {"reason": reason, "message": message, "metadata": dict(metadata)}
    # A value from a header may be no text.
    body = (json.dumps(content, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
    response = web.Response(
        status=code, body=body, content_type="application/json", charset="utf-8", headers=headers
    )
    if retry_after is not None:
        # Whole seconds, and never 0: a retry at once would only fail again.
        response.headers["Retry-After"] = str(-(-retry_after // 1_000))
    return response
