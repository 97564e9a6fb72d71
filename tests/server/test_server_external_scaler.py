"""KEDA's external scaler over gRPC: a queue's backlog and age, as KEDA asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2, queue_service_pb2
from spoolrack_server.access.security import Security
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.keda import externalscaler_pb2 as pb
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.support.access_rig import Files, as_caller, bearer, serving
from tests.support.scaler_calls import scaler_calls
from tests.support.server_rig import Client, refused, served

MESSAGES, OLDEST_AGE = "spoolrack-messages", "spoolrack-oldest-age"


@pytest.fixture
async def serving_one(tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Server, Client]]:
    async with served(tmp_path / "root", clock) as (server, client):
        await client.create("q")
        yield server, client


@pytest.fixture
def client(serving_one: tuple[Server, Client]) -> Client:
    return serving_one[1]


def trigger(queue: str = "q", **metadata: str) -> pb.ScaledObjectRef:
    """Return what KEDA sends: all of the trigger's metadata."""
    return pb.ScaledObjectRef(
        name="workers",
        namespace="default",
        scalerMetadata={"scalerAddress": "spoolrack:50051", "queue": queue, **metadata},
    )


async def values(client: Client, ref: pb.ScaledObjectRef, name: str = "") -> Mapping[str, float]:
    request = pb.GetMetricsRequest(scaledObjectRef=ref, metricName=name)
    answer = await scaler_calls(client).GetMetrics(request)
    return {each.metricName: each.metricValueFloat for each in answer.metricValues}


async def test_the_metric_counts_ready_and_leased_messages(client: Client) -> None:
    await client.send(b"1", b"2", b"3")
    await client.receive(1)
    assert await values(client, trigger()) == {MESSAGES: 3.0}
    assert await values(client, trigger(countLeased="false")) == {MESSAGES: 2.0}


async def test_delayed_messages_need_no_replica_yet(client: Client) -> None:
    later = queue_pb2.OutgoingMessage(body=b"1", delay=Duration(seconds=60))
    await client.stub.Send(queue_service_pb2.SendRequest(queue="q", messages=[later]))
    assert (await client.counts()).delayed_count == 1
    assert await values(client, trigger()) == {MESSAGES: 0.0}
    assert not (await scaler_calls(client).IsActive(trigger())).result


async def test_the_age_of_the_oldest_message_is_a_metric_if_it_has_a_target(
    client: Client, clock: ManualClock
) -> None:
    await client.send(b"1")
    clock.advance(Millis(1_500))
    aged = trigger(oldestAgeSeconds="60")
    assert await values(client, aged) == {MESSAGES: 1.0, OLDEST_AGE: 1.5}
    assert await values(client, aged, OLDEST_AGE) == {OLDEST_AGE: 1.5}
    assert (await refused(values(client, trigger(), OLDEST_AGE))).reason == "INVALID_REQUEST"


async def test_the_targets_are_those_of_the_trigger(client: Client) -> None:
    spec = await scaler_calls(client).GetMetricSpec(
        trigger(messagesPerReplica="2.5", oldestAgeSeconds="60")
    )
    found = [(each.metricName, each.targetSizeFloat, each.targetSize) for each in spec.metricSpecs]
    assert found == [(MESSAGES, 2.5, 3), (OLDEST_AGE, 60.0, 60)]
    (only,) = (await scaler_calls(client).GetMetricSpec(trigger())).metricSpecs
    assert (only.metricName, only.targetSizeFloat) == (MESSAGES, 10.0)


async def test_a_queue_is_active_above_the_activation(client: Client) -> None:
    await client.send(b"1", b"2")
    assert (await scaler_calls(client).IsActive(trigger())).result
    assert (await scaler_calls(client).IsActive(trigger(activationMessages="1"))).result
    assert not (await scaler_calls(client).IsActive(trigger(activationMessages="2"))).result


async def test_a_stream_tells_each_change_and_ends_with_the_server(
    serving_one: tuple[Server, Client],
) -> None:
    server, client = serving_one
    stream = scaler_calls(client).StreamIsActive(trigger())
    assert not (await stream.read()).result
    await client.send(b"1")
    assert (await stream.read()).result
    (message,) = await client.receive(1)
    await client.delete(message.receipt)
    assert not (await stream.read()).result
    await server.stop()
    assert await stream.read() is grpc.aio.EOF


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"queue": ""}, "queue"),
        ({"messagesPerReplica": "0"}, "messagesPerReplica"),
        ({"messagesPerReplica": "many"}, "messagesPerReplica"),
        ({"oldestAgeSeconds": "nan"}, "oldestAgeSeconds"),
        ({"activationMessages": "-1"}, "activationMessages"),
        ({"countLeased": "yes"}, "countLeased"),
    ],
)
async def test_metadata_that_make_no_sense_are_refused_by_name(
    client: Client, metadata: Mapping[str, str], what: str
) -> None:
    found = await refused(scaler_calls(client).GetMetricSpec(trigger(**metadata)))
    assert found.code == grpc.StatusCode.INVALID_ARGUMENT
    assert what in found.message


async def test_a_queue_that_is_not_there_is_not_found(client: Client) -> None:
    assert (await refused(scaler_calls(client).IsActive(trigger("none")))).reason == "QUEUE_NOT_FOUND"


async def test_a_caller_sees_only_queues_that_it_may_monitor(tmp_path: Path) -> None:
    files = Files(tmp_path)
    security = Security(
        tokens=files.write_tokens("owner", "keda"),
        permissions=files.write_permissions("owner all *", "keda monitor a*"),
    )
    async with serving(tmp_path / "root", security) as server:
        async with as_caller(server, bearer(files.tokens["owner"])) as owner:
            await owner.create("a1")
            await owner.create("b1")
            known = scaler_calls(owner)
            token = (("authorization", bearer(files.tokens["keda"])),)
            assert not (await known.IsActive(trigger("a1"), metadata=token)).result
            request = pb.GetMetricsRequest(scaledObjectRef=trigger("b1"))
            denied = await refused(known.GetMetrics(request, metadata=token))
            assert denied.reason == "PERMISSION_DENIED"
        async with as_caller(server) as stranger:
            assert (
                await refused(scaler_calls(stranger).IsActive(trigger("a1")))
            ).reason == "UNAUTHENTICATED"
