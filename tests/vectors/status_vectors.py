"""The statuses of failed calls: for each reason the bytes that `grpc-status-details-bin` carries.

The facts are made up here; code, text and form are the server's own.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from spoolrack_server.wire.status import CODES, DETAILS_KEY, DOMAIN, INTERNAL, Failure, failure_of
from spoolrack_store.model import errors
from spoolrack_store.model.errors import StoreError

FACTS: Final[dict[str, object]] = {
    "name": "no/name",
    "queue": "jobs",
    "size": 1_048_577,
    "limit": 1_048_576,
    "held": 1_048_576,
    "unit": "messages",
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "sequence_number": 7,
    "committed": 8,
    "what": "max_messages",
    "value": -1,
    "rule": "must be from 1 to 1000",
    "receipt": "\x00 no receipt, 世界",
}
"""Texts of facts; any other fact has its own name as its text."""


def vectors() -> list[dict[str, Any]]:
    """Return each: `reason`, `domain`, `code`, `code_name`, `http_code`, `message`, `metadata`,
    `retry_ms` (null: a repetition can't help), and `binary`, a `google.rpc.Status` in base64."""
    failures = {failure.reason: failure for failure in _failures()}
    assert failures.keys() == CODES.keys()
    return [_vector(failures[reason]) for reason in sorted(failures)]


def _failures() -> Iterator[Failure]:
    yield INTERNAL
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, StoreError) and kind.reason in CODES:
            words = inspect.getdoc(kind) or ""
            facts = {name: FACTS.get(name, name) for name in re.findall(r"{(\w+)(?:![rs])?}", words)}
            failure = failure_of(kind(**facts))
            assert failure is not None
            yield failure


def _vector(failure: Failure) -> dict[str, Any]:
    ((key, raw),) = failure.trailing_metadata()
    assert key == DETAILS_KEY
    status = Status.FromString(raw)
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    # The entries of a map travel in any order: here, in that of their keys.
    status.details[0].Pack(info, deterministic=True)
    return {
        "reason": failure.reason,
        "domain": DOMAIN,
        "code": failure.number,
        "code_name": failure.code.name,
        "http_code": failure.http_code,
        "message": failure.message,
        "metadata": dict(sorted(failure.metadata.items())),
        "retry_ms": failure.retry_after,
        "binary": base64.b64encode(status.SerializeToString()).decode(),
    }
