"""A trace goes from who sends a message to who receives it, and the server is in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import spoolrack
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from spoolrack.tracing import context_of, link_of
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app.trace_context import context_in, inherit_context, is_traceparent
from spoolrack_server.process.server import Server

from tests.support.server_rig import Client
from tests.support.serving import output_of
from tests.support.trace_rig import PARENT, SPAN, TRACE, exporter, named, provider, rpc_span, server

# Trace contexts of messages.


async def test_a_trace_comes_from_a_sender_over_http_to_a_receiver_over_grpc_and_back(
    client: Client, server: Server
) -> None:
    await client.create()
    trace_headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    async with aiohttp.ClientSession(server.http_url) as http:
        await http.post("/q/messages", data=b"x", headers=trace_headers)
        (received,) = await client.receive()
        sent = rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=b"y")])
        await client.stub.Send(sent, metadata=list(trace_headers.items()))
        answer = await http.get("/q/messages")

    told = {name: value.string_value for name, value in received.attributes.items()}
    assert told.items() >= trace_headers.items()
    assert answer.headers["X-Attribute-traceparent"] == PARENT
    assert answer.headers["X-Attribute-tracestate"].replace("%3D", "=") == "vendor=1"


async def test_a_message_keeps_the_trace_that_it_carries(client: Client, server: Server) -> None:
    await client.create()
    own = PARENT.replace(SPAN, "00f067aa0ba902b7")
    async with aiohttp.ClientSession(server.http_url) as http:
        headers = {"traceparent": PARENT, "X-Attribute-traceparent": own}
        await http.post("/q/messages", data=b"x", headers=headers)
    (received,) = await client.receive()

    assert received.attributes["traceparent"].string_value == own


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT.upper(),
        PARENT[:-1],
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        PARENT + "\n",
    ],
)
def test_an_invalid_trace_context_is_left_in_place(parent: str) -> None:
    assert not is_traceparent(parent)
    assert context_in([("traceparent", parent)]) == {}


def test_a_message_whose_attributes_are_full_goes_without_the_trace_of_its_call() -> None:
    context = context_in([("Traceparent", PARENT), ("tracestate", "é")])
    assert context == {"traceparent": PARENT}
    full: dict[str, str | bytes] = {"x": "y" * (64 * 1024 - 100)}
    roomy: dict[str, str | bytes] = {}

    many: dict[str, str | bytes] = {str(number): "" for number in range(1_000)}
    assert not inherit_context(context, full)
    assert not inherit_context(context, many)
    assert inherit_context(context, roomy)

    assert "traceparent" not in {**full, **many}
    assert roomy == context


@pytest.fixture
def in_span(provider: TracerProvider) -> Iterator[str]:
    """While a span is active, its trace's id."""
    with provider.get_tracer("test").start_as_current_span("sending") as span:
        yield f"{span.get_span_context().trace_id:032x}"


@pytest.fixture
def global_provider(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    # As set_tracer_provider, which can be called once in a process and not be undone.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)


@pytest.mark.usefixtures("global_provider")
def test_a_worker_continues_the_trace_of_the_sender(
    tmp_path: Path, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        client.create_queue("q")
        queue = client.queue("q")
        with provider.get_tracer("test").start_as_current_span("sending") as sending:
            queue.send(b"x")
        inside: list[Any] = []

        def work(message: spoolrack.Message) -> None:
            inside.append(trace.get_current_span().get_span_context())
            worker.stop()

        worker = queue.worker(work, concurrency=1)
        worker.run()

    sent, span = named(exporter, "send q"), named(exporter, "process q")
    assert sent.parent == sending.get_span_context()
    assert span.parent is not None
    assert span.parent.span_id == sent.get_span_context().span_id
    assert [link.context.span_id for link in span.links] == [sent.get_span_context().span_id]
    assert inside == [span.get_span_context()]
    assert (sent.kind, span.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)


@pytest.mark.usefixtures("global_provider")
async def test_a_handler_that_raises_ends_its_span_with_the_error(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    async with spoolrack.aio.connect(f"file://{tmp_path}/root") as client:
        await client.create_queue("q")
        queue = client.queue("q")
        await queue.send(b"x")

        async def work(message: spoolrack.aio.Message) -> None:
            worker.stop()
            raise ValueError("broken")

        worker = queue.worker(work, on_error=lambda message, error: None)
        await worker.run()

    span = named(exporter, "process q")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "builtins.ValueError"
    assert [event.name for event in span.events] == ["exception"]


async def test_every_way_to_send_takes_the_active_span_along(server: Server, in_span: str) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        await client.create_queue("q")
        queue = client.queue("q")
        await queue.send("one")
        await queue.send_many(["many", spoolrack.Outgoing(body=b"more", attributes={"a": "b"})])
        async with queue.batch() as batch:
            await batch.send(b"batch")
        received = await queue.receive(10)

    assert [f"00-{in_span}" in str(each.attributes.get("traceparent")) for each in received] == [
        True
    ] * 4
    assert received[2].attributes["a"] == "b"
    links = [link_of(message) for message in received]
    assert {f"{link.context.trace_id:032x}" for link in links if link is not None} == {in_span}


async def test_a_message_that_is_passed_on_keeps_its_trace(server: Server, in_span: str) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        await client.create_queue("q")
        queue = client.queue("q")
        await queue.send(b"x", attributes={"traceparent": PARENT})
        (message,) = await queue.receive()

    context = trace.get_current_span(context_of(message)).get_span_context()
    assert f"{context.trace_id:032x}" == TRACE != in_span


async def test_without_an_active_span_nothing_is_taken_along(server: Server) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        await client.create_queue("q")
        queue = client.queue("q")
        await queue.send(b"x")
        (message,) = await queue.receive()

    assert message.attributes == {}
    assert link_of(message) is None


async def test_a_call_of_a_client_is_in_the_trace_of_its_caller(
    server: Server, exporter: InMemorySpanExporter, in_span: str
) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        await client.create_queue("q")

    parent = rpc_span(exporter, "CreateQueue").parent
    assert parent is not None
    assert f"{parent.trace_id:032x}" == in_span


def test_a_folder_of_vsqs_that_holds_no_attributes_takes_a_message_all_the_same(
    tmp_path: Path, in_span: str
) -> None:
    folder = tmp_path / "queue"
    folder.mkdir()
    with spoolrack.connect(f"vsqs://{folder}") as client:
        queue = client.queue("queue")
        queue.send(b"x")
        assert queue.receive()[0].body == b"x"


WITHOUT = """
import sys
import spoolrack
import spoolrack_server.process.server, spoolrack_server.process.serve
with spoolrack.connect(f"file://{sys.argv[1]}") as client:
    client.create_queue("q")
    queue = client.queue("q")
    queue.send(b"x")
    message = queue.receive()[0]
    assert message.attributes == {}, message.attributes
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_a_program_that_does_not_use_opentelemetry_never_imports_it(tmp_path: Path) -> None:
    output_of(sys.executable, "-c", WITHOUT, tmp_path / "root")


__all__ = ["exporter", "provider", "server"]
