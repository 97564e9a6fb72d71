"""JSON of the contract's messages: one rule for all of them."""

from __future__ import annotations

import json

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1.redrive_service_pb2 import REDRIVE_STATE_RUNNING, Redrive
from spoolrack.v1.reservation_service_pb2 import Reservation
from spoolrack.v1.schedule_service_pb2 import Schedule
from spoolrack.v1.staging_service_pb2 import Stage
from spoolrack_server.wire.json_form import rendered


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
