"""Bounds of requests about reservations, stages and redrives: anything else is refused, without an
effect."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import redrive_service_pb2 as redrives
from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack.v1 import staging_service_pb2 as staging

from tests.server.reservation_rig import BIG, asked, reading
from tests.support.server_rig import Client, refused

DAY = 24 * 3600
NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"
"""An id that nothing has."""
CHUNK = {"stage": "s", "queue": "q", "messages": [pb.OutgoingMessage(body=b"x")]}
BEYOND: list[tuple[str, Any]] = [
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


@pytest.mark.parametrize(("method", "request_"), BEYOND)
async def test_a_value_beyond_its_bounds_is_refused(client: Client, method: str, request_: Any) -> None:
    await client.create()
    await client.create("dead")
    await client.send(b"x")
    no = await refused(getattr(client.stub, method)(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert (await client.counts()).ready_count == 1
    assert not (await client.stub.ListStages(staging.ListStagesRequest())).stages
    assert not (await client.stub.ListRedrives(redrives.ListRedrivesRequest())).redrives


@pytest.mark.parametrize(
    ("stream", "span"),
    [
        ("a/b", {}),
        ("r", {"begin_index": -1}),
        ("r", {"end_index": -1}),
        ("r", {"begin_index": 5, "end_index": 4}),
    ],
)
async def test_a_read_beyond_its_bounds_is_refused(
    client: Client, stream: str, span: dict[str, int]
) -> None:
    no = await refused(reading(client, stream=stream, **span).read())
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "request_",
    [
        rpc.ListReservationsRequest(queue="../q"),
        redrives.StartRedriveRequest(queue="dead", destination="../q"),
        redrives.StartRedriveRequest(queue="dead", source_queue="a/b"),
        redrives.ListRedrivesRequest(queue="../q"),
    ],
)
async def test_a_bad_name_of_a_queue_that_may_be_left_out_is_refused(
    client: Client, request_: Any
) -> None:
    await client.create("dead")
    method = type(request_).__name__.removesuffix("Request")
    no = await refused(getattr(client.stub, method)(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_QUEUE_NAME")
