"""Short ways to ask for reservations, and to read them."""

from __future__ import annotations

from typing import Any

import grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import reservation_service_pb2 as rpc

from tests.support.server_rig import Client

BIG = 2**63 - 1


def asked(
    sequence_number: int = 0, *, stream: str = "r", queue: str = "q", **more: Any
) -> rpc.ReserveRequest:
    return rpc.ReserveRequest(queue=queue, stream=stream, sequence_number=sequence_number, **more)


async def reserve(client: Client, sequence_number: int = 0, **more: Any) -> rpc.Reservation:
    response: rpc.ReserveResponse = await client.stub.Reserve(asked(sequence_number, **more))
    assert response.HasField("reservation"), "nothing was ready"
    return response.reservation


def reading(client: Client, sequence_number: int = 0, stream: str = "r", **more: Any) -> Any:
    return client.stub.ReadReservation(
        rpc.ReadReservationRequest(stream=stream, sequence_number=sequence_number, **more)
    )


async def read(client: Client, sequence_number: int = 0, **more: Any) -> list[pb.Message]:
    return [
        message
        async for frame in reading(client, sequence_number, **more)
        for message in frame.messages
    ]


async def bodies(client: Client, sequence_number: int = 0, **more: Any) -> list[bytes]:
    return [message.body for message in await read(client, sequence_number, **more)]


async def commit(
    client: Client, last_sequence_number: int, stream: str = "r"
) -> rpc.CommitReservationsResponse:
    response: rpc.CommitReservationsResponse = await client.stub.CommitReservations(
        rpc.CommitReservationsRequest(stream=stream, last_sequence_number=last_sequence_number)
    )
    return response


async def release(client: Client, sequence_number: int = 0, stream: str = "r") -> None:
    await client.stub.ReleaseReservation(
        rpc.ReleaseReservationRequest(stream=stream, sequence_number=sequence_number)
    )


async def listed(client: Client, **more: Any) -> rpc.ListReservationsResponse:
    response: rpc.ListReservationsResponse = await client.stub.ListReservations(
        rpc.ListReservationsRequest(**more)
    )
    return response


async def to_the_end(call: Any) -> list[pb.Message]:
    found: list[pb.Message] = []
    while (frame := await call.read()) is not grpc.aio.EOF:
        found += frame.messages
    return found
