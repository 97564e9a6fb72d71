"""AWS JSON 1.0: a request's operation and parameters, and the form of responses and errors. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from . import sqs_errors
from .parameters import Parameters
from .sqs_errors import SqsError

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
TARGET: Final = "X-Amz-Target"
ERROR_HEADER: Final = "x-amzn-query-error"
MOST_VALUES: Final = 10_000
"""Values in a request: a batch of ten messages, each with ten attributes, has 500."""
_SERVICE: Final = "AmazonSQS."
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
"""`json.dumps` makes one for each call that names separators."""


def operation_in(target: str) -> str:
    """Return the operation that the header names."""
    if not target.startswith(_SERVICE):
        raise sqs_errors.unknown_operation(f"The header {TARGET} must be {_SERVICE}<operation>.")
    return target.removeprefix(_SERVICE)


def parameters_in(body: bytes) -> Parameters:
    if _values_in(body) > MOST_VALUES:
        raise sqs_errors.unreadable(f"The body has over {MOST_VALUES} values.")
    try:
        found = value_in(body.decode("utf-8-sig", "surrogatepass")) if body else {}
    except ValueError as error:
        raise sqs_errors.unreadable(f"The body is not JSON: {str(error)[:200]}.") from error
    if not isinstance(found, dict):
        raise sqs_errors.unreadable("The body must be an object of JSON.")
    return Parameters(found)


def value_in(text: str | bytes) -> Any:
    """Return the value of a JSON text; raise `ValueError`, also for one that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _values_in(body: bytes) -> int:
    """Return how many values a body of JSON has, about.

    Counting takes a hundredth of the time of parsing, which holds the interpreter's lock all the while.
    """
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    quotes = unescaped.count(b'"')
    if quotes > 2 * MOST_VALUES:
        return quotes // 2
    outside = b"".join(unescaped.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{")))


def response(operation: str, content: Mapping[str, Any], request_id: str) -> bytes:
    return _ENCODER.encode(content).encode()


def error_response(error: SqsError, request_id: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an error."""
    content = {"__type": f"com.amazonaws.sqs#{error.shape}", "message": str(error)}
    # Kept within a header's line: the code has none of a client's text.
    return json.dumps(content).encode(), {ERROR_HEADER: f"{error.code};{error.side}"}
