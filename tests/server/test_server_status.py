"""Errors as a client reads them: the code, the reason, the facts, and whether to try again."""

from __future__ import annotations

import inspect
import re
from string import Formatter

import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from spoolrack_server.wire import status
from spoolrack_store.model import errors
from spoolrack_store.model.errors import StoreError

from tests.support.statuses import reason_of

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, StoreError) and kind is not StoreError
]
HEADER_LIMIT = 8 * 1024
AT_START = {
    "ROOT_UNUSABLE",
    "ROOT_IN_USE",
    "UNKNOWN_FORMAT",
    "DAMAGED_SETTINGS",
    "TORN_SETTINGS",
    "TARGET_UNUSABLE",
}
"""Reasons for which a store doesn't open, or no snapshot is taken: no client of a server meets them."""


def example(kind: type[StoreError], fact: object = "x") -> StoreError:
    text = inspect.getdoc(kind) or ""
    return kind(**{name: fact for _, name, _, _ in Formatter().parse(text) if name})


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_the_store_has_a_code_or_is_met_only_at_a_start(kind: type[StoreError]) -> None:
    assert (kind.reason in status.CODES) != (kind.reason in AT_START), kind.reason


def test_the_table_holds_no_reason_that_the_store_does_not_have() -> None:
    known = {kind.reason for kind in KINDS}
    assert known | {status.INTERNAL.reason} == status.CODES.keys() | AT_START


@pytest.mark.parametrize("reason", status.CODES)
def test_a_reason_is_a_name_that_google_rpc_allows(reason: str) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]{0,61}[A-Z0-9]", reason)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.reason in status.CODES])
def test_a_failed_call_carries_the_same_facts_as_the_result_of_one_message(
    kind: type[StoreError],
) -> None:
    raised = example(kind)
    failure = status.failure_of(raised)
    assert failure is not None
    ((key, raw),) = failure.trailing_metadata()
    rich = Status.FromString(raw)
    assert rich == status.status_of(raised)
    info, retry = ErrorInfo(), RetryInfo()
    assert rich.details[0].Unpack(info)
    assert key == "grpc-status-details-bin"
    assert info.domain == "spoolrack"
    assert rich.code == failure.code.value[0]
    assert rich.message == failure.message == str(raised)
    assert info.reason == kind.reason
    assert dict(info.metadata) == dict.fromkeys(raised.facts, "x")
    if kind.retry_after is None:
        assert len(rich.details) == 1
    else:
        assert rich.details[1].Unpack(retry)
        assert retry.retry_delay.ToMilliseconds() == kind.retry_after


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.reason in status.CODES])
@pytest.mark.parametrize(
    "fact", ["a" * 10_000_000, "\N{SNAKE}" * 1_000, "\U000f0000" * 1_000, "\0" * 999]
)
def test_a_client_s_text_never_overflows_the_headers_of_the_answer(
    kind: type[StoreError], fact: str
) -> None:
    failure = status.failure_of(example(kind, fact))
    assert failure is not None
    ((_, raw),) = failure.trailing_metadata()
    percent_encoded = 3 * len(failure.message.encode())
    assert percent_encoded + len(raw) * 4 / 3 < HEADER_LIMIT


def test_a_file_name_that_is_no_text_can_be_told() -> None:
    failure = status.failure_of(errors.DiskError(detail="queues/\udcff"))
    assert failure is not None
    assert failure.status().SerializeToString()


def test_an_error_that_no_client_should_meet_has_no_status() -> None:
    assert status.failure_of(errors.RootInUse(root="x", holder="")) is None
    assert reason_of(status.status_of(errors.RootInUse(root="x", holder=""))) == "INTERNAL_ERROR"
