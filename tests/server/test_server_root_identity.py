"""A call about reservations or stages may name the root that it is for: any other root refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.server.reservation_rig import asked, bodies, commit, reserve
from tests.support.server_rig import Client, refused, served

OTHER = "01999999-9999-4999-8999-999999999999"


def named(root: str) -> dict[str, Any]:
    return {"metadata": (("spoolrack-root", root),)}


CALLS = (
    ("Reserve", asked(1)),
    ("ExtendReservation", rpc.ExtendReservationRequest(stream="r")),
    ("ReadReservation", rpc.ReadReservationRequest(stream="r", mark_read=True)),
    ("CommitReservations", rpc.CommitReservationsRequest(stream="r")),
    ("ReleaseReservation", rpc.ReleaseReservationRequest(stream="r")),
    ("ListReservations", rpc.ListReservationsRequest()),
    ("Stage", staging.StageRequest(stage="s", queue="q")),
    ("Publish", staging.PublishRequest(writer="w", epoch=1, stages=["s"])),
    ("AbortStage", staging.AbortStageRequest(stage="s")),
    ("ListStages", staging.ListStagesRequest()),
)


async def test_a_call_for_another_root_is_refused_and_does_nothing(
    server: Server, client: Client
) -> None:
    await client.create()
    await client.send(b"1", b"2")
    made = await reserve(client, max_messages=1)
    for method, request in CALLS:
        call = getattr(client.stub, method)(request, **named(OTHER))
        no = await refused(call.read() if method == "ReadReservation" else call)
        found = no.code, no.reason
        assert found == (grpc.StatusCode.FAILED_PRECONDITION, "ROOT_DIFFERS"), method
        assert no.metadata == {"named": OTHER, "found": server.store.root_id}
        assert await reserve(client, max_messages=1) == made, method
    assert await bodies(client) == [b"1"]
    assert [message.body for message in await client.receive(9)] == [b"2"]


async def test_a_call_for_this_root_is_done_and_tells_which_it_is(tmp_path: Path) -> None:
    clock = ManualClock()
    async with served(tmp_path, clock) as (_, client):
        await client.create()
        await client.send(b"1")
        made = await reserve(client)
        root = made.root_id
        listed = await client.stub.ListQueues(queues.ListQueuesRequest())
        staged = await client.stub.Stage(
            staging.StageRequest(stage="s", queue="q", messages=[{"body": b"2"}]), **named(root)
        )
        assert root == listed.root_id == staged.root_id
    async with served(tmp_path, clock) as (server, client):
        assert server.store.root_id == root
        again = await client.stub.Reserve(asked(), **named(root))
        assert again.reservation == made
        assert (await commit(client, 0)).deleted_count == 1
