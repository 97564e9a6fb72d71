"""Bounds of requests about reservations: anything else is refused, and nothing is leased."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import reservation_service_pb2 as rpc

from tests.server.reservation_rig import BIG, asked, reading
from tests.support.server_rig import Client, refused

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
]


@pytest.mark.parametrize(("method", "request_"), BEYOND)
async def test_a_value_beyond_its_bounds_is_refused(client: Client, method: str, request_: Any) -> None:
    await client.create()
    await client.send(b"x")
    no = await refused(getattr(client.stub, method)(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert (await client.counts()).leased_count == 0


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


async def test_a_bad_name_of_a_queue_is_refused(client: Client) -> None:
    for call in (
        client.stub.Reserve(asked(queue="../q")),
        client.stub.ListReservations(rpc.ListReservationsRequest(queue="../q")),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_QUEUE_NAME")
