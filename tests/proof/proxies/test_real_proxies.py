"""Streams, workers and sends through real proxies, to one server and to the servers of shards.

Time-outs, restarts and reloads of the proxy, and restarts of the server behind it, end calls in all the
ways that a proxy has: no stream ends with them, and no send fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import spoolrack
from spoolrack import aio
from spoolrack.errors import StaleReceipt

from tests.proof.proxies.real_proxy import CONFIGURATIONS, PATIENCE, RealProxy, why_not
from tests.proof.proxies.servers import SHARDS, Servers
from tests.proof.proxies.stub_calls import open_at_a_time
from tests.support.real_server import RealServer
from tests.support.waiting import until

QUEUES = ("streamed", "worked", "awaited")
SENDERS = 8
ROUNDS = 3
SILENCE = 90.0
"""Seconds, more than nginx's defaults of 60."""

Make = Callable[..., RealProxy]


@pytest.fixture(params=[1, SHARDS], ids=["one server", "shards"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    """Return servers at ports that they keep."""
    servers = Servers(tmp_path, request.param)
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[pytest.mark.slow] if kind == "envoy" else [])
        for kind in CONFIGURATIONS
    ]
)
def make(request: pytest.FixtureRequest, servers: Servers) -> Make:
    """Makes the proxy in front of the servers."""
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(reason)
    return partial(servers.behind, request.param)


class Consumers:
    """A stream, a worker and an asynchronous iterator behind one proxy."""

    def __init__(self, url: str, routing: dict[str, Any]) -> None:
        self.found: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self._client = spoolrack.connect(url, **routing)
        for queue in QUEUES:
            # Leases that a killed server leaves behind end soon.
            self._client.create_queue(queue, visibility_timeout=5)
        self._stream = self._client.queue("streamed").messages()
        self._worker = self._client.queue("worked").worker(self._handle, concurrency=2)
        self._url, self._routing = url, routing
        self._is_over = threading.Event()
        self._threads = ThreadPoolExecutor(3)
        self.runs: list[Future[None]] = [
            self._threads.submit(self._read),
            self._threads.submit(self._worker.run),
            self._threads.submit(lambda: asyncio.run(self._await())),
        ]

    def _read(self) -> None:
        for message in self._stream:
            self.found["streamed"].add(message.text)
            with contextlib.suppress(StaleReceipt):  # It comes again.
                message.delete()

    def _handle(self, message: spoolrack.Message) -> None:
        self.found["worked"].add(message.text)

    async def _await(self) -> None:
        async with aio.connect(self._url, **self._routing) as client:
            reading = asyncio.create_task(self._read_each(client))
            over = asyncio.create_task(asyncio.to_thread(self._is_over.wait))
            await asyncio.wait([reading, over], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            reading.cancel()
            self._is_over.set()

    async def _read_each(self, client: aio.Client) -> None:
        async for message in client.queue("awaited").messages():
            self.found["awaited"].add(message.text)
            with contextlib.suppress(StaleReceipt):
                await message.delete()

    def has(self, text: str) -> bool:
        """Return whether all have met the message; raise the error of one that has ended."""
        for run in self.runs:
            if run.done():
                run.result()
                raise AssertionError("a consumer has ended")
        return all(text in found for found in self.found.values())

    def close(self) -> None:
        self._is_over.set()
        self._worker.stop()
        self._stream.close()
        self._client.close()
        self._threads.shutdown()


def send_to_all(client: spoolrack.Client, text: str) -> None:
    for queue in QUEUES:
        client.queue(queue).send(text)


def test_silent_streams_outlast_the_time_outs_of_a_proxy(
    make: Make, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spoolrack")
    with make(timeout=1) as proxy:
        consumers = Consumers(proxy.url, servers.routing)
        try:
            with spoolrack.connect(proxy.url, **servers.routing) as client:
                for n in range(ROUNDS):
                    send_to_all(client, f"{n}")
                    until(lambda: consumers.has(f"{n}"))  # noqa: B023  # called in this round
                    # All three are cut off, and opened again.
                    caplog.clear()
                    until(lambda: consumers.has("0") and caplog.text.count("is opened again") >= 3)
        finally:
            consumers.close()


@pytest.mark.slow
def test_streams_are_the_same_after_90_s_of_silence(
    make: Make, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spoolrack")
    with make() as proxy:
        consumers = Consumers(proxy.url, servers.routing)
        try:
            with spoolrack.connect(proxy.url, **servers.routing) as client:
                send_to_all(client, "before")
                until(lambda: consumers.has("before"))
                threading.Event().wait(SILENCE)
                send_to_all(client, "after")
                until(lambda: consumers.has("after"))
        finally:
            consumers.close()
    assert "is opened again" not in caplog.text


@pytest.mark.slow
async def test_600_streams_of_one_connection_are_open_at_a_time(make: Make) -> None:
    with make() as proxy:
        await open_at_a_time(proxy.url, 600)


def disturb(what: str, proxy: RealProxy, server: RealServer) -> None:
    """`server` is the one of this round."""
    match what:
        case "server kill":
            server.kill()
            server.start()
        case "server restart":
            server.stop()
            server.start()
        case "proxy restart":
            proxy.restart()
        case "proxy reload":
            proxy.reload()


@pytest.mark.parametrize(
    "what",
    [
        "server kill",
        "server restart",
        "proxy reload",
        pytest.param("proxy restart", marks=pytest.mark.slow),
    ],
)
def test_no_send_fails_and_no_stream_ends_while_one_is_restarted(
    make: Make, servers: Servers, what: str
) -> None:
    with make() as proxy:
        consumers = Consumers(proxy.url, servers.routing)
        client = spoolrack.connect(proxy.url, **servers.routing)
        is_over = threading.Event()

        def send(number: int) -> list[str]:
            sent: list[str] = []
            while not is_over.is_set():
                text = f"{number} {len(sent)}"
                send_to_all(client, text)
                sent.append(text)
            return sent

        try:
            with ThreadPoolExecutor(SENDERS) as threads:
                senders = [threads.submit(send, number) for number in range(SENDERS)]
                try:
                    for n in range(ROUNDS):
                        disturb(what, proxy, servers.each[n % len(servers.each)])
                        send_to_all(client, f"round {n}")
                        until(lambda: consumers.has(f"round {n}"))  # noqa: B023  # called in this round
                finally:
                    is_over.set()
                sent = [text for each in senders for text in each.result(PATIENCE)]
            assert len(sent) > SENDERS
            until(lambda: all(map(consumers.has, sent)))
        finally:
            client.close()
            consumers.close()
