"""HTTP's form of an error: a status and a small JSON object.

The store's errors come by `status`'s table. Those that only HTTP knows have their classes here, each
with its status; reason and message come as the store's do. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar, Final

from aiohttp import web
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..access.access_control import CHALLENGE
from ..wire.status import INTERNAL, Failure, failure_of

RETRY_AFTER: Final = Millis(10_000)
"""Where the store doesn't say when to try again: softlayer/mq's own ten seconds."""

UNAVAILABLE: Final = 503


class GatewayError(StoreError):
    """The request is refused before its use case."""

    http_code: ClassVar[int]

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response, beside those of all errors."""
        return {}


class NoSuchPage(GatewayError):
    """Nothing is served at {path}: messages are at /QUEUE/messages, and /-/openapi.json lists all
    paths."""

    http_code = 404


class WrongHost(GatewayError):
    """This server serves this machine only, and the request's host is {host!r}: use localhost or an
    address, or start the server with {options}."""

    http_code = 421


class CrossOrigin(GatewayError):
    """A page of another site ({origin!r}) can't change anything here. A program sends neither Origin
    nor Sec-Fetch-Site; a proxy in front of the dashboard keeps Host, or sets X-Forwarded-Host."""

    http_code = 403


class UnknownParameter(GatewayError):
    """There is no parameter {name!r}: {remedy}."""

    http_code = 400


class MethodNotAllowed(GatewayError):
    """{method} can't be done at {path}: {remedy}."""

    http_code = 405

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Allow": str(self.facts["allowed"])}


class UnreadableBody(GatewayError):
    """The body can't be read: {why}."""

    http_code = 400


class SettingsTooLarge(GatewayError):
    """The JSON of a request, such as a queue's settings, has {limit} bytes at most: send less."""

    http_code = 413


class UploadTooSlow(GatewayError):
    """The body arrived too slowly, {size} bytes of it: nothing is stored. Try again."""

    http_code = 408


class TooManyUploads(GatewayError):
    """Uploads fill the memory that is reserved for them: try again later."""

    http_code = UNAVAILABLE
    retry_after = Millis(1_000)


class RangeNotSatisfiable(GatewayError):
    """The body has {size} bytes, and none in this range: use a range within it."""

    http_code = 416

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Content-Range": f"bytes */{self.facts['size']}"}


def response_to(error: StoreError) -> web.Response | None:
    """Return the HTTP error of `error`; None for one that must not reach a client."""
    if isinstance(error, GatewayError):
        return _answer(error.http_code, error.reason, str(error), {}, error.headers, error.retry_after)
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
