"""A call is a span of its caller's trace, which is exported to the operator's endpoint."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import spoolrack
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as otlp_grpc
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.metrics.otel import TracingUnavailable, otlp_traces
from spoolrack_server.process.server import Server
from spoolrack_server.system.request_ids import HEADER

from tests.support import STUCK
from tests.support.server_rig import Client, connected
from tests.support.serving import serving
from tests.support.trace_rig import (
    PARENT,
    SPAN,
    TRACE,
    ended_span,
    exporter,
    named,
    provider,
    rpc_span,
    server,
)

pytestmark = pytest.mark.timeout(300)  # It starts programs, and waits for an endpoint that is away.

# The server's spans.


async def test_a_call_is_a_span_that_continues_its_callers_and_names_its_request(
    client: Client, exporter: InMemorySpanExporter
) -> None:
    await client.create()
    metadata = [("traceparent", PARENT), ("tracestate", "vendor=1"), (HEADER, "mine")]

    await client.stub.Receive(rpc.ReceiveRequest(queue="q"), metadata=metadata)

    span = rpc_span(exporter, "Receive")
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert span.parent.trace_state.get("vendor") == "1"
    assert span.kind is SpanKind.SERVER
    assert dict(span.attributes or {}) == {
        "rpc.system.name": "grpc",
        "rpc.method": "spoolrack.v1.QueueService/Receive",
        "rpc.response.status_code": "OK",
        "rpc.response.metadata.x-request-id": ("mine",),
        "messaging.system": "spoolrack",
        "messaging.destination.name": "q",
    }
    assert rpc_span(exporter, "CreateQueue").parent is None


async def test_a_callers_mistake_is_no_error_of_the_server_and_a_fault_is(
    client: Client, server: Server, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await client.stub.GetQueue(rpc.GetQueueRequest(name="missing"))
    server._calls.refuse()
    with pytest.raises(grpc.aio.AioRpcError):
        await client.stub.ListQueues(rpc.ListQueuesRequest())

    missing = await ended_span(exporter, "GetQueue")
    draining = await ended_span(exporter, "ListQueues")
    assert missing.status.status_code is StatusCode.UNSET
    assert (missing.attributes or {})["rpc.response.status_code"] == "NOT_FOUND"
    assert "error.type" not in (missing.attributes or {})
    assert draining.status.status_code is StatusCode.ERROR
    assert (draining.attributes or {})["error.type"] == "UNAVAILABLE"


async def test_a_request_of_a_stream_is_a_span_of_the_trace_of_its_messages(
    client: Client, exporter: InMemorySpanExporter
) -> None:
    await client.create()
    stream = client.stub.StreamSend()
    other = PARENT.replace(SPAN, "00f067aa0ba902b7")
    for number, parents in enumerate([[PARENT, PARENT], [PARENT, other, ""], []]):
        request = rpc.StreamSendRequest(correlation_id=number, request=rpc.SendRequest(queue="q"))
        for parent in parents or [""]:
            message = request.request.messages.add(body=b"x")
            if parent:
                message.attributes["traceparent"].string_value = parent
        await stream.write(request)
        await stream.read()

    spans = [
        span
        for span in exporter.get_finished_spans()
        if span.name == "spoolrack.v1.QueueService/StreamSend"
    ]
    of_one, of_two, of_none = spans
    assert of_one.parent is not None
    assert f"{of_one.parent.span_id:016x}" == SPAN
    assert (of_two.parent, len(of_two.links)) == (None, 2)
    assert (of_none.parent, len(of_none.links)) == (None, 0)
    assert (of_two.attributes or {})["messaging.batch.message_count"] == 3
    stream.cancel()


async def test_a_request_over_http_is_a_span_that_continues_its_callers(
    server: Server, exporter: InMemorySpanExporter
) -> None:
    async with aiohttp.ClientSession(server.http_url) as http:
        await http.get("/missing/messages/x", headers={"traceparent": PARENT, HEADER: "mine"})

    span = named(exporter, "GET /{queue}/messages/{id}")
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == SPAN
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/{queue}/messages/{id}",
        "http.response.status_code": 400,
        "http.response.header.x-request-id": ("mine",),
        "url.path": "/missing/messages/x",
        "url.scheme": "http",
    }


# Where the spans go.


class Collector(otlp_grpc.TraceServiceServicer):
    """Takes what OTLP brings."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.came = threading.Event()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract names it
        for resource in request.resource_spans:
            pairs = resource.resource.attributes
            self.resources.append({pair.key: pair.value.string_value for pair in pairs})
            for scope in resource.scope_spans:
                self.spans += scope.spans
        self.came.set()
        return otlp.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    otlp_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield collector, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:1"])
async def test_spans_come_to_the_otlp_endpoint_at_the_latest_when_the_server_stops(
    tmp_path: Path, collector: tuple[Collector, str], monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    collected, url = collector
    # The loopback is reached directly, whatever proxy the environment names.
    monkeypatch.setenv("http_proxy", proxy)
    async with (
        Server(tmp_path / "root", traces=otlp_traces(url)) as server,
        connected(server, ("grpc.enable_http_proxy", 0)) as client,
    ):
        await client.create()

    assert [span.name for span in collected.spans] == ["spoolrack.v1.QueueService/CreateQueue"]
    assert collected.resources[0]["service.name"] == "spoolrack"


def test_a_server_is_told_where_its_spans_go_on_the_command_line(
    tmp_path: Path, collector: tuple[Collector, str]
) -> None:
    collected, url = collector
    options = ("--grpc", "127.0.0.1:0", "--http", "off", "--traces", url)
    environment = {"OTEL_SERVICE_NAME": "named", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with serving("--data", tmp_path / "root", *options, environment=environment) as server:
        with spoolrack.connect(f"grpc://{server.grpc}") as client:
            client.create_queue("q")
        assert collected.came.wait(STUCK)

    assert "spoolrack.v1.QueueService/CreateQueue" in {span.name for span in collected.spans}
    assert collected.resources[0]["service.name"] == "named"


async def test_an_endpoint_that_is_not_there_holds_up_no_call(tmp_path: Path, client: Client) -> None:
    traces = otlp_traces("http://127.0.0.1:1")
    async with Server(tmp_path / "other", traces=traces) as server, connected(server) as other:
        await asyncio.wait_for(other.create(), STUCK)


@pytest.mark.parametrize("url", ["127.0.0.1:4317", "ftp://x", "http://", ""])
def test_an_invalid_endpoint_is_reported(url: str) -> None:
    with pytest.raises(TracingUnavailable, match="OTLP endpoint"):
        otlp_traces(url)


def test_that_the_extra_is_missing_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingUnavailable, match=r"pip install \"\.\[otel\]\""):
        otlp_traces("http://127.0.0.1:4317")


__all__ = ["exporter", "provider", "server"]
