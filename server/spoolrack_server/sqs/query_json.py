"""AWS Query with the header `Accept: application/json`: the request is a form, the response JSON.

Maps are lists of names and values, as in XML. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from .query_protocol import text_of
from .sqs_errors import SqsError

CONTENT_TYPE: Final = "application/json"
_NAMES: Final = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""The lists that have another name than in AWS JSON 1.0."""


def response(operation: str, content: Mapping[str, Any], request_id: str) -> bytes:
    document = {
        f"{operation}Response": {
            f"{operation}Result": _structure(content),
            "ResponseMetadata": {"RequestId": request_id},
        }
    }
    return json.dumps(document).encode()


def error_response(error: SqsError, request_id: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an error."""
    told = {"Type": error.side, "Code": error.code, "Message": text_of(error), "Detail": None}
    return json.dumps({"Error": told, "RequestId": request_id}).encode(), {}


def _structure(content: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): _value(name, value) for name, value in content.items()}


def _value(name: str, value: Any) -> Any:
    match value:
        case list():
            return [_structure(each) if isinstance(each, dict) else each for each in value]
        case dict():
            key = "Key" if name == "Tags" else "Name"
            return [{key: each, "Value": inner} for each, inner in value.items()]
    return value
