"""A server whose spans stay in memory, and the trace that its callers say they are in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from spoolrack_server.metrics.otel import OtelTraces
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock, provider: TracerProvider) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root", clock=clock, traces=OtelTraces(provider)) as server:
        yield server


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return found


async def ended_span(exporter: InMemorySpanExporter, method: str) -> ReadableSpan:
    """Return the span of a call, once it has ended: the caller may hear of a refusal before."""
    async with asyncio.timeout(60):
        while not any(span.name.endswith(method) for span in exporter.get_finished_spans()):
            await asyncio.sleep(0)
    return rpc_span(exporter, method)


def rpc_span(exporter: InMemorySpanExporter, method: str) -> ReadableSpan:
    return named(exporter, f"spoolrack.v1.QueueService/{method}")
