"""Errors: every reason has a class, and docs/reference/errors.md tells the truth about each."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from http.client import responses

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata
from spoolrack import errors
from spoolrack._transports.grpc_errors import error_from
from spoolrack.errors import _BY_REASON, QueueFull, SpoolrackError, _error_of
from spoolrack_server.wire.status import CODES, HTTP_CODES

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
    "WRONG_EVENT_LOOP",
    # For these a store doesn't open.
    "ROOT_UNUSABLE",
    "ROOT_IN_USE",
    "UNKNOWN_FORMAT",
    "DAMAGED_SETTINGS",
}
"""Reasons that come to be on this side."""


@pytest.mark.parametrize(("reason", "code"), CODES.items())
def test_every_reason_of_the_server_has_a_class(reason: str, code: grpc.StatusCode) -> None:
    error = _error_of(reason, "an event", metadata={"queue": "jobs"})
    assert type(error) is _BY_REASON[reason]
    assert type(error) is not SpoolrackError
    assert (error.reason, error.code) == (reason, code.name)
    assert (str(error), error.metadata) == ("an event", {"queue": "jobs"})


def test_every_class_is_of_a_reason() -> None:
    assert set(_BY_REASON) == {*CODES, *OURS}


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
        or kind.__name__ in {"DiskError", "StoreFailed"}
        or kind.__name__.startswith("TooMany")
    )
    assert row[1:3] == [kind.reason, kind.code]
    assert row[-2] == ("yes" if repeated else "no")
    if kind.reason not in OURS:
        assert row[3] == str(HTTP_CODES[kind.reason])


AT = "queue.example:443"
BROKEN = f"The call to {AT} broke off: the connection, or a proxy on the way, ended it."
DENIED = f"A proxy at {AT} refused the call. (no)"
TOO_LARGE = "Received message larger than max (9 vs. 4)"


@pytest.mark.parametrize(
    ("code", "text", "kind", "told"),
    [
        ("CANCELLED", "", errors.Unreachable, f"The server at {AT} has ended the call."),
        (
            "RESOURCE_EXHAUSTED",
            TOO_LARGE,
            errors.MessageTooLarge,
            f"{AT} refused the call for its size: send less at once, and a body above 64 MiB "
            f"over HTTP. ({TOO_LARGE})",
        ),
        ("RESOURCE_EXHAUSTED", "quota", errors.Unreachable, f"{BROKEN} (RESOURCE_EXHAUSTED: quota)"),
        ("INTERNAL", "reset", errors.Unreachable, f"{BROKEN} (INTERNAL: reset)"),
        ("UNKNOWN", "", errors.Unreachable, f"{BROKEN} (UNKNOWN: )"),
        ("DEADLINE_EXCEEDED", "late", errors.Unreachable, f"{BROKEN} (DEADLINE_EXCEEDED: late)"),
        ("INTERNAL", "Exception x", SpoolrackError, f"{AT} answered INTERNAL: Exception x"),
        ("DATA_LOSS", "gone", SpoolrackError, f"{AT} answered DATA_LOSS: gone"),
        (
            "UNAUTHENTICATED",
            "who",
            errors.Unauthenticated,
            f"A proxy at {AT} refused the caller's credentials. (who)",
        ),
        ("PERMISSION_DENIED", "no", errors.PermissionDenied, DENIED),
        (
            "UNIMPLEMENTED",
            "?",
            errors.InvalidRequest,
            f"{AT} doesn't know this call: it is no Spoolrack server, or one of another version. (?)",
        ),
        (
            "UNAVAILABLE",
            "address lookup failed",
            errors.Unreachable,
            f"The name of {AT} can't be resolved: check the host name. (address lookup failed)",
        ),
        (
            "UNAVAILABLE",
            "Handshake failed",
            errors.Unreachable,
            f"TLS with {AT} failed: client or server refuses what the other one shows. "
            "(Handshake failed)",
        ),
    ],
)
def test_a_status_without_a_reason_is_told_as_what_it_means(
    code: str, text: str, kind: type[SpoolrackError], told: str
) -> None:
    status = AioRpcError(grpc.StatusCode[code], Metadata(), Metadata(), details=text)
    error = error_from(status, AT, is_ours=False)
    reason = code if kind is SpoolrackError else kind.reason
    assert (type(error), str(error), error.reason) == (kind, told, reason)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, SpoolrackError, "no gRPC is served there. Check the address and the port."),
        (401, errors.Unauthenticated, "it wants credentials, or refuses the caller's."),
        (403, errors.PermissionDenied, "it refuses the call."),
        (404, errors.Unreachable, "it has no route to the server."),
        (407, errors.Unauthenticated, "it wants credentials, or refuses the caller's."),
        (408, errors.Unreachable, "the call took longer than its time-out."),
        (413, errors.MessageTooLarge, "raise its limit for request bodies, or send less at once."),
        (421, errors.Unreachable, "it doesn't serve this name on this connection."),
        (425, errors.Unreachable, "it wants the call again."),
        (429, errors.Unreachable, "it limits the rate of calls."),
        (499, SpoolrackError, "no gRPC is served there. Check the address and the port."),
        (500, errors.Unreachable, "it reaches no server."),
        (504, errors.Unreachable, "the call took longer than its time-out."),
    ],
)
def test_a_status_of_http_is_told_as_that_of_a_proxy(
    status: int, kind: type[SpoolrackError], told: str
) -> None:
    text = f"Received http2 header with status: {status}"
    error = error_from(
        AioRpcError(grpc.StatusCode.UNKNOWN, Metadata(), Metadata(), details=text), AT, is_ours=False
    )
    answer = f"A proxy at {AT} answered HTTP {status} ({responses.get(status, 'unknown')})"
    assert (type(error), str(error)) == (kind, f"{answer}: {told}")


def test_a_call_that_was_cancelled_or_late_on_this_side_is_told_as_that() -> None:
    def told(code: str, timeout: float | None) -> SpoolrackError:
        status = AioRpcError(grpc.StatusCode[code], Metadata(), Metadata())
        return error_from(status, AT, timeout, is_ours=True)

    closed, late = told("CANCELLED", None), told("DEADLINE_EXCEEDED", 1.5)
    assert type(closed) is errors.ClientClosed
    assert str(closed) == "The call was cancelled: its client or its stream was closed."
    assert type(late) is errors.Timeout
    assert str(late) == f"No answer from {AT} within 1.5 s: it may have taken place all the same."


def test_a_subclass_of_a_program_keeps_the_reason_and_the_code_of_its_base() -> None:
    class WrongServer(errors.RootDiffers):
        """Of a program."""

    assert (WrongServer.reason, WrongServer.code) == ("ROOT_DIFFERS", "FAILED_PRECONDITION")
