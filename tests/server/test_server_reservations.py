"""The RPCs about reservations: messages that are leased under a name, until they are committed."""

from __future__ import annotations

import grpc
import pytest
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


async def test_a_stream_that_a_queue_has_no_room_for_is_refused_and_told_what_to_do(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spoolrack_store.engine.reserver.MAX_RESERVATIONS", 1)
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    more = rpc.ReserveRequest(queue="q", stream="more", sequence_number=0)
    no = await refused(client.stub.Reserve(more))
    assert (no.code, no.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_RESERVATIONS")
    assert no.metadata == {"queue": "q", "held": "1", "limit": "1"}
    assert "Commit reservations" in no.message
    assert await bodies(client) == [b"1", b"2"], "the stream that is there goes on"
