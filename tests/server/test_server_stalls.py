"""A disk that doesn't answer, and another process that keeps the lock, are told: the probes' listener
answers, readiness gives the reason, and a metric has it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from spoolrack_server.app import health
from spoolrack_server.app.store_access import answer
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import QueueSettings

from tests.store.front_rig import taken_lock

PATIENCE: Final = 20.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = ServeSettings(root=str(tmp_path), health=("127.0.0.1", 0), http=("127.0.0.1", 0))
    async with Server(settings) as server:
        await answer(server.store.submit(CreateQueue(name="q", settings=QueueSettings())))
        yield server


def probed(url: str) -> dict[str, Any]:
    """Return the answer to a probe, from another thread than the server's."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            found: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found


def until(url: str, status: str) -> dict[str, Any]:
    """Probe until the status is this one."""
    pause = threading.Event()
    while (found := probed(url))["status"] != status:
        pause.wait(0.05)
    return found


async def test_probes_answer_while_the_disk_keeps_the_event_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STALLED", 0.5)
    reached, released = threading.Event(), threading.Event()
    honest, url = LocalDisk.create, server.health_url
    assert url is not None

    def create(self: LocalDisk, *of: Any, **named: Any) -> None:
        """Wait as in a frozen file system."""
        reached.set()
        assert released.wait(PATIENCE)
        honest(self, *of, **named)

    def look() -> list[dict[str, Any]]:
        assert reached.wait(PATIENCE)
        try:
            unready = until(f"{url}/-/health/ready", "NOT_READY")
            return [unready, probed(f"{url}/-/health/live")]
        finally:
            released.set()

    await answer(server.store.submit(Send(queue="q", bodies=[b"x"] * 3)))  # Files are quick.
    monkeypatch.setattr(LocalDisk, "create", create)
    looking = asyncio.create_task(asyncio.to_thread(look))
    await asyncio.sleep(0)
    sent = server.store.submit(Send(queue="q", bodies=[b"x"]))
    assert await looking == [{"status": "NOT_READY", "why": "stalled"}, {"status": "LIVE"}]
    await answer(sent)
    await asyncio.to_thread(until, f"{url}/-/health/ready", "READY")


async def test_a_loop_that_nothing_but_itself_keeps_is_not_live(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOKS", 3)
    url, found = f"{server.health_url}/-/health/live", list[dict[str, Any]]()
    kept = threading.Thread(target=lambda: found.append(probed(url)))
    kept.start()
    kept.join(PATIENCE)  # In the loop.
    assert found == [{"status": "NOT_LIVE", "why": "the event loop doesn't answer"}]
    assert (await asyncio.to_thread(probed, url))["status"] == "LIVE"


async def test_a_process_that_keeps_the_lock_is_named_by_health_and_a_metric(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stopped process does, and sends time out meanwhile."""
    monkeypatch.setattr(health, "STALLED", 0.5)
    lock = await asyncio.to_thread(taken_lock, tmp_path)
    try:
        sent = server.store.submit(Send(queue="q", bodies=[b"x"]))
        told = await asyncio.to_thread(until, f"{server.http_url}/-/health", "NOT_SERVING")
        assert "holds the lock of the root" in told["why"]
        assert f"process {os.getpid()} (" in told["why"]
        for url in (server.http_url, server.health_url):
            ready = await asyncio.to_thread(probed, f"{url}/-/health/ready")
            assert ready == {"status": "NOT_READY", "why": "stalled"}
        stall = server.store.metrics.stall()
        assert stall is not None
        rows = {name: value for name, _, value in await server.observer.own()}
        assert float(str(rows["spoolrack_commit_stall_seconds"])) >= 0.5
    finally:
        lock.release()
    await answer(sent)
    await asyncio.to_thread(until, f"{server.http_url}/-/health", "SERVING")
    assert server.store.metrics.stall() is None
