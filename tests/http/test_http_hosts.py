"""A page of another site in a browser can't pass itself off as this server's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import aiohttp
from spoolrack_server.access.security import Security
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server

from tests.support.access_rig import Files
from tests.support.sqs_rig import raw


async def ask(server: Server, host: str, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.put(f"{server.http_url}/jobs", headers={"Host": host, **headers}) as answer,
    ):
        content = await answer.json(content_type=None) if answer.status >= 400 else {}
        return answer.status, content.get("reason", "")


async def test_a_name_that_is_led_to_the_loopback_is_refused(tmp_path: Path) -> None:
    async with Server(tmp_path / "root") as server:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example:80"):
            assert (host, *await ask(server, host)) == (host, 421, "WRONG_HOST")
        assert list((tmp_path / "root" / "queues").iterdir()) == []


async def test_a_request_to_a_name_of_this_machine_is_served(tmp_path: Path) -> None:
    hosts = "localhost", "LOCALHOST:8080", "jobs.localhost", "127.0.0.1", "127.0.0.1:1", "[::1]:8080"
    async with Server(tmp_path / "root") as server:
        for host in hosts:
            assert (host, *await ask(server, host)) == (host, 201, "")


async def test_sqs_is_served_under_the_names_of_emulators_and_its_own_url(tmp_path: Path) -> None:
    emulators = "localstack:4566", "elasticmq:9324", "host.docker.internal", "LocalStack"
    cloud = "localhost.localstack.cloud:4566", "sqs.us-east-1.localhost.localstack.cloud"
    strange = (
        "evil.example",
        "xlocalhost.localstack.cloud",
        "localstack.evil.example",
        "localstack.cloud",
    )

    async def status(server: Server, host: str) -> tuple[int, str]:
        answer = await raw(server, "ListQueues", {}, Host=host)
        return answer.status, answer.json.get("message", "")

    settings = ServeSettings(root=str(tmp_path / "root"), sqs=(LOOPBACK, 0))
    async with Server(settings) as server:
        for host in (*emulators, *cloud):
            assert (host, *await status(server, host)) == (host, 200, "")
        for host in (*strange, "queue.test"):
            refused, told = await status(server, host)
            assert (host, refused) == (host, 421)
            assert "--sqs-keys, or with --sqs-url" in told
        # Those names are for SQS, whose clients can't be told another as easily.
        assert await ask(server, "localstack") == (421, "WRONG_HOST")
    with_url = replace(settings, root=str(tmp_path / "other"), sqs_url="http://queue.test:9324")
    async with Server(with_url) as server:
        assert await status(server, "queue.test:9324") == (200, "")
        assert (await status(server, "evil.example"))[0] == 421


async def test_any_name_will_do_where_a_token_is_asked_for(tmp_path: Path) -> None:
    files = Files(tmp_path)
    security = Security(tokens=files.write_tokens("owner"))
    async with Server(tmp_path / "root", security=security) as server:
        assert await ask(server, "queues.example") == (401, "UNAUTHENTICATED")
