"""The client's spans and metrics are named as OpenTelemetry's messaging conventions say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spoolrack
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.metrics import messaging_metrics as conventions
from opentelemetry.trace import SpanKind, StatusCode
from spoolrack.errors import QueueNotFound
from spoolrack_server.process.server import Server

from tests.support.serving import output_of
from tests.support.trace_rig import exporter, named, provider, server
from tests.support.waiting import until


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> Iterator[InMemoryMetricReader]:
    """Configure both providers: as the setters, which can be called once in a process."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", meters)
    yield reader
    meters.shutdown()


def measured(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Return what was measured since the last look, by the metric's name."""
    data = reader.get_metrics_data()
    return {
        metric.name: [(dict(point.attributes or {}), point) for point in metric.data.data_points]
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def common(server: Server, name: str, type: str) -> dict[str, Any]:
    host, _, port = server.grpc_address.rpartition(":")
    return {
        "messaging.system": "spoolrack",
        "messaging.destination.name": "q",
        "messaging.operation.name": name,
        "messaging.operation.type": type,
        "server.address": host,
        "server.port": int(port),
    }


async def test_each_operation_is_a_span_named_for_it_and_its_queue(
    server: Server, exporter: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        await client.create_queue("dead")
        queue = await client.create_queue("q", dead_letter_queue="dead", max_receives=5)
        id = await queue.send(b"one")
        await queue.send_many([b"two", b"three"])
        one, two, three = await queue.receive(3)
        await one.delete()
        await two.release()
        await queue.reject_many([three, three])

    spans = [span for span in exporter.get_finished_spans() if span.name.endswith(" q")]
    assert [(span.name, span.kind) for span in spans] == [
        ("send q", SpanKind.PRODUCER),
        ("send q", SpanKind.PRODUCER),
        ("receive q", SpanKind.CLIENT),
        ("delete q", SpanKind.CLIENT),
        ("release q", SpanKind.CLIENT),
        ("reject q", SpanKind.CLIENT),
    ]
    sent, sent_many, received, deleted, released, rejected = spans
    assert sent.attributes == common(server, "send", "send") | {"messaging.message.id": id}
    many = {"messaging.batch.message_count": 2}
    assert sent_many.attributes == common(server, "send", "send") | many
    many = {"messaging.batch.message_count": 3}
    assert received.attributes == common(server, "receive", "receive") | many
    assert [link.context.span_id for link in received.links] == [
        each.get_span_context().span_id for each in (sent, sent_many, sent_many)
    ]
    assert deleted.attributes == common(server, "delete", "settle")
    assert released.attributes == common(server, "release", "settle")
    many = {"messaging.batch.message_count": 2}
    assert rejected.attributes == common(server, "reject", "settle") | many


def test_operations_and_handlers_are_measured_as_the_conventions_say(
    tmp_path: Path, reader: InMemoryMetricReader
) -> None:
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        queue = client.create_queue("q")
        queue.send_many([b"one", b"two"])
        queue.receive()[0].delete()
        worker = queue.worker(lambda message: worker.stop(), concurrency=1)
        worker.run()
        with pytest.raises(QueueNotFound):
            client.queue("missing").send(b"x")

    found = measured(reader)
    assert found.keys() == {
        conventions.MESSAGING_CLIENT_OPERATION_DURATION,
        conventions.MESSAGING_CLIENT_SENT_MESSAGES,
        conventions.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        conventions.MESSAGING_PROCESS_DURATION,
    }
    counts = {
        (attributes["messaging.operation.name"], attributes.get("error.type")): point.count
        for attributes, point in found[conventions.MESSAGING_CLIENT_OPERATION_DURATION]
    }
    assert counts == {
        ("send", None): 1,
        ("receive", None): 1,
        ("delete", None): 2,
        ("send", "spoolrack.errors.QueueNotFound"): 1,
    }
    sent = found[conventions.MESSAGING_CLIENT_SENT_MESSAGES]
    assert {each.get("error.type"): point.value for each, point in sent} == {
        None: 2,
        "spoolrack.errors.QueueNotFound": 1,
    }
    consumed = found[conventions.MESSAGING_CLIENT_CONSUMED_MESSAGES]
    assert {each["messaging.operation.name"]: point.value for each, point in consumed} == {
        "receive": 1,
        "process": 1,
    }
    ((attributes, processed),) = found[conventions.MESSAGING_PROCESS_DURATION]
    assert (attributes["messaging.operation.type"], processed.count) == ("process", 1)
    assert "server.address" not in attributes


async def test_an_operation_that_fails_names_its_error(
    server: Server, exporter: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    async with spoolrack.aio.connect(f"grpc://{server.grpc_address}") as client:
        with pytest.raises(QueueNotFound):
            await client.queue("q").send(b"x")

    span = named(exporter, "send q")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "spoolrack.errors.QueueNotFound"


def test_an_ack_that_nobody_waits_for_is_a_settlement_of_its_own(
    exporter: InMemorySpanExporter, reader: InMemoryMetricReader, tmp_path: Path
) -> None:
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        queue = client.create_queue("q")
        queue.send(b"x")
        queue.receive()[0].ack()
        until(lambda: any(span.name == "delete q" for span in exporter.get_finished_spans()))

    assert named(exporter, "delete q").parent is None


UNCONFIGURED = """
import sys
import opentelemetry.trace
import spoolrack
with spoolrack.connect(f"file://{sys.argv[1]}") as client:
    queue = client.create_queue("q")
    queue.send(b"x")
    message = queue.receive()[0]
    message.delete()
    assert message.attributes == {}, message.attributes
assert "opentelemetry.metrics" not in sys.modules
"""


def test_a_program_that_configures_no_provider_measures_nothing(tmp_path: Path) -> None:
    output_of(sys.executable, "-c", UNCONFIGURED, tmp_path / "root")


__all__ = ["exporter", "provider", "server"]
