"""A real server for each test, and the command line beside it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spoolrack import Client
from spoolrack.testing import RunningServer, running_server
from spoolrack_server.cli.program import run

from tests.cli.cli_rig import FAST, Result, Spoolrack, started


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def kept_handlers() -> Iterator[None]:
    """The handlers of signals, as they were before the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.fixture
def offline(kept_handlers: None, capfd: pytest.CaptureFixture[str]) -> Spoolrack:
    """Runs a command in this process, without a server."""

    def call(*arguments: str) -> Result:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return Result(code=code, out=out, err=err)

    return call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def on_root(offline: Spoolrack, root: Path) -> Spoolrack:
    """Runs a command in this process, on the root."""
    return lambda *arguments: offline(*arguments, "--root", str(root))


@pytest.fixture
def bring(on_root: Spoolrack) -> Spoolrack:
    """Runs an import into the root."""
    return lambda *arguments: on_root("import", *arguments, *FAST)


@pytest.fixture
def spoolrack(server: RunningServer, offline: Spoolrack, monkeypatch: pytest.MonkeyPatch) -> Spoolrack:
    """Runs a command in this process, against the server."""
    monkeypatch.setenv("SPOOLRACK_URL", server.url)
    return offline


@pytest.fixture
def start(server: RunningServer) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a command as a process, against the server."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **more: object) -> subprocess.Popen[bytes]:
        process = started(server.url, *arguments, **more)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        process.wait()
