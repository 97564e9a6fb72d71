"""Metrics at `/-/metrics`: every metric of the list and the page about it, and nothing else."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.metrics import observer
from spoolrack_server.metrics.metrics import METRICS, Metric, Row
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.store_metrics import StoreMetrics

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.scrape import Scrape, scrape
from tests.support.server_rig import Client

DOCS = CHECKOUT / "docs" / "how-to" / "observability.md"


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with Server(
        ServeSettings(root=str(tmp_path / "root"), metrics_queues=3), clock=clock
    ) as server:
        yield server


async def bury(client: Client, clock: ManualClock) -> None:
    """Let a message of the queue `q` become a dead letter."""
    await client.create("dead")
    await client.create("q", max_receives=1, dead_letter_queue="dead")
    await client.send(b"poison")
    await client.receive()
    clock.advance(60_000)
    assert not await client.receive()
    # The commits after that one move it.
    while not (await client.stub.GetQueue(rpc.GetQueueRequest(name="dead"))).queue.counts.ready_count:
        await asyncio.sleep(0)


async def test_every_metric_of_the_list_is_in_a_scrape_and_no_other(
    server: Server, client: Client, clock: ManualClock
) -> None:
    await bury(client, clock)
    stream = client.stream(max_in_flight=5)
    await stream.initial_metadata()
    stream.cancel()
    await until_ended(server, "StreamReceive")

    found = await scrape(server)

    there = {name.removesuffix("_info") for name in found.names()}
    assert there == set(METRICS) - {
        "spoolrack_shard",  # A shard's alone.
        "spoolrack_access_file_age_seconds",  # Of servers with such files.
    }
    for family in found.families.values():
        metric = METRICS[family.name.removesuffix("_info")]
        assert family.documentation == metric.help
        for sample in family.samples:
            labels = set(sample.labels) - {"le"}
            wanted = {*metric.labels, *(["process"] if metric.is_of_process else [])}
            assert labels == wanted, sample


async def until_ended(server: Server, operation: str) -> None:
    for _ in range(10_000):
        if (await scrape(server)).value("spoolrack_streams", operation=operation) == 0:
            return
    raise AssertionError("it never ended")


def test_the_page_about_it_has_each_metric_with_its_kind_and_labels() -> None:
    rows = re.findall(
        r"^\| `(spoolrack_\w+)` \| (\w+) \|([^|]*)\| (.*) \|$", DOCS.read_text(), re.MULTILINE
    )

    assert [(name, kind, labels.strip(), help) for name, kind, labels, help in rows] == [
        (
            shown(metric),
            metric.kind,
            ", ".join(f"`{label}`" for label in labels_of(metric)),
            metric.help,
        )
        for metric in METRICS.values()
    ]


def shown(metric: Metric) -> str:
    return metric.name + {"counter": "_total", "info": "_info"}.get(metric.kind, "")


def labels_of(metric: Metric) -> list[str]:
    return [*(["process"] if metric.is_of_process else []), *metric.labels]


async def test_counts_and_ages_are_those_of_the_queue(
    server: Server, client: Client, clock: ManualClock
) -> None:
    await client.create()
    await client.send(b"first")
    await client.send(b"second", b"third")
    await client.receive()
    clock.advance(12_000)

    found = await scrape(server)

    assert found.value("spoolrack_queue_messages", queue="q", state="ready") == 2
    assert found.value("spoolrack_queue_messages", queue="q", state="leased") == 1
    assert found.value("spoolrack_queue_oldest_ready_age_seconds", queue="q") == 12
    assert found.value("spoolrack_messages_total", process="0", queue="q", operation="send") == 3
    assert found.value("spoolrack_messages_total", process="0", queue="q", operation="receive") == 1


async def test_dead_letters_are_counted_at_the_queue_that_has_them(
    server: Server, client: Client, clock: ManualClock
) -> None:
    await bury(client, clock)

    found = await scrape(server)

    assert found.value("spoolrack_dead_letters", queue="dead") == 1
    assert found.value("spoolrack_messages_total", process="0", queue="q", operation="dead_letter") == 1


async def test_a_call_is_counted_by_what_it_asked_for_and_how_it_ended(
    server: Server, client: Client
) -> None:
    await client.create()
    with pytest.raises(grpc.aio.AioRpcError):
        await client.stub.GetQueue(rpc.GetQueueRequest(name="missing"))
    async with aiohttp.ClientSession(server.http_url) as http:
        for path in ("/q", "/missing", "/-/nothing", "/missing/messages/x"):
            await (await http.get(path)).read()

    found = await scrape(server)

    def count(operation: str, code: str) -> float:
        name = "spoolrack_operation_duration_seconds_count"
        return found.value(name, process="0", operation=operation, code=code)

    assert count("CreateQueue", "OK") == 1
    assert count("GetQueue", "NOT_FOUND") == 1
    assert count("GET /{queue}", "200") == 1
    assert count("GET /{queue}", "404") == 1
    assert count("unknown", "404") == 1
    assert count("GET /{queue}/messages/{id}", "400") == 1


async def test_a_request_of_a_stream_is_counted_by_itself(server: Server, client: Client) -> None:
    await client.create()
    stream = client.stub.StreamSend()
    for number, queue in enumerate(["q", "missing"]):
        await stream.write(
            rpc.StreamSendRequest(
                correlation_id=number,
                request=rpc.SendRequest(queue=queue, messages=[pb.OutgoingMessage(body=b"x")]),
            )
        )
        await stream.read()

    found = await scrape(server)

    name = "spoolrack_operation_duration_seconds_count"
    assert found.value(name, process="0", operation="StreamSend", code="OK") == 1
    assert found.value(name, process="0", operation="StreamSend", code="NOT_FOUND") == 1
    assert found.value("spoolrack_streams", process="0", operation="StreamSend") == 1


async def test_the_credits_of_streams_are_told_and_how_many_are_in_use(
    server: Server, client: Client
) -> None:
    await client.create()
    await client.send(b"x", b"y")
    stream = client.stream(max_in_flight=10)
    await stream.read()

    found = await scrape(server)

    assert found.value("spoolrack_credits", process="0") == 10
    assert found.value("spoolrack_credits_in_use", process="0") == 2
    stream.cancel()


async def test_quarantine_is_counted_each_half_minute_and_for_a_hundredth_of_the_time(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    took = 0

    def count(_: StoreMetrics) -> None:
        counts.append(clock.monotonic())
        clock.advance(took)

    monkeypatch.setattr(StoreMetrics, "quarantined", count)

    async def intervals(samples: int) -> list[int]:
        counts.clear()
        for _ in range(samples):
            clock.advance(10_000 - clock.monotonic() % 10_000)
            await server.observer.sample()
        return [later - earlier for earlier, later in pairwise(counts)]

    assert await intervals(9) == [30_000] * 2
    took = 1_000
    assert (await intervals(13))[-1] == 100_000


async def test_beyond_so_many_queues_the_rest_is_one_and_no_queue_moves_between(
    server: Server, client: Client, clock: ManualClock
) -> None:
    for name in ("e", "d", "c", "b", "a"):
        await client.create(name)
        clock.advance(1)
    await client.send(b"old", queue="b")
    clock.advance(9_000)
    await client.send(b"x", b"y", queue="a")
    await client.send(b"x", queue="e")

    found = await scrape(server)

    assert found.labels("spoolrack_queue_bytes", "queue") == {"e", "d", "c", "*"}
    assert found.value("spoolrack_queues") == 5
    assert found.value("spoolrack_queue_messages", queue="*", state="ready") == 3
    assert found.value("spoolrack_queue_oldest_ready_age_seconds", queue="*") == 9
    assert found.value("spoolrack_messages_total", process="0", queue="*", operation="send") == 3
    assert found.value("spoolrack_messages_total", process="0", queue="e", operation="send") == 1


async def test_a_scrape_may_be_of_open_metrics(server: Server, client: Client) -> None:
    await client.create()
    async with aiohttp.ClientSession(server.http_url) as http:
        answer = await http.get("/-/metrics", headers={"Accept": "application/openmetrics-text"})
        text = await answer.text()

    assert answer.content_type == "application/openmetrics-text"
    assert {family.name for family in open_metrics(text)} >= {
        "spoolrack_sync_failures",
        "spoolrack_build",
    }


async def test_scrapes_at_once_are_collected_one_by_one(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.create()
    asked, at_once = 0, []
    all_asked = threading.Event()
    collecting: set[object] = set()
    page, collect_root = server.observer.page, observer.collect_root

    async def ask(accept: str) -> tuple[bytes, str]:
        nonlocal asked
        asked += 1
        if asked == 20:
            all_asked.set()
        return await page(accept)

    def collect(*arguments: Any) -> Iterator[Row]:
        own = object()
        collecting.add(own)
        at_once.append(len(collecting))
        assert all_asked.wait(STUCK)
        yield from collect_root(*arguments)
        collecting.remove(own)

    monkeypatch.setattr(server.observer, "page", ask)
    monkeypatch.setattr(observer, "collect_root", collect)

    found: list[Scrape] = await asyncio.gather(*(scrape(server) for _ in range(20)))

    assert {each.value("spoolrack_queues") for each in found} == {1}
    assert at_once == [1] * 20
