"""Signed requests of SQS: the keys of a file, the permissions of their identities, all refusals."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceStub
from spoolrack_server.access.security import Security
from spoolrack_server.access.sqs_keys import issue
from spoolrack_server.access.watched_files import AccessUnusable
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis, SystemClock
from yarl import URL

from tests.support.access_rig import Files
from tests.support.server_rig import until_waiting
from tests.support.sqs_rig import REGION, Sqs, refused, serving_sqs, task_of, until_ended

NAME = "q"


class Keys:
    """The keys' file of a server, and clients with keys of it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "sqs-keys")
        for identity in ("admin", "writer", "reader"):
            issue(self.path, identity)

    def client(self, server: Server, identity: str, **options: Any) -> Sqs:
        key, secret = issue(self.path, identity)
        assert server.sqs_url is not None
        keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return Sqs(server.sqs_url, **{**keys, **options})


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@pytest.fixture
async def server(tmp_path: Path, keys: Keys) -> AsyncIterator[Server]:
    security = Security(sqs_keys=keys.path)
    async with serving_sqs(tmp_path / "root", clock=SystemClock(), security=security) as server:
        yield server


def test_an_identity_has_the_same_key_and_secret_again_and_the_file_has_no_secret(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "keys")
    key, secret = issue(path, "worker")
    assert issue(path, "worker") == (key, secret)
    assert issue(path, "other") != (key, secret)
    another = issue(path, "worker", another=True)
    assert another[0] != key
    assert issue(path, "worker") == another
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert secret not in Path(path).read_text()
    assert len(secret) == 40


async def test_a_request_that_is_signed_with_a_key_of_the_file_is_served(
    server: Server, keys: Keys
) -> None:
    sqs = keys.client(server, "admin")
    url = await sqs.create(NAME, VisibilityTimeout="7")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    assert message["Attributes"]["SenderId"] == "admin"
    (lease,) = server.store.queue(NAME).oldest_leases
    assert lease.consumer.startswith("admin, 127.0.0.1:")
    assert "Boto3" in lease.consumer
    assert issue(keys.path, "admin")[0] not in lease.consumer
    assert f":{REGION}:" in (await sqs.attributes(url))["QueueArn"]


async def test_a_wrong_secret_is_refused(server: Server, keys: Keys) -> None:
    refusal = await refused(keys.client(server, "admin", aws_secret_access_key="wrong").list_queues())
    assert (refusal.code, refusal.status) == ("SignatureDoesNotMatch", 403)


async def test_an_unknown_key_is_refused(server: Server, keys: Keys) -> None:
    refusal = await refused(keys.client(server, "admin", aws_access_key_id="AKIAX").list_queues())
    assert (refusal.code, refusal.status) == ("InvalidClientTokenId", 403)


async def test_a_clock_that_is_off_is_refused_and_the_answer_says_so(
    tmp_path: Path, keys: Keys
) -> None:
    # Its clock stands still, years ago.
    security = Security(sqs_keys=keys.path)
    async with serving_sqs(tmp_path / "root", clock=ManualClock(), security=security) as server:
        refusal = await refused(keys.client(server, "admin").list_queues())
        assert refusal.code == "SignatureDoesNotMatch"
        assert "clock" in refusal.message


def signed(server: Server, keys: Keys, **headers: str) -> AWSRequest:
    """Return a signed request of Query."""
    key, secret = issue(keys.path, "admin")
    request = AWSRequest(
        "POST",
        f"{server.sqs_url}/",
        data=b"Action=ListQueues",
        headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
    )
    SigV4Auth(Credentials(key, secret), "sqs", REGION).add_auth(request)
    return request


async def sent(request: AWSRequest, **changed: str | None) -> tuple[int, str]:
    """Return the status and the code of a request with some headers changed or removed."""
    headers = {**dict(request.headers.items()), **changed}
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            request.method,
            URL(request.url, encoded=True),
            data=request.data or None,
            headers={name: value for name, value in headers.items() if value is not None},
            skip_auto_headers=["Content-Type"],
        ) as response,
    ):
        _, _, rest = (await response.text()).partition("<Code>")
        return response.status, rest.partition("</Code>")[0]


async def test_each_way_to_be_wrong_has_its_refusal(server: Server, keys: Keys) -> None:
    request = signed(server, keys)
    assert await sent(request) == (200, "")
    good = request.headers["Authorization"]
    date = request.headers["X-Amz-Date"]
    differs, incomplete = (403, "SignatureDoesNotMatch"), (400, "IncompleteSignature")
    assert await sent(request, Authorization=None) == (403, "MissingAuthenticationToken")
    assert await sent(request, Authorization="Bearer x") == incomplete
    assert await sent(request, Authorization=good.replace("Signature=", "Sig=")) == incomplete
    assert await sent(request, Authorization=good[:-1]) == incomplete
    assert await sent(request, Authorization=good.replace("Credential=", "Credential=/")) == incomplete
    assert await sent(request, **{"X-Amz-Date": None}) == incomplete
    assert await sent(request, Authorization=good.replace("host;", "")) == incomplete
    assert await sent(request, Authorization=good.replace("host;", "host;nothing;")) == incomplete
    assert await sent(request, **{"X-Amz-Target": "AmazonSQS.PurgeQueue"}) == (400, "")
    assert (
        await sent(request, **{"X-Amz-Date": date[:-2] + ("0Z" if date[-2] != "0" else "1Z")})
        == differs
    )
    assert await sent(request, **{"X-Amz-Date": "20130524T000000Z"}) == differs
    for no_time in ("T250000Z", "T0000Z", "T000000"):
        assert await sent(request, **{"X-Amz-Date": date[:8] + no_time}) == incomplete
    assert await sent(request, Authorization=good.replace("/sqs/", "/sns/")) == differs
    assert await sent(request, Authorization=good.replace(REGION, "us-east-1")) == differs
    assert await sent(request, **{"X-Amz-Content-SHA256": "0" * 64}) == differs
    digit = "0" if good[-1] != "0" else "1"
    assert await sent(request, Authorization=good[:-1] + digit) == differs
    request.data = b"Action=ListQueues&QueueNamePrefix=x"
    assert await sent(request) == differs


async def test_parts_of_a_signature_that_contradict_each_other_are_refused(
    server: Server, keys: Keys
) -> None:
    request = signed(server, keys, **{"X-Amz-Security-Token": "of a session"})
    assert await sent(request) == (200, "")
    good = request.headers["Authorization"]
    date = request.headers["X-Amz-Date"][:8]
    differs, incomplete = (403, "SignatureDoesNotMatch"), (400, "IncompleteSignature")
    assert await sent(request, **{"X-Amz-Security-Token": "of another session"}) == differs
    assert await sent(request, Authorization=good.replace(";x-amz-security-token", "")) == incomplete
    assert await sent(request, Authorization=good.replace(";x-amz-date", "")) == incomplete
    assert await sent(request, Authorization=good.replace("aws4_request", "aws5_request")) == differs
    assert await sent(request, Authorization=good.replace(f"/{date}/", "/20130524/")) == differs
    assert await sent(request, Authorization=good.replace(f"/{date}/", "/2013/")) == incomplete
    another = good.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")
    assert await sent(request, Authorization=another) == incomplete
    assert await sent(request, Authorization=good.upper()) == incomplete
    for part in ("Credential", "SignedHeaders", "Signature"):
        assert await sent(request, Authorization=good.replace(f"{part}=", f"{part}=,x=")) == incomplete
    unknown = good.replace("Credential=SRAK", "Credential=AKIA")
    assert await sent(request, Authorization=unknown) == (403, "InvalidClientTokenId")
    request.url += "another/path"
    assert await sent(request) == differs


async def test_two_authorizations_are_refused(server: Server, keys: Keys) -> None:
    request = signed(server, keys)
    good = request.headers["Authorization"]
    headers = [(name, value) for name, value in request.headers.items()]
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            request.url, data=request.data, headers=[*headers, ("Authorization", good)]
        ) as response,
    ):
        assert response.status == 400
        assert "IncompleteSignature" in await response.text()


@pytest.mark.parametrize(
    ("minutes", "code", "reason"),
    [
        (14, "", ""),
        (-14, "", ""),
        (16, "SignatureDoesNotMatch", "Signature expired"),
        (-16, "SignatureDoesNotMatch", "Signature not yet current"),
    ],
)
async def test_a_clock_may_be_off_by_fifteen_minutes(
    tmp_path: Path, keys: Keys, minutes: int, code: str, reason: str
) -> None:
    clock = ManualClock(wall=Millis(SystemClock().wall() + minutes * 60_000))
    security = Security(sqs_keys=keys.path)
    async with serving_sqs(tmp_path / "root", clock=clock, security=security) as server:
        listing = keys.client(server, "admin").list_queues()
        if not code:
            await listing
            return
        refusal = await refused(listing)
        assert (refusal.code, refusal.shape, refusal.status) == (code, code, 403)
        assert reason in refusal.message


async def test_a_presigned_url_that_lacks_a_part_is_refused(server: Server, keys: Keys) -> None:
    key, secret = issue(keys.path, "admin")
    request = AWSRequest("GET", f"{server.sqs_url}/?Action=ListQueues")
    SigV4QueryAuth(Credentials(key, secret), "sqs", REGION, expires=60).add_auth(request)
    good = request.url
    assert await sent(request) == (200, "")
    for part in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders"):
        request.url = good.replace(f"X-Amz-{part}=", f"X-Other-{part}=")
        assert await sent(request) == (400, "IncompleteSignature")
    request.url = good.replace("X-Amz-Signature=", "X-Other-Signature=")
    assert await sent(request) == (403, "MissingAuthenticationToken")
    request.url = good.replace("X-Amz-Expires=60", "X-Amz-Expires=600")
    assert await sent(request) == (403, "SignatureDoesNotMatch")


async def test_a_presigned_url_is_refused_after_its_lifetime(tmp_path: Path, keys: Keys) -> None:
    clock = ManualClock(wall=SystemClock().wall())
    key, secret = issue(keys.path, "admin")
    security = Security(sqs_keys=keys.path)
    async with serving_sqs(tmp_path / "root", clock=clock, security=security) as server:
        request = AWSRequest("GET", f"{server.sqs_url}/?Action=ListQueues")
        SigV4QueryAuth(Credentials(key, secret), "sqs", REGION, expires=3_600).add_auth(request)
        assert await sent(request) == (200, "")
        clock.step_wall(Millis(3_000_000))
        assert await sent(request) == (200, "")
        clock.step_wall(Millis(700_000))
        assert await sent(request) == (403, "SignatureDoesNotMatch")


async def test_a_presigned_url_is_served_until_it_expires(server: Server, keys: Keys) -> None:
    key, secret = issue(keys.path, "admin")

    def presigned(seconds: int, query: str = "Action=ListQueues&QueueNamePrefix=a%20b") -> AWSRequest:
        request = AWSRequest("GET", f"{server.sqs_url}/?{query}")
        SigV4QueryAuth(Credentials(key, secret), "sqs", REGION, expires=seconds).add_auth(request)
        return request

    assert await sent(presigned(60)) == (200, "")
    assert await sent(presigned(-1)) == (400, "IncompleteSignature")
    assert await sent(presigned(8 * 24 * 3_600)) == (400, "IncompleteSignature")
    request = presigned(60)
    request.url = request.url.replace("ListQueues", "GetQueueUrl")
    assert await sent(request) == (403, "SignatureDoesNotMatch")


async def test_permissions_hold_for_the_identities_of_keys(tmp_path: Path, keys: Keys) -> None:
    files = Files(tmp_path)
    security = Security(
        sqs_keys=keys.path,
        tokens=files.write_tokens("admin"),
        permissions=files.write_permissions("admin all *", "writer send q"),
    )
    async with serving_sqs(tmp_path / "root", clock=SystemClock(), security=security) as server:
        url = await keys.client(server, "admin").create(NAME)
        writer = keys.client(server, "writer")
        assert (await writer.get_queue_url(QueueName=NAME))["QueueUrl"] == url
        await writer.send(url, "x")
        for call in (
            writer.receive(url),
            writer.delete_queue(QueueUrl=url),
            writer.create("other"),
            writer.create(NAME),
            writer.attributes(url),
            writer.send(url.replace("/q", "/none"), "x"),
            writer.get_queue_url(QueueName="none"),
            writer.list_queues(),
        ):
            refusal = await refused(call)
            assert (refusal.code, refusal.status) == ("AccessDenied", 403)
        # The handle of a task tells no caller which queues there are.
        for queue in (NAME, "none"):
            refusal = await refused(writer.cancel_message_move_task(TaskHandle=task_of(queue)))
            assert refusal.message == "Task does not exist."


async def test_permissions_need_no_tokens_where_keys_tell_callers_apart(
    tmp_path: Path, keys: Keys
) -> None:
    files = Files(tmp_path)
    security = Security(
        sqs_keys=keys.path, permissions=files.write_permissions("admin all *", "writer send q")
    )
    async with serving_sqs(tmp_path / "root", clock=SystemClock(), security=security) as server:
        url = await keys.client(server, "admin").create(NAME)
        writer = keys.client(server, "writer")
        await writer.send(url, "x")
        assert (await refused(writer.receive(url))).code == "AccessDenied"
        # Over gRPC and HTTP nothing tells callers apart: none is let in.
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{server.http_url}/{NAME}") as answer,
        ):
            assert answer.status == 401
            assert "--tokens" in await answer.text()
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            stub = QueueServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stub.GetQueue(rpc.GetQueueRequest(name=NAME))
        assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_key_that_is_taken_back_ends_its_long_poll(server: Server, keys: Keys) -> None:
    admin = keys.client(server, "admin")
    url = await admin.create(NAME)
    reader = keys.client(server, "reader")
    await reader.receive(url)
    receiving = asyncio.create_task(reader.receive(url, WaitTimeSeconds=20))
    await until_waiting(server, 1)
    lines = Path(keys.path).read_text().splitlines()
    Path(keys.path).write_text("\n".join(line for line in lines if "reader" not in line))
    await until_ended(server, "ReceiveMessage", "cancelled")
    with pytest.raises(Exception, match=r"Connection|closed|InvalidClientTokenId"):
        await receiving


async def test_a_permission_that_is_taken_away_ends_its_long_poll(tmp_path: Path, keys: Keys) -> None:
    files = Files(tmp_path)
    security = Security(
        sqs_keys=keys.path, permissions=files.write_permissions("admin all *", "reader receive q")
    )
    async with serving_sqs(tmp_path / "root", clock=SystemClock(), security=security) as server:
        url = await keys.client(server, "admin").create(NAME)
        receiving = asyncio.create_task(keys.client(server, "reader").receive(url, WaitTimeSeconds=20))
        await until_waiting(server, 1)
        files.write_permissions("admin all *", "reader receive other")
        # An answer without messages would come at the end of its wait.
        with pytest.raises(Exception, match=r"Connection|closed|AccessDenied"):
            await receiving


async def test_a_server_with_authentication_serves_no_sqs_without_keys(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for security, host in (
        (Security(tokens=files.write_tokens("admin")), "127.0.0.1"),
        (Security(), "0.0.0.0"),
    ):
        with pytest.raises(Exception, match=r"--sqs-keys|--insecure") as found:
            async with serving_sqs(tmp_path / "root", security=security, settings={"sqs": (host, 0)}):
                pass
        assert found.type.__name__ in ("AccessUnusable", "Insecure")


@pytest.mark.parametrize(
    "text",
    ["", "worker SRAKAAAAAAAAAAAAAAAA\n", "master short\n", "master {m}\na b c\n", "master {m}\na b\n"],
)
async def test_a_file_of_keys_that_cant_be_read_is_no_file_of_keys(tmp_path: Path, text: str) -> None:
    path = Files(tmp_path).write("keys", text.replace("{m}", "x" * 43))
    with pytest.raises(AccessUnusable):
        async with serving_sqs(tmp_path / "root", security=Security(sqs_keys=path)):
            pass


async def test_a_file_of_keys_that_others_may_read_is_refused(tmp_path: Path, keys: Keys) -> None:
    os.chmod(keys.path, 0o644)
    with pytest.raises(AccessUnusable, match="chmod"):
        async with serving_sqs(tmp_path / "root", security=Security(sqs_keys=keys.path)):
            pass
