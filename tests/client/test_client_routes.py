"""How the client reaches its server: proxies of the environment, names, and several event loops."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack._transports.grpc_channels import proxy_hint
from spoolrack.errors import Unreachable
from spoolrack.testing import RunningServer

ONCE = RetryPolicy(attempts=1)
VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
ELSEWHERE = "10.255.255.1:50051"


@pytest.fixture
def no_proxy_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a proxy that refuses connections."""
    for name in (*VARIABLES, "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_loopback_address_is_reached_directly_whatever_proxy_the_environment_names(
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    no_proxy_there: str,
    variable: str,
    host: str,
) -> None:
    monkeypatch.setenv(variable, no_proxy_there)
    url = server.url.replace("127.0.0.1", host)

    def listed() -> None:
        with spoolrack.connect(url, retry=ONCE) as client:
            assert list(client.list_queues()) == []

    await asyncio.to_thread(listed)
    async with aio.connect(url, retry=ONCE) as client:
        assert [queue async for queue in client.list_queues()] == []


@pytest.mark.parametrize("variable", VARIABLES)
def test_an_error_names_the_variable_that_put_a_proxy_in_the_way(
    monkeypatch: pytest.MonkeyPatch, no_proxy_there: str, variable: str
) -> None:
    monkeypatch.setenv(variable, no_proxy_there)
    with (
        spoolrack.connect(ELSEWHERE, retry=ONCE) as client,
        pytest.raises(Unreachable, match=f"variable {variable}: .* add 10.255.255.1 to no_proxy"),
    ):
        client.queue("q").send(b"x")


@pytest.mark.parametrize(
    ("exceptions", "is_direct"),
    [
        ("", False),
        ("10.255.255.1", True),
        ("example.org, 10.255.0.0/16", True),
        ("10.1.0.0/16", False),
        ("example.org", False),
    ],
)
def test_no_proxy_is_blamed_that_is_not_in_the_way(
    monkeypatch: pytest.MonkeyPatch, no_proxy_there: str, exceptions: str, is_direct: bool
) -> None:
    monkeypatch.setenv("http_proxy", no_proxy_there)
    monkeypatch.setenv("no_proxy", exceptions)
    assert bool(proxy_hint(ELSEWHERE)) is not is_direct
    assert proxy_hint("queues.example.com:1") != ""
    assert (proxy_hint("queues.example.org:1") == "") is ("example.org" in exceptions)
    monkeypatch.delenv("http_proxy")
    assert proxy_hint(ELSEWHERE) == ""


def test_a_server_that_returns_under_another_address_is_found_by_its_name(tmp_path: Path) -> None:
    apart = ("unshare", "--mount")
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs root, and a mount namespace of its own")
    # gRPC by itself asks for a name every 30 seconds at most.
    program = (sys.executable, "-m", "tests.client.moving_name", tmp_path, "15")
    subprocess.run([*apart, *program], check=True)


def test_event_loops_one_after_the_other_leave_no_tracebacks(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def once() -> None:
        async with aio.connect(server.url) as client:
            await client.create_queue("q")
            queue = client.queue("q")
            for _ in range(5):
                await queue.send(b"x")
                (message,) = await queue.receive(wait=60)
                await message.delete()

    for _ in range(10):
        asyncio.run(once())
    assert "Traceback" not in caplog.text
