"""The RPCs about redrives: dead letters go back in the background, whatever becomes of the server."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import LAST_MOMENT, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, encode_records
from spoolrack_store.model.names import Death, Name, Stem, dead_letter_path
from spoolrack_store.model.transitions import State

from tests.support.server_rig import MANY_LOOKS, Client, served

RUNNING = rpc.REDRIVE_STATE_RUNNING
PAUSE = 0.002
"""Seconds between two looks: the store has a disk to wait for, whatever the clock says."""


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


async def listed(client: Client, **more: Any) -> rpc.ListRedrivesResponse:
    response: rpc.ListRedrivesResponse = await client.stub.ListRedrives(rpc.ListRedrivesRequest(**more))
    return response


async def ended(client: Client, id: str) -> rpc.Redrive:
    """Return the redrive once it has ended, which it does in the background."""
    for _ in range(MANY_LOOKS):
        found = await get(client, id)
        if found.state != RUNNING:
            assert found.HasField("end_time")
            return found
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"it goes on and on: {found}")


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


async def test_redrives_are_listed_in_pages(client: Client, clock: ManualClock) -> None:
    await client.create()
    for name in ("d1", "d2"):
        await client.create(name)
    made = []
    for name in ("d1", "d2", "d1", "d1", "d2"):
        clock.advance(Millis(1))
        made.append((await ended(client, (await start(client, name, destination="q")).id)).id)
    assert [each.id for each in (await listed(client)).redrives] == made
    found: list[str] = []
    token = ""
    for _ in range(3):
        page = await listed(client, queue="d1", page_size=1, page_token=token)
        found.extend(each.id for each in page.redrives)
        token = page.next_page_token
    assert found == [made[0], made[2], made[3]]
    assert token == ""


async def test_a_redrive_wakes_waiting_receives(client: Client, clock: ManualClock) -> None:
    await die(client, clock, b"a")
    stream = client.stream()
    reading = asyncio.ensure_future(stream.read())
    await start(client)
    frame = await reading
    assert [(message.body, message.receive_count) for message in frame.received.messages] == [(b"a", 1)]
    stream.cancel()


# Dead-letter records.


async def test_a_received_dead_letter_comes_without_its_records(
    client: Client, clock: ManualClock
) -> None:
    await die(client, clock, b"poison")
    (received,) = await client.receive(queue="dead")
    assert list(received.dead_letter_records) == []


async def test_pages_with_long_histories_are_small_enough_for_any_client(
    tmp_path: Path, clock: ManualClock
) -> None:
    source = "q" * 80
    async with served(tmp_path, clock) as (_, client):
        await client.create("dead")
    record = DeadLetterRecord(
        source_queue=source,
        reason="max_receives",
        receive_count=2_000_000_000,
        first_received_at=LAST_MOMENT,
        dead_lettered_at=LAST_MOMENT,
        redrive_queue=source,
        redriven_at=LAST_MOMENT,
    )
    body, content = bytes(1_500), encode_records([record] * 100)
    for number in range(1_000):
        stem = Stem(id=f"01890a5d-ac96-774b-bcce-{number:012x}", size=len(body), crc=zlib.crc32(body))
        death = Death(file="0123uv")
        name = Name(stem=stem, state=State.READY, queue="dead", members=stem.full, death=death)
        (tmp_path / name.path).write_bytes(body)
        (tmp_path / dead_letter_path(stem.id, death.file)).write_bytes(content)
    async with (
        served(tmp_path, clock) as (server, _),
        grpc.aio.insecure_channel(server.grpc_address) as channel,
    ):
        seen = await peek(Client(channel), "dead", page_size=1_000)
    assert len(seen) == 1_000
    assert {len(message.dead_letter_records) for message in seen} == {20}
