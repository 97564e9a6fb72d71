"""JSON of the contract's messages: one rule for all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1.queue_service_pb2 import ListMessagesRequest
from spoolrack.v1.redrive_service_pb2 import REDRIVE_STATE_RUNNING, Redrive, StartRedriveRequest
from spoolrack.v1.reservation_service_pb2 import ReadReservationRequest, Reservation, ReserveRequest
from spoolrack.v1.schedule_service_pb2 import Schedule
from spoolrack.v1.staging_service_pb2 import Stage
from spoolrack_server.wire.json_form import parsed, rendered
from spoolrack_store.model.errors import InvalidRequest


@pytest.mark.parametrize(
    "kind",
    [pb.Queue, pb.Message, Redrive, Reservation, Schedule, Stage],
    ids=lambda kind: kind.__name__,
)
def test_an_empty_object_is_json_with_all_its_plain_fields(kind: type[pb.Queue]) -> None:
    found = rendered(kind())
    plain = {field.name for field in kind.DESCRIPTOR.fields if not field.has_presence}
    assert found.keys() - {"binary_attributes"} == plain
    assert json.loads(json.dumps(found)) == found


def test_a_time_is_text_a_span_seconds_and_a_choice_its_word() -> None:
    redrive = Redrive(state=REDRIVE_STATE_RUNNING, start_time=Timestamp(seconds=1, nanos=2_000_000))
    found = rendered(redrive)
    assert (found["state"], found["start_time"]) == ("running", "1970-01-01T00:00:01.002Z")
    settings = pb.QueueSettings(retention=Duration(seconds=1, nanos=500_000_000))
    assert rendered(settings)["retention"] == 1.5


def test_an_absent_field_is_left_out_and_null_in_a_part() -> None:
    queue = pb.Queue(counts=pb.QueueCounts(), oldest_leases=[pb.OldLease()])
    found = rendered(queue)
    assert "create_time" not in found
    assert found["counts"]["oldest_age"] is None
    assert found["oldest_leases"][0]["receive_time"] is None


def test_bytes_that_are_no_text_are_base64_under_another_name() -> None:
    message = pb.Message(body=b"\xff")
    message.attributes["a"].string_value = "text"
    message.attributes["b"].binary_value = b"\xff"
    found = rendered(message)
    assert (found["binary_body"], "body" in found) == ("/w==", False)
    assert (found["attributes"], found["binary_attributes"]) == ({"a": "text"}, {"b": "/w=="})
    assert rendered(pb.Message(body="ä".encode()))["body"] == "ä"


def test_a_number_that_no_script_can_count_to_is_text() -> None:
    assert rendered(Reservation(sequence_number=2**63 - 1))["sequence_number"] == str(2**63 - 1)


def test_a_request_is_read_by_the_rule_that_renders_it() -> None:
    schedule = {
        "queue": "q",
        "name": "s",
        "cron": "* * * * *",
        "time_zone": "UTC",
        "group": "é",
        "binary_body": "/w==",
        "attributes": {"a": "text"},
        "binary_attributes": {"b": "/w=="},
    }
    assert {**rendered(parsed(schedule, Schedule)), **schedule} == rendered(parsed(schedule, Schedule))
    settings = {"retention": 1.5, "group_order": "strict", "max_messages": 7, "backoff_jitter": 0}
    assert rendered(parsed(settings, pb.QueueSettings)).items() >= settings.items()


def test_a_query_has_its_numbers_spans_lists_and_flags_as_text() -> None:
    time = "2026-12-24T18:00:00.001Z"
    query = {"queue": "q", "states": "ready,leased", "sent_before": time, "page_size": "7"}
    found = parsed(query, ListMessagesRequest)
    assert [*found.states] == [pb.MESSAGE_STATE_READY, pb.MESSAGE_STATE_LEASED]
    assert (found.page_size, found.sent_before.ToMilliseconds()) == (7, 1_798_135_200_001)
    assert parsed({"mark_read": "true", "begin_index": "3"}, ReadReservationRequest).mark_read
    # Rounded up: a span of less than a millisecond must not become none.
    assert parsed({"wait": "0.0001"}, ReserveRequest).wait.ToMilliseconds() == 1
    for wait in (9.999988984000083, "9.999988984000083"):
        assert parsed({"wait": wait}, ReserveRequest).wait.ToMilliseconds() == 10_000


@pytest.mark.parametrize(
    ("kind", "content", "what"),
    [
        (Schedule, {"paused": True}, "the field"),
        (Schedule, {"body": "a", "binary_body": "YQ=="}, "binary_body"),
        (Schedule, {"attributes": {"a": "x"}, "binary_attributes": {"a": "YQ=="}}, "binary_attributes"),
        (Schedule, {"binary_attributes": {"a": "?"}}, "binary_attributes"),
        (Schedule, {"attributes": ["a"]}, "attributes"),
        (Schedule, {"body": "\ud800"}, "body"),
        (ListMessagesRequest, {"states": "gone"}, "states"),
        (ListMessagesRequest, {"states": "unspecified"}, "states"),
        (ListMessagesRequest, {"sent_since": "2026-12-24T18:00:00"}, "sent_since"),
        (ListMessagesRequest, {"page_size": "1.0"}, "page_size"),
        (ListMessagesRequest, {"page_size": str(2**31)}, "page_size"),
        (ReserveRequest, {"wait": float("inf")}, "wait"),
        (ReserveRequest, {"wait": False}, "wait"),
        (ReserveRequest, {"wait": "-1"}, "wait"),
        (StartRedriveRequest, {"message_ids": "a", "queue": None}, "queue"),
        (ReadReservationRequest, {"mark_read": 1.5}, "mark_read"),
        (ReadReservationRequest, {"mark_read": "TRUE"}, "mark_read"),
    ],
)
def test_a_request_that_cannot_be_is_refused_by_its_field(
    kind: type[Schedule], content: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(content, kind)
    assert refused.value.facts["what"] == what
