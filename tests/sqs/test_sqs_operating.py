"""SQS's listener in operation: traces, a drain, bounds on what comes, several processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from spoolrack_server.metrics.otel import OtelTraces
from spoolrack_server.process.server import Server
from spoolrack_store.model.operations import CreateQueue, Receive, messages_of
from spoolrack_store.model.settings import QueueSettings

from tests.support.scrape import scrape_at
from tests.support.server_rig import until_waiting
from tests.support.serving import ANY_PORTS, serving
from tests.support.sqs_rig import Sqs, raw, refused, serving_sqs

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DURATIONS = "spoolrack_operation_duration_seconds"


async def test_an_operation_is_a_span_and_its_messages_carry_its_callers_trace(
    tmp_path: Path,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with serving_sqs(tmp_path / "root", traces=OtelTraces(provider)) as server:
        await raw(server, "CreateQueue", {"QueueName": "q"})
        body = {"QueueUrl": "/q", "MessageBody": "x"}
        await raw(server, "SendMessage", body, traceparent=PARENT)
        leased = await asyncio.wrap_future(server.store.submit(Receive(queue="q")))
        (message,) = messages_of(leased)
        assert message.attributes["traceparent"] == PARENT
    (span,) = [each for each in exporter.get_finished_spans() if each.name == "POST SendMessage"]
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" in PARENT


async def test_a_drain_ends_long_polls_and_refuses_what_comes_then(server: Server, sqs: Sqs) -> None:
    url = await sqs.create("q")
    receiving = asyncio.create_task(refused(sqs.receive(url, WaitTimeSeconds=20)))
    await until_waiting(server, 1)
    await server.stop()
    refusal = await receiving
    assert (refusal.code, refusal.status) == ("ServiceUnavailable", 503)


async def test_sends_are_refused_past_the_memory_watermark_and_receives_are_not(
    tmp_path: Path,
) -> None:
    async with serving_sqs(tmp_path / "root", settings={"memory_watermark": 1}) as server:
        assert server.sqs_url is not None
        sqs = Sqs(server.sqs_url)
        url = await sqs.create("q")
        server._memory.check()
        refusal = await refused(sqs.send(url, "x"))
        assert (refusal.code, refusal.status) == ("ServiceUnavailable", 503)
        assert await sqs.receive(url) == []


async def test_each_queues_url_begins_with_what_the_server_was_told(tmp_path: Path) -> None:
    settings = {"sqs_url": "https://queue.example.com"}
    async with serving_sqs(tmp_path / "root", settings=settings) as server:
        answer = await raw(server, "CreateQueue", {"QueueName": "q"})
        assert answer.json["QueueUrl"] == "https://queue.example.com/000000000000/q"


async def test_the_account_is_that_of_the_option_or_of_the_credentials(tmp_path: Path) -> None:
    settings = {"sqs_account": "111122223333"}
    async with serving_sqs(tmp_path / "root", settings=settings) as server:
        sqs = Sqs(str(server.sqs_url))
        url = await sqs.create("q")
        assert url.endswith("/111122223333/q")
        assert (await sqs.attributes(url))["QueueArn"] == "arn:aws:sqs:eu-west-1:111122223333:q"
        other = Sqs(str(server.sqs_url), aws_access_key_id="999988887777")
        assert (await other.list_queues())["QueueUrls"] == [url.replace("111122223333", "999988887777")]
        # Accounts are names alone: the queues are the same.
        await other.send(url, "x")
        (message,) = await sqs.receive(url)
        assert message["Attributes"]["SenderId"] == "111122223333"


@pytest.mark.timeout(120)
def test_worker_processes_share_the_port_of_sqs(tmp_path: Path) -> None:
    options = ("--sqs", "127.0.0.1:0", "--processes", 2)
    with serving("--data", tmp_path / "root", *ANY_PORTS, *options) as server:
        url = server.at("SQS")
        first = Sqs(url).client
        queue = first.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
        for number in range(20):
            Sqs(url).client.send_message(QueueUrl=queue, MessageBody=json.dumps(number))
        found = []
        while len(found) < 20:
            received = Sqs(url).client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
            for message in received["Messages"]:
                found.append(json.loads(message["Body"]))
                Sqs(url).client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        assert sorted(found) == list(range(20))
        # The kernel deals out these forty connections and more.
        durations = asyncio.run(scrape_at(server.at("HTTP"))).families[DURATIONS]
        assert {
            sample.labels["process"]
            for sample in durations.samples
            if sample.labels["operation"].startswith("SQS ")
        } == {"0", "1"}


async def test_a_large_list_is_within_the_memory_of_responses(server: Server, sqs: Sqs) -> None:
    """A list of 1,000 queues has more than 64 KiB, and a client may not read it."""
    store = server.store
    creating = [
        store.submit(CreateQueue(name=f"{number:0>80}", settings=QueueSettings()))
        for number in range(700)
    ]
    await asyncio.gather(*map(asyncio.wrap_future, creating))
    responses = server._memory.responses
    with responses.share("another connection", responses.total):
        refusal = await refused(sqs.list_queues())
        assert (refusal.code, refusal.status) == ("ServiceUnavailable", 503)
        few = await sqs.list_queues(MaxResults=100)
        assert len(few["QueueUrls"]) == 100
    assert len((await sqs.list_queues())["QueueUrls"]) == 700
    assert responses.used == 0
