"""Bounds of what a request may say: anything else is refused, and has no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as redrives
from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_server.rpc.services import METHODS

from tests.server.reservation_rig import BIG, asked
from tests.support.method_requests import call, naming, outcome, requests
from tests.support.server_rig import Client, refused

REFUSALS = Path(__file__).with_name("refusals_of_bounds.txt")
"""A line for each request of `BEYOND`."""
DAY = 24 * 3600
NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"
"""An id that nothing has."""
CHUNK = {"stage": "s", "queue": "q", "messages": [pb.OutgoingMessage(body=b"x")]}
BEYOND: list[tuple[str, Any]] = [
    *(
        ("Receive", queues.ReceiveRequest(queue="q", **wrong))
        for wrong in (
            {"max_messages": 1_001},
            {"max_messages": -1},
            {"max_bytes": -1},
            {"wait": Duration(seconds=3601)},
            {"wait": Duration(seconds=1, nanos=-1)},
            {"visibility_timeout": Duration()},
            {"visibility_timeout": Duration(seconds=43_201)},
        )
    ),
    *(
        ("StreamReceive", queues.StreamReceiveRequest(start={"queue": "q", **wrong}))
        for wrong in (
            *({"max_in_flight": number} for number in (-1, 10_001)),
            *({"concurrency": number} for number in (-1, 10_001)),
            {"max_bytes_in_flight": -1},
        )
    ),
    *(
        call
        for count in (0, 1_001)
        for call in (
            ("Send", queues.SendRequest(queue="q", messages=[pb.OutgoingMessage()] * count)),
            (
                "Delete",
                queues.DeleteRequest(queue="q", targets=[queues.DeleteTarget(receipt="x")] * count),
            ),
            (
                "ExtendLeases",
                queues.ExtendLeasesRequest(queue="q", extensions=[queues.LeaseExtension()] * count),
            ),
        )
    ),
    *(
        ("ListMessages", queues.ListMessagesRequest(queue="q", **wrong))
        for wrong in (
            {"page_size": -1},
            {"page_token": "x"},
            {"states": [0]},
            {"states": [99]},
            {"max_body_bytes": 4},
            {"view": queues.MESSAGE_VIEW_FULL, "max_body_bytes": -1},
            {"view": 7},
            {"skip": -1},
            {"skip": 100_001},
            {"sent_since": Timestamp(seconds=-1)},
            {"sent_before": Timestamp(nanos=-1)},
            {"attributes": {str(number): pb.Attribute(string_value="x") for number in range(11)}},
            {"skip": 1, "group": "g"},
            {"skip": 1, "attributes": {"a": pb.Attribute(string_value="b")}},
        )
    ),
    *(("GetMessage", queues.GetMessageRequest(queue="q", id=id)) for id in ("", "../x")),
    ("DeleteQueue", queues.DeleteQueueRequest(name="q", version=-1)),
    ("ListQueues", queues.ListQueuesRequest(page_size=-1)),
    ("ListQueues", queues.ListQueuesRequest(page_token="a/b")),
    *(
        ("Reserve", asked(**wrong))
        for wrong in (
            {"stream": ""},
            {"stream": "x" * 81},
            {"stream": "../x"},
            {"stream": "a.1"},
            {"stream": "a@1"},
            {"sequence_number": -1},
            {"max_messages": -1},
            {"max_messages": 100_001},
            {"max_bytes": -1},
            {"visibility_timeout": Duration()},
            {"visibility_timeout": Duration(nanos=999_000_000)},
            {"visibility_timeout": Duration(seconds=12 * 3600 + 1)},
            {"visibility_timeout": Duration(seconds=1, nanos=-1)},
            {"wait": Duration(seconds=-1)},
            {"wait": Duration(seconds=3601)},
        )
    ),
    *(
        ("ReadReservation", rpc.ReadReservationRequest(**{"stream": "r", **wrong}))
        for wrong in (
            {"stream": "a/b"},
            {"begin_index": -1},
            {"end_index": -1},
            {"begin_index": 5, "end_index": 4},
        )
    ),
    ("ExtendReservation", rpc.ExtendReservationRequest(stream="a/b")),
    ("ExtendReservation", rpc.ExtendReservationRequest(stream="r", sequence_number=-1)),
    ("ExtendReservation", rpc.ExtendReservationRequest(stream="r", visibility_timeout=Duration())),
    ("CommitReservations", rpc.CommitReservationsRequest(stream="..")),
    ("CommitReservations", rpc.CommitReservationsRequest(stream="r", last_sequence_number=-1)),
    ("ReleaseReservation", rpc.ReleaseReservationRequest(stream="")),
    ("ReleaseReservation", rpc.ReleaseReservationRequest(stream="r", sequence_number=-1)),
    ("ListReservations", rpc.ListReservationsRequest(stream="a b")),
    ("ListReservations", rpc.ListReservationsRequest(page_size=-1)),
    *(
        ("ListReservations", rpc.ListReservationsRequest(page_token=token))
        for token in (
            "r",
            "r.",
            ".1",
            "r.-1",
            "r.x",
            "r.\u0661",
            f"r.{BIG + 1}",
            "r." + "9" * 5_000,
            "../x.1",
        )
    ),
    *(
        ("Stage", staging.StageRequest(**{**CHUNK, **wrong}))  # type: ignore[arg-type]
        for wrong in (
            {"stage": ""},
            {"stage": "x" * 65},
            {"stage": "../x"},
            {"stage": "a@1"},
            {"chunk_number": -1},
            {"chunk_number": 1_000_000_000},
            {"messages": []},
            {"messages": [pb.OutgoingMessage()] * 1_001},
            {"time_to_live": Duration(nanos=999_000_000)},
            {"time_to_live": Duration(seconds=14 * DAY + 1)},
            {"time_to_live": Duration(seconds=1, nanos=-1)},
        )
    ),
    ("Publish", staging.PublishRequest(writer="", stages=["s"])),
    ("Publish", staging.PublishRequest(writer="x" * 81)),
    ("Publish", staging.PublishRequest(writer="a.b")),
    ("Publish", staging.PublishRequest(writer="w", epoch=-1)),
    ("Publish", staging.PublishRequest(writer="w", digest="a b")),
    ("Publish", staging.PublishRequest(writer="w", digest="d" * 65)),
    ("Publish", staging.PublishRequest(writer="w", stages=["s", "a/b"])),
    ("Publish", staging.PublishRequest(writer="w", stages=["s"] * 10_001)),
    ("Publish", staging.PublishRequest(writer="w", epoch_retention=Duration(seconds=59))),
    ("Publish", staging.PublishRequest(writer="w", epoch_retention=Duration(seconds=365 * DAY + 1))),
    ("AbortStage", staging.AbortStageRequest()),
    ("AbortStage", staging.AbortStageRequest(stage="..")),
    ("ListStages", staging.ListStagesRequest(page_size=-1)),
    ("ListStages", staging.ListStagesRequest(page_token="../x")),
    *(
        ("StartRedrive", redrives.StartRedriveRequest(queue="dead", **wrong))
        for wrong in (
            {"message_ids": ["../x"]},
            {"message_ids": [""]},
            {"message_ids": [NOWHERE] * 1_001},
            {"max_messages_per_second": -1},
            {"max_messages_per_second": 100_001},
            {"destination": "dead"},
        )
    ),
    *(("GetRedrive", redrives.GetRedriveRequest(id=id)) for id in ("", "../x", "x" * 1_000)),
    *(("CancelRedrive", redrives.CancelRedriveRequest(id=id)) for id in ("", "../x", "x" * 1_000)),
    ("ListRedrives", redrives.ListRedrivesRequest(page_size=-1)),
    ("ListRedrives", redrives.ListRedrivesRequest(page_token="../x")),
]


WITHIN: list[tuple[str, Any]] = [
    *(
        ("ListMessages", queues.ListMessagesRequest(queue="q", **most))
        for most in (
            {"skip": 100_000},
            {"attributes": {str(number): pb.Attribute(string_value="x") for number in range(10)}},
            {"group": "g", "attributes": {"a": pb.Attribute(string_value="b")}},
            {"page_size": 100_000},
        )
    ),
    ("StreamReceive", queues.StreamReceiveRequest(start={"queue": "absent", "max_in_flight": 10_000})),
    ("StreamReceive", queues.StreamReceiveRequest(start={"queue": "absent", "concurrency": 10_000})),
    ("Receive", queues.ReceiveRequest(queue="dead", max_messages=1_000)),
    ("Receive", queues.ReceiveRequest(queue="dead", visibility_timeout=Duration(seconds=43_200))),
    *(
        ("Reserve", asked(**{"queue": "dead", **most}))
        for most in (
            {"stream": "x" * 80},
            {"max_messages": 100_000},
            {"visibility_timeout": Duration(seconds=1)},
            {"visibility_timeout": Duration(seconds=43_200)},
        )
    ),
    ("Publish", staging.PublishRequest(writer="x" * 80, stages=["gone"])),
    ("Publish", staging.PublishRequest(writer="w", stages=["gone"], digest="d" * 64)),
    ("Publish", staging.PublishRequest(writer="w", stages=["gone"] * 10_000)),
    *(
        ("Publish", staging.PublishRequest(writer="w", stages=["gone"], epoch_retention=each))
        for each in (Duration(seconds=60), Duration(seconds=365 * DAY))
    ),
    *(
        ("StartRedrive", redrives.StartRedriveRequest(queue="gone", **most))
        for most in ({"message_ids": [NOWHERE] * 1_000}, {"max_messages_per_second": 100_000})
    ),
]


async def test_a_value_at_its_bounds_is_taken(client: Client) -> None:
    await client.create()
    await client.create("dead")
    for method, request in WITHIN:
        reason, told = await outcome(client, method, request)
        assert reason not in ("INVALID_REQUEST", "INVALID_ARGUMENT"), (method, request, told)
    for most in (
        {"stage": "x" * 64},
        {"stage": "number", "chunk_number": 999_999_999},
        {"stage": "many", "messages": [pb.OutgoingMessage()] * 1_000},
        {"stage": "short", "time_to_live": Duration(seconds=1)},
        {"stage": "long", "time_to_live": Duration(seconds=14 * DAY)},
    ):
        await call(client, "Stage", staging.StageRequest(**{**CHUNK, **most}))  # type: ignore[arg-type]


async def test_a_value_beyond_its_bounds_is_refused_and_the_bounds_are_told(client: Client) -> None:
    await client.create()
    await client.create("dead")
    await client.send(b"x")
    told = []
    for method, request in BEYOND:
        no = await refused(call(client, method, request))
        found = no.code, no.reason
        assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"), (method, request)
        told.append(f"{method}: {no.message}")
    assert told == REFUSALS.read_text().splitlines()
    assert (await client.counts()).ready_count == 1
    assert not (await client.stub.ListStages(staging.ListStagesRequest())).stages
    assert not (await client.stub.ListRedrives(redrives.ListRedrivesRequest())).redrives


@pytest.mark.parametrize("name", ["../x", "a/b", "a\0b", "x" * 81])
async def test_a_bad_name_of_a_queue_is_refused_by_every_method(client: Client, name: str) -> None:
    await client.create("dead")
    asked = [(method, naming(name, method)) for method in requests(name) if method != "ListQueues"]
    asked += [
        *(("GetQueue", queues.GetQueueRequest(name=other)) for other in ("", name * 60_000)),
        ("StartRedrive", redrives.StartRedriveRequest(queue="dead", destination=name)),
        ("StartRedrive", redrives.StartRedriveRequest(queue="dead", source_queue=name)),
    ]
    for method, request in asked:
        reason, _ = await outcome(client, method, request)
        assert (method, reason) == (method, "INVALID_QUEUE_NAME")


async def test_no_method_works_on_a_queue_that_is_not_there(client: Client) -> None:
    asked = {name: each for name, each in requests("q").items() if METHODS[name].queue(each)}
    assert len(asked) >= 25
    for method in asked.keys() - {"CreateQueue"}:
        reason, message = await outcome(client, method, asked[method])
        assert (method, reason) == (method, "QUEUE_NOT_FOUND")
        assert "no queue q" in message
