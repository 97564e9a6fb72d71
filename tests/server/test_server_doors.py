"""Input of all kinds: garbage, too large requests, health, reflection, HTTP."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.authorized_calls import Context
from spoolrack_server.rpc.calls import ServedMethod, ServerCalls
from spoolrack_server.rpc.services import METHODS
from spoolrack_server.system.limits import LARGEST_CALL
from spoolrack_server.system.logs import make_log
from spoolrack_server.wire import contract

from tests.support import MIB
from tests.support.server_rig import Client, connected, refused

UNARY = [method.name for method in contract.METHODS.values() if not method.client_streaming]


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\x0a\xff", b"GET / HTTP/1.1"])
async def test_garbage_is_refused_as_what_it_is(client: Client, garbage: bytes) -> None:
    for method in UNARY:
        service = contract.METHODS[method].containing_service.full_name
        call = client.channel.unary_stream(f"/{service}/{method}")(garbage)
        no = await refused(call.read())
        found = no.code, no.reason
        assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"), method
        assert "Traceback" not in no.message, method


STREAMS: dict[str, tuple[Any, ...]] = {
    "StreamSend": (
        rpc.StreamSendRequest(correlation_id=1, request={"queue": "q", "messages": [{"body": b"1"}]}),
    ),
    "StreamDelete": (
        rpc.StreamDeleteRequest(correlation_id=1, request={"queue": "q", "targets": [{"id": "x"}]}),
    ),
    "StreamReceive": (
        rpc.StreamReceiveRequest(start={"queue": "q"}),
        rpc.StreamReceiveRequest(correlation_id=1, delete={"targets": [{"id": "x"}]}),
    ),
}
"""Of each stream the first requests, of which the last has an answer."""


async def test_a_stream_without_a_request_ends_well(client: Client) -> None:
    for method in STREAMS:
        assert [each async for each in getattr(client.stub, method)(iter(()))] == [], method


@pytest.mark.parametrize("method", STREAMS)
async def test_garbage_ends_a_stream_after_the_answers_to_what_came_before(
    client: Client, method: str
) -> None:
    await client.create()
    answer = getattr(rpc, f"{method}Response").FromString
    path = f"/spoolrack.v1.QueueService/{method}"
    good = [each.SerializeToString() for each in STREAMS[method]]
    stream = client.channel.stream_stream(path, response_deserializer=answer)
    call = stream(iter([*good, b"\xff\xff\xff"]))
    assert (await call.read()).correlation_id == 1
    no = await refused(call.read())
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


async def test_the_largest_message_passes(client: Client) -> None:
    await client.create(max_message_size=64 * MIB)
    body = bytes(64 * MIB)
    outgoing = pb.OutgoingMessage(body=body)
    outgoing.attributes["a"].binary_value = bytes(64 * 1024 - 1)
    await client.stub.Send(rpc.SendRequest(queue="q", messages=[outgoing]))
    (message,) = await client.receive()
    assert message.body == body


async def test_a_request_that_is_too_large_is_refused_and_the_connection_lives(client: Client) -> None:
    await client.create(max_message_size=64 * MIB)
    with pytest.raises(grpc.aio.AioRpcError, match="larger than max") as caught:
        await client.send(bytes(LARGEST_CALL + 1))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await client.counts()).ready_count == 0


@pytest.mark.parametrize("name", ["v1.QueueService/ChangeVisibility", "v2.QueueService/Send"])
async def test_a_method_of_another_version_is_unimplemented_and_the_error_says_what_to_do(
    client: Client, name: str
) -> None:
    call = client.channel.unary_unary(f"/spoolrack.{name}")(bytes(8 * MIB))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert f"no method /spoolrack.{name}: client and server are of different versions" in str(
        caught.value.details()
    )


async def test_a_mistake_of_the_server_is_logged_with_its_traceback_and_tells_the_client_nothing() -> (
    None
):
    async def fail(request: object, context: Context) -> None:
        raise KeyError("a secret")

    methods = {
        name: ServedMethod(fail, needs, writes_itself=name == "Receive")
        for name, needs in METHODS.items()
    }
    stream = io.StringIO()
    server = grpc.aio.server()
    calls = ServerCalls(make_log(stream=stream))
    server.add_generic_rpc_handlers(calls.handlers(methods))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = Client(channel)
        for call in (client.counts(), client.receive(), client.stream().read()):
            no = await refused(call)
            assert (no.code, no.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR")
            assert "secret" not in no.message
    await server.stop(None)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert all("a secret" in line and "Traceback" in line for line in lines)


@pytest.mark.parametrize("service", ["", "spoolrack.v1.QueueService"])
async def test_health_says_serving_and_then_not_serving(server: Server, service: str) -> None:
    async with connected(server) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        request = health_pb2.HealthCheckRequest(service=service)
        assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
        watches = [health.Watch(request), health.Watch(request)]
        for watch in watches:
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        watches.pop().cancel()
        stopping = asyncio.ensure_future(server.stop())
        (watch,) = watches
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        await stopping


async def test_health_does_not_know_other_services(client: Client) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)
    request = health_pb2.HealthCheckRequest(service="other")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health.Check(request)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    watch = health.Watch(request)
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


async def test_reflection_shows_the_contract(client: Client) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="spoolrack.v1.QueueService"),
    ]
    listed, described = [response async for response in stub.ServerReflectionInfo(iter(requests))]
    names = {service.name for service in listed.list_services_response.service}
    assert {"spoolrack.v1.QueueService", "grpc.health.v1.Health"} <= names
    files = described.file_descriptor_response.file_descriptor_proto
    assert "spoolrack/v1/queue_service.proto" in {
        FileDescriptorProto.FromString(file).name for file in files
    }
