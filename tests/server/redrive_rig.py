"""Short ways to make dead letters, and to follow a redrive."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.support.server_rig import MANY_LOOKS, Client

RUNNING = rpc.REDRIVE_STATE_RUNNING
DONE = rpc.REDRIVE_STATE_DONE
CANCELLED = rpc.REDRIVE_STATE_CANCELLED
PAUSE = 0.002
"""Seconds between two looks: the store has a disk to wait for, whatever the clock says."""
NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"
"""An id that nothing has."""


async def die(client: Client, clock: ManualClock, *bodies: bytes, queue: str = "q") -> list[str]:
    """Send messages, and receive each until it is a dead letter in "dead"; their ids."""
    await client.create("dead")
    await client.create(
        queue, max_receives=1, dead_letter_queue="dead", visibility_timeout=Duration(seconds=1)
    )
    before = (await client.counts("dead")).ready_count
    ids = await client.send(*bodies, queue=queue)
    assert len(await client.receive(len(bodies), queue=queue)) == len(bodies)
    clock.advance(Millis(1_000))
    assert await client.receive(len(bodies), queue=queue) == []
    for _ in range(MANY_LOOKS):
        if (await client.counts("dead")).ready_count == before + len(bodies):
            return ids
        await asyncio.sleep(PAUSE)
    raise AssertionError("they don't die")


async def start(client: Client, queue: str = "dead", **more: Any) -> rpc.Redrive:
    request = rpc.StartRedriveRequest(queue=queue, **more)
    response: rpc.StartRedriveResponse = await client.stub.StartRedrive(request)
    return response.redrive


async def get(client: Client, id: str) -> rpc.Redrive:
    response: rpc.GetRedriveResponse = await client.stub.GetRedrive(rpc.GetRedriveRequest(id=id))
    return response.redrive


async def cancel(client: Client, id: str) -> rpc.Redrive:
    response: rpc.CancelRedriveResponse = await client.stub.CancelRedrive(
        rpc.CancelRedriveRequest(id=id)
    )
    return response.redrive


async def listed(client: Client, **more: Any) -> rpc.ListRedrivesResponse:
    response: rpc.ListRedrivesResponse = await client.stub.ListRedrives(rpc.ListRedrivesRequest(**more))
    return response


async def ended(client: Client, id: str, clock: ManualClock | None = None) -> rpc.Redrive:
    """Return the redrive once it has ended, which it does in the background; with a rate, it takes
    time."""
    for _ in range(MANY_LOOKS):
        found = await get(client, id)
        if found.state != RUNNING:
            assert found.HasField("end_time")
            return found
        if clock is not None:
            clock.advance(Millis(50))
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"it goes on and on: {found}")


async def moved(client: Client, clock: ManualClock, id: str, least: int) -> rpc.Redrive:
    """Return the redrive once it has moved so many, which takes time; it never moves too many in
    that."""
    for _ in range(MANY_LOOKS):
        found = await get(client, id)
        seconds = (clock.wall() - found.start_time.ToMilliseconds()) / 1_000
        assert found.moved_count <= found.max_messages_per_second * (seconds + 1)
        if found.moved_count >= least:
            return found
        clock.advance(Millis(50))
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"it doesn't come to {least}: {found}")


async def peek(client: Client, queue: str, **more: Any) -> list[pb.Message]:
    """Return all messages of a queue, page by page."""
    found: list[pb.Message] = []
    token = ""
    while True:
        response = await client.stub.ListMessages(
            queues.ListMessagesRequest(
                queue=queue, page_token=token, view=queues.MESSAGE_VIEW_FULL, **more
            )
        )
        found.extend(response.messages)
        token = response.next_page_token
        if not token:
            return found


async def bodies(client: Client, queue: str) -> list[bytes]:
    return [message.body for message in await peek(client, queue)]
