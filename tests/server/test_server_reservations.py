"""The RPCs about reservations: messages that are leased under a name, until they are committed."""

from __future__ import annotations

import grpc
from spoolrack.v1 import reservation_service_pb2 as rpc

from tests.server.reservation_rig import bodies, reserve
from tests.support.server_rig import Client, refused


async def test_a_commit_may_ask_whether_a_set_was_read_and_a_look_is_no_read(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    assert await bodies(client) == [b"1", b"2"]

    asked_for = rpc.CommitReservationsRequest(stream="r", last_sequence_number=0, only_read=True)
    no = await refused(client.stub.CommitReservations(asked_for))
    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_UNREAD")
    assert no.metadata == {"stream": "r", "sequence_number": "0"}

    assert await bodies(client, begin_index=1, mark_read=True) == [b"2"]
    assert (await client.stub.CommitReservations(asked_for)).deleted_count == 2
