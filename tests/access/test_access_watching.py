"""Metrics need MONITOR of all queues, probes need nothing, and a trace is for any caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import spoolrack
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from spoolrack_server.access.security import Security
from spoolrack_server.metrics.otel import OtelTraces
from spoolrack_server.process.server import Server

from tests.support.access_rig import Files, bearer, serving
from tests.support.trace_rig import exporter, provider

__all__ = ["exporter", "provider"]


@pytest.fixture
async def server(tmp_path: Path, files: Files, provider: TracerProvider) -> AsyncIterator[Server]:
    security = Security(
        tokens=files.write_tokens("owner", "watcher", "some"),
        permissions=files.write_permissions("owner all *", "watcher monitor *", "some monitor a*"),
    )
    traces = OtelTraces(provider)
    async with serving(tmp_path / "root", security, traces=traces, health=("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize(
    ("who", "status"), [("owner", 200), ("watcher", 200), ("some", 403), ("", 401)]
)
async def test_metrics_need_permission_to_monitor_all_queues(
    server: Server, files: Files, who: str, status: int
) -> None:
    headers = {"Authorization": bearer(files.tokens[who])} if who else {}
    async with aiohttp.ClientSession(server.http_url, headers=headers) as http:
        answer = await http.get("/-/metrics")
    assert answer.status == status


async def test_probes_need_no_token(server: Server) -> None:
    for url in (server.http_url, server.health_url):
        async with aiohttp.ClientSession(url) as http:
            for what in ("live", "ready"):
                assert (await http.get(f"/-/health/{what}")).status == 200


async def test_a_client_with_a_token_is_in_the_trace_of_its_caller(
    server: Server, files: Files, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with provider.get_tracer("test").start_as_current_span("calling") as calling:
        async with spoolrack.aio.connect(
            f"grpc://{server.grpc_address}", token=files.tokens["owner"]
        ) as client:
            await client.create_queue("q")

    spans = {span.name: span for span in exporter.get_finished_spans()}
    parent = spans["spoolrack.v1.QueueService/CreateQueue"].parent
    assert parent is not None
    assert parent.span_id == calling.get_span_context().span_id
