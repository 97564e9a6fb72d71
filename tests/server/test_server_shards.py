"""A server that is a shard refuses each call for a queue, or a shard, that it isn't, by every door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import spoolrack
from spoolrack.errors import WrongShard
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.cli.program import run
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.keda import externalscaler_pb2 as keda
from spoolrack_server.wire import contract
from spoolrack_store.model.shards import Shard
from spoolrack_store.store import Store

from tests.support.method_requests import ID, naming, outcome
from tests.support.scaler_calls import scaler_calls
from tests.support.server_rig import Client, connected, refused
from tests.support.sqs_rig import Sqs
from tests.support.sqs_rig import refused as refused_by_sqs

ELSEWHERE = "jobs-dead"
"""On shard 0 of 8; the queue `jobs` is on shard 3."""
UNNAMED = {"ListQueues"}
"""Methods whose requests can't name a queue."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = ServeSettings(root=str(tmp_path / "served"), sqs=(LOOPBACK, 0), shard="3/8")
    async with Server(settings) as server, connected(server) as client:
        await client.create("jobs")
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server) as client:
        yield client


async def test_each_method_tells_the_right_shard(client: Client) -> None:
    for method in contract.METHODS.keys() - UNNAMED:
        reason, message = await outcome(client, method, naming(ELSEWHERE, method))
        assert (method, reason) == (method, "WRONG_SHARD"), message
        assert "belongs to shard 0 of 8, and this server is shard 3 of 8" in message


async def test_the_error_has_the_facts_for_a_router(client: Client) -> None:
    no = await refused(client.stub.GetQueue(rpc.GetQueueRequest(name=ELSEWHERE)))
    assert no.code is grpc.StatusCode.FAILED_PRECONDITION
    facts = {"queue": ELSEWHERE, "tag": ELSEWHERE, "shard": "0", "shards": "8", "this": "3"}
    assert facts.items() <= no.metadata.items()
    assert no.retry_millis is None


async def test_a_call_for_another_shard_is_refused_with_the_order_of_addresses(
    client: Client,
) -> None:
    for shard in ("3/16", "2/8", "0/8"):
        metadata = (("x-spoolrack-shard", shard),)
        no = await refused(client.stub.ListQueues(rpc.ListQueuesRequest(), metadata=metadata))
        assert (shard, no.reason) == (shard, "WRONG_SHARD")
        assert (no.metadata["shard"], no.metadata["shards"]) == tuple(shard.split("/"))
        assert (no.metadata["this"], no.metadata["queue"]) == ("3", "")
        assert "must be those of all shards, in the order of their numbers from 0 on" in no.message
        assert "a proxy's servers" in no.message
        assert "behind a proxy a client needs routing=header" in no.message


async def test_a_call_for_this_shard_is_done_and_tells_which_it_is(client: Client) -> None:
    mine = {"metadata": (("x-spoolrack-shard", "3/8"),)}
    assert (await client.stub.ListQueues(rpc.ListQueuesRequest(), **mine)).shard == "3/8"
    assert (await client.stub.GetQueue(rpc.GetQueueRequest(name="jobs"), **mine)).shard == "3/8"


async def test_a_call_for_what_is_no_shard_is_refused(client: Client) -> None:
    for shard in ("8/8", "x", "3"):
        metadata = (("x-spoolrack-shard", shard),)
        no = await refused(client.stub.ListQueues(rpc.ListQueuesRequest(), metadata=metadata))
        assert (shard, no.reason) == (shard, "INVALID_REQUEST")
        assert "such as 2/8" in no.message


async def test_a_server_that_is_no_shard_refuses_calls_for_one(tmp_path: Path) -> None:
    async with Server(tmp_path) as server, connected(server) as client:
        assert (await client.stub.ListQueues(rpc.ListQueuesRequest())).shard == ""
        call = client.stub.ListQueues(rpc.ListQueuesRequest(), metadata=(("x-spoolrack-shard", "0/1"),))
        no = await refused(call)
        assert no.reason == "WRONG_SHARD"
        assert "belongs to shard 0 of 1, and this server is no shard" in no.message


async def test_kedas_scaler_tells_the_right_shard(client: Client) -> None:
    trigger = keda.ScaledObjectRef(name="w", scalerMetadata={"queue": ELSEWHERE})
    scaler = scaler_calls(client)
    for call in (
        scaler.IsActive(trigger),
        scaler.StreamIsActive(trigger).read(),
        scaler.GetMetricSpec(trigger),
        scaler.GetMetrics(keda.GetMetricsRequest(scaledObjectRef=trigger)),
    ):
        no = await refused(call)
        assert (no.reason, no.metadata["shard"]) == ("WRONG_SHARD", "0")
        assert "belongs to shard 0 of 8, and this server is shard 3 of 8" in no.message


async def test_http_answers_421_with_the_right_shard(server: Server) -> None:
    requests: list[tuple[str, str, Any]] = [
        ("GET", f"/{ELSEWHERE}", None),
        ("HEAD", f"/{ELSEWHERE}", None),
        ("PUT", f"/{ELSEWHERE}", {}),
        ("POST", f"/{ELSEWHERE}/messages", {}),
        ("GET", f"/{ELSEWHERE}/messages", None),
        ("GET", f"/-/queues/{ELSEWHERE}/messages", None),
        ("POST", f"/-/queues/{ELSEWHERE}/reservations", {"stream": "s"}),
        ("POST", "/-/reservations/s/commit", {"queue": ELSEWHERE}),
        ("POST", "/-/reservations/s/0/extend", {"queue": ELSEWHERE}),
        ("GET", f"/-/reservations/s/0/messages?queue={ELSEWHERE}", None),
        ("DELETE", f"/-/reservations/s/0?queue={ELSEWHERE}", None),
        ("POST", "/-/publish", {"writer": "w", "queue": ELSEWHERE}),
        ("DELETE", f"/-/stages/s?queue={ELSEWHERE}", None),
        ("GET", f"/-/stages?queue={ELSEWHERE}", None),
        ("GET", f"/-/redrives/{ID}?queue={ELSEWHERE}", None),
        ("POST", f"/-/redrives/{ID}/cancel?queue={ELSEWHERE}", None),
        ("GET", f"/-/redrives?queue={ELSEWHERE}", None),
    ]
    async with aiohttp.ClientSession(server.http_url) as session:
        for method, path, body in requests:
            async with session.request(method, path, json=body) as response:
                assert response.status == 421, (method, path, await response.text())
                if method != "HEAD":
                    error = json.loads(await response.read())
                    assert (error["reason"], error["metadata"]["shard"]) == ("WRONG_SHARD", "0")


@pytest.mark.parametrize(
    ("shard", "answered"),
    [("3/8", None), ("2/8", "WRONG_SHARD"), ("3/16", "WRONG_SHARD"), ("8/8", "INVALID_REQUEST")],
)
async def test_http_refuses_a_request_for_another_shard(
    server: Server, shard: str, answered: str | None
) -> None:
    async with aiohttp.ClientSession(server.http_url, headers={"x-spoolrack-shard": shard}) as session:
        for path in ("/-/queues", "/-/server", "/-/stages", "/jobs"):
            async with session.get(path) as response:
                found = await response.json()
            assert (path, found.get("reason")) == (path, answered)
            status = {None: 200, "WRONG_SHARD": 421, "INVALID_REQUEST": 400}[answered]
            assert response.status == status
            if answered == "WRONG_SHARD":
                metadata = found["metadata"]
                assert f"{metadata['shard']}/{metadata['shards']}" == shard
                assert metadata["this"] == "3"


async def test_a_send_for_another_shard_stores_nothing(server: Server, client: Client) -> None:
    async with aiohttp.ClientSession() as session:
        for shard, status in (("2/8", 421), ("3/8", 201)):
            headers = {"x-spoolrack-shard": shard}
            url = f"{server.http_url}/jobs/messages"
            async with session.post(url, data=b"1", headers=headers) as response:
                assert response.status == status
    queue = (await client.stub.GetQueue(rpc.GetQueueRequest(name="jobs"))).queue
    assert queue.counts.ready_count == 1


async def test_health_server_and_metrics_tell_the_shard(server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/-/health", "/-/health/ready", "/-/server"):
            async with session.get(f"{server.http_url}{path}") as response:
                assert (await response.json())["shard"] == "3/8", path
        async with session.get(f"{server.http_url}/-/metrics") as response:
            assert 'spoolrack_shard_info{shard="3",shards="8"} 1.0' in await response.text()


async def test_sqs_answers_that_the_address_is_another_ones(server: Server) -> None:
    assert server.sqs_url is not None
    sqs = Sqs(server.sqs_url)
    url = f"{server.sqs_url}/000000000000/{ELSEWHERE}"
    for call in (
        sqs.create_queue(QueueName=ELSEWHERE),
        sqs.get_queue_url(QueueName=ELSEWHERE),
        sqs.send_message(QueueUrl=url, MessageBody="1"),
        sqs.receive_message(QueueUrl=url),
        sqs.purge_queue(QueueUrl=url),
        sqs.delete_queue(QueueUrl=url),
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]),
    ):
        no = await refused_by_sqs(call)
        assert (no.code, no.status) == ("InvalidAddress", 404)
        assert "belongs to shard 0 of 8, and this server is shard 3 of 8" in no.message


async def test_sqs_tells_the_tag_that_a_dead_letter_queue_or_a_destination_of_another_shard_needs(
    server: Server,
) -> None:
    assert server.sqs_url is not None
    sqs = Sqs(server.sqs_url)
    arn = "arn:aws:sqs:us-east-1:000000000000:"
    fifo = {"FifoQueue": "true"}

    def policy(target: str) -> dict[str, str]:
        return {
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn + target, "maxReceiveCount": 3})
        }

    await sqs.create_queue(QueueName="jobs--dead")
    first = await sqs.create_queue(QueueName="jobs--1", Attributes=policy("jobs--dead"))
    for call, needed in (
        (sqs.create_queue(QueueName="jobs--2", Attributes=policy(ELSEWHERE)), "jobs--dead"),
        (
            sqs.create_queue(QueueName="jobs.fifo", Attributes=fifo | policy(f"{ELSEWHERE}.fifo")),
            "jobs--dead.fifo",
        ),
        (
            sqs.set_queue_attributes(QueueUrl=first["QueueUrl"], Attributes=policy(ELSEWHERE)),
            "jobs--dead",
        ),
        (
            sqs.start_message_move_task(
                SourceArn=f"{arn}jobs--dead", DestinationArn=f"{arn}{ELSEWHERE}"
            ),
            "jobs--dead",
        ),
    ):
        no = await refused_by_sqs(call)
        assert no.status == 400
        assert no.message.endswith(f"choose a name with the tag jobs, such as {needed}.")


@pytest.mark.parametrize("shard", ["2/8", "3/8"])
async def test_sqs_refuses_a_request_for_another_shard(server: Server, shard: str) -> None:
    headers = {
        "X-Amz-Target": "AmazonSQS.ListQueues",
        "Content-Type": "application/x-amz-json-1.0",
        "x-spoolrack-shard": shard,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.sqs_url}/", data=b"{}", headers=headers) as response,
    ):
        told = json.loads(await response.read())
        if shard == "3/8":
            assert response.status == 200
        else:
            assert (response.status, told["__type"]) == (404, "com.amazonaws.sqs#InvalidAddress")
            assert "belongs to shard 2 of 8, and this server is shard 3 of 8" in told["message"]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A root that is a shard, with no server."""
    root = tmp_path / "root"
    Store.open(root, shard=Shard(3, 8)).close()
    return root


def test_a_client_of_a_folder_is_told_the_right_shard(shard: Path) -> None:
    with spoolrack.connect(f"file://{shard}") as client:
        with pytest.raises(WrongShard) as caught:
            client.create_queue(ELSEWHERE)
        assert caught.value.metadata["shard"] == "0"
        with pytest.raises(WrongShard):
            client.queue(ELSEWHERE).send(b"1")
        client.create_queue("jobs").send(b"1")


def test_the_command_line_on_a_folder_is_told_the_right_shard(
    shard: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(("send", "--root", str(shard), ELSEWHERE, "1", "--create")) == 1
    assert "belongs to shard 0 of 8, and this server is shard 3 of 8" in capfd.readouterr().err
    assert run(("fsck", str(shard))) == 0
    assert "Shard: 3/8." in capfd.readouterr().out
