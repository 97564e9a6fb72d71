"""Probes hear whether a process lives and is ready, from its start to its end, and no more."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from spoolrack_server.app.health import Health
from spoolrack_server.process.loop_driver import LoopDriver
from spoolrack_server.process.probes import LIVE, READY, Probes, probes_of
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system.addresses import AddressUnusable
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.errors import RootUnusable
from spoolrack_store.store import Store

from tests.support import STUCK


async def ask(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    """Return the status, and why it is bad."""
    async with aiohttp.ClientSession(url) as http, http.request(method, path) as answer:
        if method == "HEAD":
            return answer.status, ""
        return answer.status, (await answer.json()).get("why", "")


def settings(folder: Path, port: int = 0) -> ServeSettings:
    return ServeSettings(root=str(folder / "root"), health=("127.0.0.1", port))


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def probes(health: Health) -> AsyncIterator[Probes]:
    probes = probes_of(health, "127.0.0.1", 0, make_log())
    await probes.start()
    yield probes
    await probes.stop()


async def test_a_process_lives_as_long_as_it_answers_and_is_ready_while_it_serves(
    health: Health, probes: Probes
) -> None:
    url = f"http://{probes.address}"
    health.is_starting = True
    assert (await ask(url, LIVE), await ask(url, READY)) == ((200, ""), (503, "starting"))

    health.is_starting = False
    assert (await ask(url, LIVE), await ask(url, READY)) == ((200, ""), (200, ""))

    health.fail("the sync of /very/secret/path failed")
    assert (await ask(url, LIVE), await ask(url, READY)) == ((200, ""), (503, "failed"))

    health.finish("The server is shutting down.")
    assert (await ask(url, LIVE), await ask(url, READY)) == ((200, ""), (503, "draining"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/-/metrics"),
        ("GET", "/-/health"),
        ("GET", "/-/health/live/"),
        ("GET", "/q"),
        ("POST", "/q/messages"),
        ("POST", "/-/health/live"),
        ("DELETE", "/q"),
    ],
)
async def test_the_listener_for_probes_serves_nothing_else(
    probes: Probes, method: str, path: str
) -> None:
    assert await ask(f"http://{probes.address}", path, method) == (404, "")


async def test_a_probe_may_be_a_head(probes: Probes) -> None:
    assert await ask(f"http://{probes.address}", READY, "HEAD") == (200, "")


async def test_a_server_answers_probes_at_a_port_of_their_own_and_at_its_own(tmp_path: Path) -> None:
    async with Server(settings(tmp_path)) as server:
        assert server.health_url is not None
        assert server.http_url is not None
        for url in (server.health_url, server.http_url):
            assert await ask(url, LIVE) == (200, "")
            assert await ask(url, READY) == (200, "")


async def test_a_server_that_drains_lives_and_is_not_ready_until_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(settings(tmp_path)) as server:
        drain, slow = server.store.drain, threading.Event()

        def drain_slowly() -> None:
            assert slow.wait(STUCK)
            drain()

        monkeypatch.setattr(server.store, "drain", drain_slowly)
        health = server.health_url or ""
        stopping = asyncio.create_task(server.stop())
        while (await ask(health, READY)) != (503, "draining"):
            pass
        assert await ask(health, LIVE) == (200, "")
        assert await ask(server.http_url or "", READY) == (503, "draining")
        slow.set()
        await stopping
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(health, LIVE)


async def test_a_server_that_reads_its_backlog_lives_and_is_not_ready(tmp_path: Path) -> None:
    begun, read = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow(Server):
        """A server with a backlog that takes as long to read as the test says."""

        def _open(self, driver: LoopDriver | None) -> Store:
            loop.call_soon_threadsafe(begun.set)
            assert read.wait(STUCK)
            return super()._open(driver)

    server = Slow(settings(tmp_path))
    starting = asyncio.create_task(server.start())
    await begun.wait()
    health = server.health_url or ""
    assert (await ask(health, LIVE), await ask(health, READY)) == ((200, ""), (503, "starting"))
    read.set()
    await starting
    assert await ask(health, READY) == (200, "")
    await server.stop()


async def test_a_server_that_can_not_start_leaves_no_listener_behind(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    server = Server(settings(tmp_path))

    with pytest.raises(RootUnusable):
        await server.start()

    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(server.health_url or "", LIVE)


async def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = Server(settings(tmp_path, port=taken.getsockname()[1]))
        with pytest.raises(AddressUnusable):
            await server.start()
