"""Reads of reservations of many bytes: frames, a slow reader, a drain, a reader that leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from spoolrack.v1 import columns_pb2
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack_server.app.store_access import FRAME_BYTES

from tests.server.reservation_rig import BIG, read, reading, reserve, to_the_end
from tests.support import MIB
from tests.support.server_rig import Client, refused, served


async def test_a_read_comes_in_frames_that_any_client_takes(client: Client) -> None:
    await client.create(max_message_size=8 * MIB)
    sizes = [3 * MIB, 10, MIB, MIB, 8 * MIB, *[100 * 1024] * 50]
    for size in sizes:
        await client.send(bytes(size))
    assert (await reserve(client)).byte_count == sum(sizes)
    found: list[int] = []
    async for frame in reading(client):
        assert frame.messages
        # Beside the bodies there are ids, times and the frame's own few bytes.
        assert len(frame.messages) == 1 or frame.ByteSize() <= FRAME_BYTES * 1.01
        found += [len(message.body) for message in frame.messages]
    assert found == sizes


async def test_a_read_is_never_far_ahead_of_its_reader(client: Client) -> None:
    await client.create()
    count = 64
    ids = [id for _ in range(count) for id in await client.send(bytes(MIB))]
    await reserve(client, max_bytes=BIG)
    call = reading(client)
    first = await call.read()
    # The reader pauses, while others delete: messages read ahead would still come.
    for _ in range(100):
        await client.counts()
    target = queues.DeleteTarget(id=ids[-1])
    await client.stub.Delete(queues.DeleteRequest(queue="q", targets=[target]))
    found = [*first.messages, *await to_the_end(call)]
    assert [message.id for message in found] == ids[:-1]


async def test_a_drain_ends_a_read_with_a_status_that_says_try_again(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):
        await client.create()
        for _ in range(64):
            await client.send(bytes(MIB))
        await reserve(client, max_bytes=BIG)
        call = reading(client)
        await call.read()
        stopping = asyncio.ensure_future(server.stop(grace=100))
        while not (await client_refusals(client)):
            pass
        no = await refused(to_the_end(call))
        assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        await stopping


async def test_a_reader_that_leaves_affects_no_other(client: Client) -> None:
    await client.create()
    for _ in range(16):
        await client.send(bytes(MIB))
    await reserve(client)
    for frames in range(20):
        call = reading(client)
        for _ in range(frames % 5):
            await call.read()
        call.cancel()
    assert len(await read(client)) == 16


async def client_refusals(client: Client) -> bool:
    try:
        await client.counts()
    except grpc.aio.AioRpcError:
        return True
    return False


async def test_a_read_by_column_has_the_messages_of_a_read_one_by_one(client: Client) -> None:
    await client.create()
    ids = await client.send(*[b"%d" % number for number in range(6)])
    message = pb.OutgoingMessage(body=b"alone", group="g", priority=3)
    message.attributes["n"].string_value = "v"
    await client.stub.Send(queues.SendRequest(queue="q", messages=[message]))
    await reserve(client, max_bytes=BIG)
    target = queues.DeleteTarget(id=ids[2])
    await client.stub.Delete(queues.DeleteRequest(queue="q", targets=[target]))

    frames = [frame async for frame in reading(client, by_column=True)]

    assert [frame.next_index for frame in frames] == [7]
    (frame,) = frames
    assert not frame.messages
    assert sorted(len(run.columns.body_sizes) for run in frame.runs) == [0, 2, 3]
    singles = {message.id: message for message in await read(client)}
    for run in frame.runs:
        alone = singles.pop(run.first.id)
        if not run.HasField("columns"):
            assert run.first == alone
            continue
        end = 0
        for place, size in enumerate(run.columns.body_sizes):
            begin, end = end, end + size
            one = alone if not place else singles.pop(f"{run.first.id[:-3]}{_index(run) + place:03x}")
            assert one.body == run.columns.bodies[begin:end]
            assert (one.send_time, one.receive_count) == (run.first.send_time, run.first.receive_count)
    assert not singles


def _index(run: columns_pb2.MessageRun) -> int:
    return int(run.first.id[-3:], 16)
