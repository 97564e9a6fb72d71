"""A page of another site in a browser can't pass itself off as this server's own."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from spoolrack_server.access.security import Security
from spoolrack_server.process.server import Server

from tests.support.access_rig import Files


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


async def test_any_name_will_do_where_a_token_is_asked_for(tmp_path: Path) -> None:
    files = Files(tmp_path)
    security = Security(tokens=files.write_tokens("owner"))
    async with Server(tmp_path / "root", security=security) as server:
        assert await ask(server, "queues.example") == (401, "UNAUTHENTICATED")
