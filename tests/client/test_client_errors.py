"""Errors: every reason has a class, and docs/reference/errors.md tells the truth about each."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import grpc
import pytest
from spoolrack import errors
from spoolrack.errors import _BY_REASON, QueueFull, SpoolrackError, _error_of
from spoolrack_server.wire.status import CODES, HTTP_CODES, INTERNAL

from tests import CHECKOUT

DOCS = CHECKOUT / "docs" / "reference" / "errors.md"
OURS = {
    "UNKNOWN",
    "UNREACHABLE",
    "TIMEOUT",
    "INVALID_URL",
    "INVALID_CREDENTIALS",
    "UNSUPPORTED",
    "CLIENT_CLOSED",
    "FORKED_CLIENT",
    # For these a store doesn't open.
    "ROOT_UNUSABLE",
    "ROOT_IN_USE",
    "UNKNOWN_FORMAT",
    "DAMAGED_SETTINGS",
}
"""Reasons that come to be on this side."""


@pytest.mark.parametrize(("reason", "code"), [*CODES.items(), (INTERNAL.reason, INTERNAL.code)])
def test_every_reason_of_the_server_has_a_class(reason: str, code: grpc.StatusCode) -> None:
    error = _error_of(reason, "an event", metadata={"queue": "jobs"})
    assert type(error) is _BY_REASON[reason]
    assert type(error) is not SpoolrackError
    assert (error.reason, error.code) == (reason, code.name)
    assert (str(error), error.metadata) == ("an event", {"queue": "jobs"})


def test_every_class_is_of_a_reason() -> None:
    assert set(_BY_REASON) == {*CODES, INTERNAL.reason, *OURS}


def test_a_reason_of_the_future_is_an_error_as_well() -> None:
    error = _error_of("NEWER", "an event")
    assert (type(error), error.reason) == (SpoolrackError, "NEWER")


def test_errors_survive_copies_and_pickles() -> None:
    error = QueueFull("full", retry_delay=timedelta(seconds=1), metadata={"queue": "jobs"})
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is QueueFull
        assert (str(twin), twin.retry_delay, twin.metadata) == (
            "full",
            error.retry_delay,
            error.metadata,
        )


def test_an_error_without_a_message_says_what_its_class_means() -> None:
    assert str(errors.ForkedClient()).startswith("The client was opened in another process")


def test_the_builtin_errors_are_ours_too() -> None:
    assert issubclass(errors.Timeout, TimeoutError)
    assert issubclass(errors.Unreachable, ConnectionError)
    assert issubclass(errors.InvalidUrl, ValueError)


@pytest.mark.parametrize("kind", sorted(_BY_REASON.values(), key=lambda kind: kind.reason))
def test_the_table_in_the_docs_is_true(kind: type[SpoolrackError]) -> None:
    (row,) = [
        [cell.strip().strip("`") for cell in line.strip("|\n ").split("|")]
        for line in DOCS.read_text().splitlines()
        if line.startswith(f"| `{kind.__name__}`")
    ]
    repeated = kind is not errors.OutcomeUnknown and (
        kind().retryable
        or kind.__name__ in {"QueueFull", "DiskFull", "MemoryLimit", "QueueBeingDeleted"}
        or kind.__name__ in {"DiskError", "StoreFailed", "TooManyDeduplicationIds"}
    )
    assert row[1:3] == [kind.reason, kind.code]
    assert row[-2] == ("yes" if repeated else "no")
    if kind.reason not in OURS:
        assert row[3] == str(HTTP_CODES.get(kind.reason, INTERNAL.http_code))
