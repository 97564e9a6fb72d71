"""Sends with a deduplication id: the second of the same is answered with the first one's id."""

from __future__ import annotations

import contextlib
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock

from tests.support.server_rig import MANY_LOOKS, Client, served
from tests.support.statuses import reason_of


def outgoing(id: str, body: bytes = b"x") -> pb.OutgoingMessage:
    return pb.OutgoingMessage(body=body, deduplication_id=id)


async def send(client: Client, *ids: str, queue: str = "q") -> list[pb.OutgoingMessage]:
    request = rpc.SendRequest(queue=queue, messages=[outgoing(id) for id in ids])
    response = await client.stub.Send(request)
    return [result.sent for result in response.results]


async def test_a_repeated_send_is_answered_with_the_first_one(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    (first,) = await send(client, "a")
    clock.advance(1_000)
    (again,) = await send(client, "a")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.id, again.send_time) == (first.id, first.send_time)
    assert (await client.counts()).ready_count == 1


async def test_within_one_request_the_first_of_the_same_is_stored(client: Client) -> None:
    await client.create()
    sent = await send(client, "a", "b", "a", "", "", "b")
    assert [each.duplicate for each in sent] == [False, False, True, False, False, True]
    assert (sent[2].id, sent[5].id) == (sent[0].id, sent[1].id)
    assert len({each.id for each in sent}) == 4
    assert (await client.counts()).ready_count == 4


async def test_a_stream_of_sends_knows_what_was_sent_before(client: Client) -> None:
    await client.create()
    (first,) = await send(client, "a")
    stream = client.stub.StreamSend()
    for number in range(3):
        await stream.write(
            rpc.StreamSendRequest(
                correlation_id=number,
                request=rpc.SendRequest(queue="q", messages=[outgoing("a"), outgoing("b")]),
            )
        )
    await stream.done_writing()
    responses = [response async for response in stream]
    found = [[result.sent for result in response.response.results] for response in responses]
    assert [[each.duplicate for each in sent] for sent in found] == [
        [True, False],
        [True, True],
        [True, True],
    ]
    assert {sent[0].id for sent in found} == {first.id}
    assert len({sent[1].id for sent in found}) == 1
    assert (await client.counts()).ready_count == 2


async def test_each_queue_has_ids_of_its_own(client: Client) -> None:
    await client.create("a")
    await client.create("b")
    (one,) = await send(client, "x", queue="a")
    (two,) = await send(client, "x", queue="b")
    assert not two.duplicate
    assert one.id != two.id


async def test_an_id_holds_after_its_message_was_deleted_or_purged(client: Client) -> None:
    await client.create()
    (first,) = await send(client, "a")
    (message,) = await client.receive()
    assert await client.delete(message.receipt) == []
    (second,) = await send(client, "b")
    await client.stub.PurgeQueue(rpc.PurgeQueueRequest(name="q"))
    again = await send(client, "a", "b")
    assert [(each.id, each.duplicate) for each in again] == [(first.id, True), (second.id, True)]
    assert (await client.counts()).ready_count == 0


async def test_an_id_holds_for_the_window_and_no_longer(client: Client, clock: ManualClock) -> None:
    queue = await client.create(deduplication_window=Duration(seconds=10))
    assert queue.settings.deduplication_window == Duration(seconds=10)
    (first,) = await send(client, "a")
    clock.advance(9_999)
    assert (await send(client, "a"))[0].duplicate
    clock.advance(2)
    (later,) = await send(client, "a")
    assert not later.duplicate
    assert later.id != first.id


async def test_an_id_holds_across_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with served(tmp_path, clock) as (_, client):
        await client.create()
        sent = await send(client, "waiting", "deleted")
        target = rpc.DeleteTarget(id=sent[1].id)
        await client.stub.Delete(rpc.DeleteRequest(queue="q", targets=[target]))
    async with served(tmp_path, clock) as (_, client):
        again = await send(client, "waiting", "deleted", "new")
        assert [each.id for each in again[:2]] == [each.id for each in sent]
        assert [each.duplicate for each in again] == [True, True, False]


async def test_an_id_that_is_too_long_is_refused_alone(client: Client) -> None:
    await client.create()
    messages = [outgoing("\N{SNAKE}" * 128), outgoing("x" * 129), outgoing("../../outside")]
    response = await client.stub.Send(rpc.SendRequest(queue="q", messages=messages))
    first, long, path = response.results
    assert first.sent.id
    assert path.sent.id
    assert (long.error.code, reason_of(long.error)) == (
        grpc.StatusCode.INVALID_ARGUMENT.value[0],
        "INVALID_MESSAGE",
    )
    assert (await client.counts()).ready_count == 2


async def test_a_send_that_fails_is_forgotten(client: Client) -> None:
    await client.create(max_message_size=10)
    refused_ = await client.stub.Send(
        rpc.SendRequest(queue="q", messages=[outgoing("a", b"x" * 11), outgoing("a", b"fits")])
    )
    assert reason_of(refused_.results[0].error) == "MESSAGE_TOO_LARGE"
    assert not refused_.results[1].sent.duplicate
    (message,) = await client.receive()
    assert message.body == b"fits"


async def test_a_queue_made_again_knows_no_ids(client: Client) -> None:
    await client.create()
    await send(client, "a")
    await client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q"))
    for _ in range(MANY_LOOKS):
        with contextlib.suppress(grpc.aio.AioRpcError):
            await client.create()
            break
    assert not (await send(client, "a"))[0].duplicate
