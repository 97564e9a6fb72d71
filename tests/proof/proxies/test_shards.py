"""Three servers behind one address: real proxies with the configurations of deploy/proxies/shards.

A queue's name decides the server, at each door as the rule of shards says. A shard that is down costs
its own queues, and no call goes to another.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import grpc
import pytest
from spoolrack.v1 import queue_service_pb2 as pb
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceStub
from spoolrack_store.model.shards import shard_of

from tests import CHECKOUT
from tests.proof.proxies.real_proxy import CONFIGURATIONS, PATIENCE, RealProxy, why_not
from tests.proof.proxies.servers import HTTP, SHARDS, SQS, Servers
from tests.proof.proxies.stub_calls import create, told
from tests.support.waiting import until

ACCOUNT: Final = "000000000000"
VECTORS: Final = [
    each["queue"]
    for each in json.loads((CHECKOUT / "tests" / "vectors" / "shards.json").read_text())["vectors"]
]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, SHARDS)
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


Make = Callable[..., RealProxy]


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[pytest.mark.slow] if kind == "envoy" else [])
        for kind in CONFIGURATIONS
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def make(kind: str, servers: Servers) -> Make:
    """Makes the proxy in front of the servers."""
    return partial(servers.behind, kind)


def right(queues: list[str]) -> dict[str, list[int]]:
    return {queue: [shard_of(queue, SHARDS)] for queue in queues}


def test_a_call_of_grpc_goes_to_the_shard_of_its_queue(make: Make, servers: Servers) -> None:
    with make() as proxy, grpc.insecure_channel(proxy.url) as channel:
        stub = QueueServiceStub(channel)
        for queue in VECTORS:
            create(stub, queue)
    assert servers.homes() == right(VECTORS)


def test_a_call_of_grpc_that_names_no_queue_goes_to_the_first_shard(
    make: Make, servers: Servers
) -> None:
    with make() as proxy, grpc.insecure_channel(proxy.url) as channel:
        stub = QueueServiceStub(channel)
        for _ in range(SHARDS):
            assert stub.ListQueues(pb.ListQueuesRequest(), timeout=PATIENCE).shard == f"0/{SHARDS}"


def ask(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_request_of_http_goes_to_the_shard_of_its_queue(make: Make, servers: Servers) -> None:
    with make() as proxy:
        address = proxy.at(HTTP)
        for queue in VECTORS:
            assert ask(address, "PUT", f"/{queue}")[0] == 201
            assert ask(address, "POST", f"/{queue}/messages", b"x")[0] == 201
            for path in (
                f"/{queue}/messages",
                f"/-/queues/{queue}/messages?page_size=1",
                f"/{queue}?",
                f"/-/redrives?queue={queue}",
            ):
                assert ask(address, "GET", path)[0] == 200, path
    assert servers.homes() == right(VECTORS)


def test_a_request_of_http_that_names_a_shard_goes_there(make: Make, servers: Servers) -> None:
    with make() as proxy:
        address = proxy.at(HTTP)
        for number in (*range(SHARDS), *range(SHARDS)):
            for path in ("/-/server", "/-/queues?page_size=1"):
                named = {"x-spoolrack-shard": f"{number}/{SHARDS}"}
                status, answer = ask(address, "GET", path, **named)
                assert status == 200, answer
            status, answer = ask(address, "GET", "/-/server", **named)
            assert json.loads(answer)["shard"] == f"{number}/{SHARDS}"
        for wrong, reason in (
            (f"0/{SHARDS + 1}", "WRONG_SHARD"),
            (f"{SHARDS}/{SHARDS + 1}", "WRONG_SHARD"),
            ("two of three", "INVALID_REQUEST"),
        ):
            _, answer = ask(address, "GET", "/-/queues", **{"x-spoolrack-shard": wrong})
            assert json.loads(answer)["reason"] == reason
        for _ in range(SHARDS):
            assert json.loads(ask(address, "GET", "/-/server")[1])["shard"] == f"0/{SHARDS}"


@pytest.mark.parametrize("left", range(SHARDS))
def test_the_dashboard_is_there_as_long_as_a_shard_is(make: Make, servers: Servers, left: int) -> None:
    with make() as proxy:
        for number, each in enumerate(servers.each):
            if number != left:
                each.kill()
        for path in ("/-/dashboard", "/-/dashboard/app.js", "/-/dashboard?shard=0/3"):
            for _ in range(SHARDS):
                assert ask(proxy.at(HTTP), "GET", path)[0] == 200


def sqs_json(address: str, operation: str, path: str = "/", **parameters: Any) -> tuple[int, Any]:
    status, body = ask(
        address,
        "POST",
        path,
        json.dumps(parameters).encode(),
        **{"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{operation}"},
    )
    return status, json.loads(body or b"{}")


def sqs_form(address: str, operation: str, path: str = "/", **parameters: str) -> tuple[int, bytes]:
    form = urlencode({"Action": operation, **parameters}).encode()
    return ask(address, "POST", path, form, **{"Content-Type": "application/x-www-form-urlencoded"})


def sqs_names(ending: str = "") -> list[str]:
    """Return names that SQS takes."""
    names = [
        each for each in VECTORS if each.removesuffix(".fifo").replace(".", "") == each[: len(each)]
    ]
    return [f"{each}{ending}" for each in names if "." not in each and len(each) < 70]


def test_a_request_of_sqs_to_a_queues_url_goes_to_the_shard_of_its_queue(
    make: Make, servers: Servers
) -> None:
    names = sqs_names()
    for queue in names:
        servers.each[shard_of(queue, SHARDS)].client.create_queue(queue)
    with make() as proxy:
        for queue in names:
            path = f"/{ACCOUNT}/{queue}"
            assert sqs_form(proxy.at(SQS), "SendMessage", path, MessageBody="x")[0] == 200
            url = f"http://{proxy.at(SQS)}{path}"
            for _ in range(2):
                status, answer = sqs_json(
                    proxy.at(SQS), "SendMessage", path, QueueUrl=url, MessageBody="y"
                )
                assert (status, "MessageId" in answer) == (200, True)


def test_a_request_of_sqs_goes_to_the_shard_of_the_queue_that_its_body_names(
    kind: str, make: Make, servers: Servers
) -> None:
    if kind == "nginx":
        pytest.skip("nginx doesn't search a body")
    names, fifo = sqs_names(), sqs_names(".fifo")[:6]
    with make() as proxy:
        address = proxy.at(SQS)
        for n, queue in enumerate((*names, *fifo)):
            is_fifo = {"FifoQueue": "true"} if queue in fifo else {}
            if n % 2 or is_fifo:
                status, made = sqs_json(address, "CreateQueue", QueueName=queue, Attributes=is_fifo)
                assert (status, made["QueueUrl"]) == (200, f"http://{address}/{ACCOUNT}/{queue}")
            else:
                assert sqs_form(address, "CreateQueue", QueueName=queue)[0] == 200
            url = f"http://{address}/{ACCOUNT}/{queue}"
            # Other libraries write JSON with other spaces and escapes, and other orders of members.
            body = json.dumps({"AttributeNames": ["All"], "QueueUrl": url}, indent=1).replace(
                "/", "\\/"
            )
            status, answer = ask(
                address,
                "POST",
                "/",
                body.encode(),
                **{
                    "Content-Type": "application/x-amz-json-1.0",
                    "X-Amz-Target": "AmazonSQS.GetQueueAttributes",
                },
            )
            assert status == 200, answer
            assert sqs_form(address, "GetQueueAttributes", QueueUrl=url)[0] == 200
    assert servers.homes() == right([*names, *fifo])


def test_a_body_of_sqs_may_be_large(kind: str, make: Make, servers: Servers) -> None:
    queue = next(each for each in sqs_names() if shard_of(each, SHARDS) == 1)
    servers.each[1].client.create_queue(queue)
    with make() as proxy:
        address = proxy.at(SQS)
        path = f"/{ACCOUNT}/{queue}" if kind == "nginx" else "/"
        url = f"http://{address}/{ACCOUNT}/{queue}"
        # Before the name, as the SDK for Go writes members: in the order of the alphabet.
        for body in ("x" * 40_000, "x" * 1_000_000):
            for parameters in (
                {"QueueUrl": url, "MessageBody": body},
                {"MessageBody": body, "QueueUrl": url},
            ):
                status, answer = sqs_json(address, "SendMessage", path, **parameters)
                assert status == 200, (answer, len(body), *parameters)


def code_of(call: Callable[[], object]) -> grpc.StatusCode:
    """Return what the call is refused with, which it must be."""
    with pytest.raises(grpc.RpcError) as refused:
        call()
    code: grpc.StatusCode = refused.value.code()
    return code


def test_a_dead_shard_costs_its_own_queues_and_no_call_goes_to_another(
    kind: str, make: Make, servers: Servers
) -> None:
    dead = 1
    queues = {shard_of(each, SHARDS): each for each in sqs_names()}
    with make() as proxy, grpc.insecure_channel(proxy.url) as channel:
        stub = QueueServiceStub(channel)
        for queue in queues.values():
            create(stub, queue)
        servers.each[dead].kill()
        for _ in range(3):
            for number, queue in queues.items():
                statuses = {
                    ask(proxy.at(HTTP), "POST", f"/{queue}/messages", b"x")[0],
                    sqs_form(proxy.at(SQS), "SendMessage", f"/{ACCOUNT}/{queue}", MessageBody="x")[0],
                }
                if number == dead:
                    assert statuses <= {502, 503}
                    assert code_of(partial(create, stub, queue)) is grpc.StatusCode.UNAVAILABLE
                    # HAProxy resets a request that isn't complete; the Python client reads both alike.
                    assert code_of(lambda: list(streamed(stub, queue))) in (  # noqa: B023
                        grpc.StatusCode.UNAVAILABLE,
                        grpc.StatusCode.CANCELLED,
                    )
                else:
                    assert statuses == {200, 201}
                    create(stub, queue)
        servers.each[dead].start()
        until(lambda: comes_back(stub, queues[dead]))
    assert servers.homes() == right(list(queues.values()))


def streamed(stub: QueueServiceStub, queue: str) -> Iterator[pb.StreamReceiveResponse]:
    start = pb.StreamReceiveRequest(start=pb.ReceiveStart(queue=queue))
    return stub.StreamReceive(iter([start]), metadata=told(queue), timeout=PATIENCE)


def comes_back(stub: QueueServiceStub, queue: str) -> bool:
    try:
        create(stub, queue)
    except grpc.RpcError:
        return False
    return True
