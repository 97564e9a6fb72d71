"""The RPCs about stages: staged messages are invisible, and all of them appear at once or never."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import columns_pb2
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import staging_service_pb2 as rpc

from tests.support.server_rig import Client, refused

DAY = 24 * 3600


async def stage(
    client: Client, *bodies: bytes, name: str = "s", chunk: int = 0, queue: str = "q", **more: Any
) -> rpc.StageResponse:
    messages = [pb.OutgoingMessage(body=body) for body in bodies]
    response: rpc.StageResponse = await client.stub.Stage(
        rpc.StageRequest(stage=name, chunk_number=chunk, queue=queue, messages=messages, **more)
    )
    return response


async def publish(
    client: Client, *stages: str, writer: str = "w", epoch: int = 0, **more: Any
) -> rpc.PublishResponse:
    response: rpc.PublishResponse = await client.stub.Publish(
        rpc.PublishRequest(writer=writer, epoch=epoch, stages=stages, **more)
    )
    return response


async def listed(client: Client) -> dict[str, dict[str, int]]:
    """Return the stages, and how many messages each has by queue."""
    response = await client.stub.ListStages(rpc.ListStagesRequest())
    return {stage.name: dict(stage.message_counts) for stage in response.stages}


async def bodies(client: Client, queue: str = "q") -> list[bytes]:
    return [message.body for message in await client.receive(1_000, queue=queue)]


async def test_another_chunk_under_a_number_is_refused_with_its_name(client: Client) -> None:
    await client.create()
    await stage(client, b"1", chunk=7)
    other = rpc.StageRequest(
        stage="s", chunk_number=7, queue="q", messages=[pb.OutgoingMessage(body=b"2")]
    )
    no = await refused(client.stub.Stage(other))
    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CHUNK_DIFFERS")
    assert no.metadata == {"stage": "s", "chunk": "7"}


async def test_an_older_epoch_with_a_digest_is_refused_with_the_last_one(client: Client) -> None:
    await client.create()
    await publish(client, epoch=10**9, digest="theirs")
    await stage(client, b"1")
    older = rpc.PublishRequest(writer="w", epoch=1, stages=["s"], digest="mine")
    no = await refused(client.stub.Publish(older))
    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_PASSED")
    assert no.metadata == {"writer": "w", "epoch": "1", "last_epoch": "1000000000"}
    assert await listed(client) == {"s": {"q": 1}}


async def test_a_stage_that_is_named_twice_appears_once(client: Client) -> None:
    await client.create()
    await stage(client, b"1")
    assert (await publish(client, "s", "s")).message_count == 1
    assert await bodies(client) == [b"1"]


async def test_one_message_that_cannot_be_stored_fails_the_chunk_and_is_named(client: Client) -> None:
    await client.create(max_message_size=10)
    nameless = pb.OutgoingMessage(body=b"x")
    nameless.attributes[""].string_value = "x"
    valueless = pb.OutgoingMessage(body=b"x")
    valueless.attributes["a"].SetInParent()
    good = pb.OutgoingMessage(body=b"good")
    for wrong in (
        nameless,
        valueless,
        pb.OutgoingMessage(body=b"x" * 11),
        pb.OutgoingMessage(body=b"x", delay=Duration(seconds=-1)),
        pb.OutgoingMessage(body=b"x", delay=Duration(seconds=7)),
        pb.OutgoingMessage(body=b"x", deduplication_id="x"),
        pb.OutgoingMessage(body=b"x", deduplication_id="x" * 129),
    ):
        request = rpc.StageRequest(stage="s", queue="q", messages=[good, good, wrong, good])
        no = await refused(client.stub.Stage(request))
        assert no.code == grpc.StatusCode.INVALID_ARGUMENT
        assert "2" in no.message, no
    assert await listed(client) == {}
    # The number of the chunk is free for one that can be stored.
    assert not (await stage(client, b"good")).duplicate


async def test_a_publication_whose_client_leaves_publishes_all_or_nothing(client: Client) -> None:
    await client.create()
    for epoch in range(50):
        await stage(client, *[b"x"] * 20, name=f"s{epoch}")
        request = rpc.PublishRequest(writer="w", epoch=epoch, stages=[f"s{epoch}"])
        call = client.stub.Publish(request)
        for _ in range(epoch % 10):
            await asyncio.sleep(0)
        call.cancel()
        again = await client.stub.Publish(request)
        assert again.message_count in (0, 20)
        assert again.duplicate == (again.message_count == 0)
        assert len(await bodies(client)) == 20


async def test_an_epoch_with_another_digest_is_refused_and_stays_staged(client: Client) -> None:
    await client.create()
    await stage(client, b"1")
    await publish(client, "s", digest="1-a")
    await stage(client, b"2", name="t")

    request = rpc.PublishRequest(writer="w", stages=["t"], digest="1-b")
    no = await refused(client.stub.Publish(request))

    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_DIFFERS")
    assert no.metadata == {"writer": "w", "epoch": "0"}
    assert (await publish(client, digest="1-a")).duplicate
    assert await listed(client) == {"t": {"q": 1}}
    assert await bodies(client) == [b"1"]


async def test_messages_are_staged_by_column(client: Client) -> None:
    await client.create()
    columns = columns_pb2.MessageColumns(bodies=b"abb", body_sizes=[1, 0, 2], groups={0: "g"})
    columns.attributes[2].by_name["text"].string_value = "v"
    request = rpc.StageRequest(stage="s", queue="q", columns=columns)

    staged = await client.stub.Stage(request)
    again = await client.stub.Stage(request)
    await publish(client, "s")

    assert [(one.message_count, one.duplicate) for one in (staged, again)] == [(3, False), (3, True)]
    found = await client.receive(1_000)
    assert [(m.body, m.group) for m in found] == [(b"a", "g"), (b"", ""), (b"bb", "")]
    assert [len(m.attributes) for m in found] == [0, 0, 1]


@pytest.mark.parametrize(
    "columns",
    [
        columns_pb2.MessageColumns(),
        columns_pb2.MessageColumns(bodies=b"ab", body_sizes=[1]),
        columns_pb2.MessageColumns(bodies=b"ab", body_sizes=[3, -1]),
        columns_pb2.MessageColumns(bodies=b"", body_sizes=[0] * 1_001),
        columns_pb2.MessageColumns(bodies=b"a", body_sizes=[1], groups={1: "g"}),
        columns_pb2.MessageColumns(
            bodies=b"a", body_sizes=[1], attributes={-1: columns_pb2.Attributes()}
        ),
    ],
)
async def test_columns_that_do_not_belong_together_are_refused(
    client: Client, columns: columns_pb2.MessageColumns
) -> None:
    await client.create()
    no = await refused(client.stub.Stage(rpc.StageRequest(stage="s", queue="q", columns=columns)))
    assert no.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_chunk_has_messages_or_columns(client: Client) -> None:
    await client.create()
    columns = columns_pb2.MessageColumns(bodies=b"a", body_sizes=[1])
    messages = [pb.OutgoingMessage(body=b"b")]
    request = rpc.StageRequest(stage="s", queue="q", columns=columns, messages=messages)
    no = await refused(client.stub.Stage(request))
    assert no.code is grpc.StatusCode.INVALID_ARGUMENT
    assert await listed(client) == {}


async def test_a_writer_that_a_queue_has_no_room_for_is_refused_and_told_what_to_do(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spoolrack_store.engine.stages.MAX_WRITERS", 1)
    await client.create()
    for name in ("a", "b"):
        await stage(client, name.encode(), name=name)
    await publish(client, "a", writer="first")
    no = await refused(publish(client, "b", writer="second"))
    assert (no.code, no.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WRITERS")
    assert no.metadata == {"what": "the queue q", "held": "1", "limit": "1"}
    assert "Publish under a writer that is known" in no.message
    assert (await publish(client, "b", writer="first", epoch=1)).message_count == 1
    assert await bodies(client) == [b"a", b"b"]
