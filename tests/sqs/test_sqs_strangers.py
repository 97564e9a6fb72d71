"""Callers of SQS that can't prove who they are cost no memory, no time and no other's call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path

import aiohttp
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security
from spoolrack_server.access.sqs_keys import issue
from spoolrack_server.http.request_bodies import HttpLimits
from spoolrack_server.process.server import Server
from spoolrack_store.model.clock import SystemClock
from yarl import URL

from tests.support import MIB, STUCK
from tests.support.http_rig import Raw
from tests.support.server_rig import connected
from tests.support.sqs_rig import REGION, Sqs, raw, refused, serving_sqs

LARGE = 7 * MIB
DEEP = 20_000


@pytest.fixture
def key(tmp_path: Path) -> Credentials:
    return Credentials(*issue(str(tmp_path / "keys"), "admin"))


@pytest.fixture
async def server(tmp_path: Path, key: Credentials) -> AsyncIterator[Server]:
    security = Security(sqs_keys=str(tmp_path / "keys"))
    limits = HttpLimits(memory=64 * MIB)
    root = tmp_path / "root"
    async with serving_sqs(root, clock=SystemClock(), security=security, http_limits=limits) as server:
        yield server


def client(server: Server, key: Credentials) -> Sqs:
    assert server.sqs_url is not None
    return Sqs(server.sqs_url, aws_access_key_id=key.access_key, aws_secret_access_key=key.secret_key)


def signed(
    server: Server, key: Credentials, body: bytes, *, operation: str = "SendMessage"
) -> AWSRequest:
    """Return a signed request of JSON, or of Query without an operation."""
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{operation}"}
    if not operation:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
    request = AWSRequest("POST", f"{server.sqs_url}/", data=body, headers=headers)
    SigV4Auth(key, "sqs", REGION).add_auth(request)
    return request


async def answered(request: AWSRequest) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            request.method,
            URL(request.url, encoded=True),
            data=BytesIO(request.data) if request.data else None,
            headers=dict(request.headers.items()),
        ) as response,
    ):
        return response.status, await response.text()


@asynccontextmanager
async def raw_to_sqs(server: Server) -> AsyncIterator[Raw]:
    assert server.sqs_port is not None
    reader, writer = await asyncio.open_connection(server.sqs_host, server.sqs_port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


async def say_head(raw: Raw, request: AWSRequest, **changed: str | None) -> None:
    """Send the head of a request for a large body, and none of the body."""
    named = {name.replace("_", "-"): value for name, value in changed.items()}
    headers = {**dict(request.headers.items()), "Content-Length": str(LARGE), **named}
    url = URL(request.url, encoded=True)
    lines = [f"{request.method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    await raw.say(body="\r\n".join([*lines, "", ""]).encode())


async def test_a_stranger_is_refused_by_its_head_and_its_body_is_not_read(
    server: Server, key: Credentials
) -> None:
    for operation in ("SendMessage", ""):
        request = signed(server, key, b"x", operation=operation)
        good = request.headers["Authorization"]
        for changed, status, code in (
            ({"Authorization": None}, 403, "MissingAuthenticationToken"),
            ({"Authorization": "Bearer x"}, 400, "IncompleteSignature"),
            ({"Authorization": good.replace("=SRAK", "=AKIA")}, 403, "InvalidClientTokenId"),
            ({"Authorization": good.replace("/sqs/", "/sns/")}, 403, "SignatureDoesNotMatch"),
            ({"X_Amz_Date": "20130524T000000Z"}, 403, "SignatureDoesNotMatch"),
        ):
            async with raw_to_sqs(server) as raw:
                await say_head(raw, request, **changed)
                given, headers, body = await raw.answer()
                assert (given, code in body.decode()) == (status, True), (changed, body)
                assert headers["connection"] == "close"


async def test_a_presigned_url_that_has_expired_is_refused_by_its_head(
    server: Server, key: Credentials
) -> None:
    request = AWSRequest("GET", f"{server.sqs_url}/?Action=ListQueues")
    SigV4QueryAuth(key, "sqs", REGION, expires=60).add_auth(request)
    request.url = request.url.replace("X-Amz-Date=20", "X-Amz-Date=19")
    async with raw_to_sqs(server) as raw:
        await say_head(raw, request)
        status, _, body = await raw.answer()
        assert (status, b"SignatureDoesNotMatch" in body) == (403, True)


async def test_a_body_is_not_parsed_before_its_signature_is_verified(
    server: Server, key: Credentials
) -> None:
    for operation, body in (("SendMessage", b"no JSON"), ("", b"no form;%")):
        request = signed(server, key, body, operation=operation)
        assert (await answered(request))[0] == 400
        request.headers.replace_header(
            "Authorization", request.headers["Authorization"][:-64] + "0" * 64
        )
        status, text = await answered(request)
        assert (status, "SignatureDoesNotMatch" in text) == (403, True)


async def test_bodies_that_dawdle_make_room_for_a_signed_call(server: Server, key: Credentials) -> None:
    sqs = client(server, key)
    url = await sqs.create("q")
    # Of a known key, so that their heads tell nothing: without its secret, as their signatures would.
    request = signed(server, Credentials(key.access_key, "unknown"), b"x")
    async with AsyncExitStack() as open:
        answers = []
        for _ in range(10):
            raw = await open.enter_async_context(raw_to_sqs(server))
            await say_head(raw, request)
            await raw.say(body=bytes(LARGE - 1))
            answers.append(asyncio.create_task(raw.answer()))
        await asyncio.wait(answers, timeout=STUCK, return_when=asyncio.FIRST_COMPLETED)
        text = "\u00e4" * 400_000
        for _ in range(2):
            await sqs.send(url, text)
        # The oldest were ended, and told to try again.
        assert not answers[-1].done()
        status, _, body = await answers[0]
        assert (status, b"ServiceUnavailable" in body) == (503, True)
        for answer in answers:
            answer.cancel()
    assert len(await sqs.receive(url)) == 2


async def test_a_body_of_a_caller_that_is_known_makes_room_for_no_stranger(
    server: Server, key: Credentials
) -> None:
    url = await client(server, key).create("q")
    content = {"QueueUrl": url, "MessageBody": "\u00e4" * 400_000}
    body = json.dumps(content).encode()
    request = signed(server, key, body)
    async with AsyncExitStack() as open:
        known = await open.enter_async_context(raw_to_sqs(server))
        await say_head(known, request, Content_Length=str(len(body)))
        await known.say(body=body)
        assert (await known.answer())[0] == 200
        await say_head(known, request, Content_Length=str(len(body)))
        await known.say(body=body[:-1])
        strange = signed(server, Credentials(key.access_key, "unknown"), b"x")
        answers = []
        for _ in range(6):
            raw = await open.enter_async_context(raw_to_sqs(server))
            await say_head(raw, strange)
            await raw.say(body=bytes(LARGE - 1))
            answers.append(asyncio.create_task(raw.answer()))
        assert (await asyncio.wait_for(answers[0], STUCK))[0] == 503
        await known.say(body=body[-1:])
        assert (await known.answer())[0] == 200
        for answer in answers:
            answer.cancel()


async def test_a_body_with_more_values_than_any_request_has_is_not_parsed(
    server: Server, key: Credentials
) -> None:
    lists = b'{"QueueUrl":[' + b"[]," * 2_700_000 + b"[]]}"
    texts = b'{"QueueUrl":["\\\\",' + b'"\\"",' * 30_000 + b'""]}'
    for body in (lists, texts):
        status, text = await answered(signed(server, key, body))
        assert (status, "has over 10000 values" in text) == (400, True)


async def test_a_text_full_of_brackets_and_quotes_is_one_value(
    server: Server, key: Credentials
) -> None:
    sqs = client(server, key)
    url = await sqs.create("q")
    body = json.dumps(['["\\"],{'] * 40_000)
    await sqs.send(url, body)
    (message,) = await sqs.receive(url)
    assert message["Body"] == body


@pytest.mark.parametrize("count", [DEEP, 300])
async def test_what_is_nested_too_deep_is_refused_as_the_callers_mistake(
    tmp_path: Path, count: int
) -> None:
    async with serving_sqs(tmp_path / "open") as server:
        answer = await raw(server, "ListQueues", b'{"QueueUrl":' + b'{"a":[' * count)
        assert (answer.status, answer.json["__type"].endswith("SerializationException")) == (400, True)
        deep = "SendMessageBatchRequestEntry.1" + ".AttributeName.1" * count
        form = f"Action=SendMessageBatch&QueueUrl=q&{deep}=x".encode()
        request = AWSRequest("POST", f"{server.sqs_url}/", data=form)
        assert (await answered(request))[0] == 400
        sqs = Sqs(str(server.sqs_url))
        for name in ("Policy", "RedrivePolicy", "RedriveAllowPolicy"):
            refusal = await refused(sqs.create("q", **{name: "[" * DEEP}))
            assert refusal.status == 400


async def test_data_types_that_are_nested_too_deep_are_no_data_types(tmp_path: Path) -> None:
    async with serving_sqs(tmp_path / "open") as server, connected(server) as other:
        sqs = Sqs(str(server.sqs_url))
        url = await sqs.create("q")
        attributes = {"AWS.DataTypes": pb.Attribute(string_value="[" * DEEP)}
        message = pb.OutgoingMessage(body=b"x", attributes=attributes)
        await other.stub.Send(rpc.SendRequest(queue="q", messages=[message]))
        (received,) = await sqs.receive(url)
        assert received["Body"] == "x"
