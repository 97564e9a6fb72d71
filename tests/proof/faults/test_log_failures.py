"""A log that can't be written stops and delays nothing: no call, no start and no end of the server."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import spoolrack
from spoolrack.errors import InvalidRequest, QueueNotFound

from tests.support import STUCK
from tests.support.ports import free_port

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str, stdout: int = subprocess.PIPE, stderr: int | None = None
    ) -> subprocess.Popen[str]:
        command = (sys.executable, "-m", "spoolrack_server", "serve", "--root", str(tmp_path / "root"))
        process = subprocess.Popen([*command, *arguments], stdout=stdout, stderr=stderr, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(STUCK)
        if process.stdout is not None:
            process.stdout.close()


MISUSED = 2
ANYWHERE = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


def addresses(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the address of gRPC and the URL of HTTP."""
    assert process.stdout is not None
    grpc = ""
    for line in process.stdout:
        if found := re.match(r" +gRPC +(\S+)\n", line):
            grpc = found[1]
        elif found := re.match(r" +HTTP +(http://[^/]+)/", line):
            return grpc, found[1]
    raise AssertionError("it has ended")


def use(grpc: str, http: str) -> None:
    """Be refused more often than a pipe has room for the lines, and send beside that."""
    with spoolrack.connect(grpc, timeout=STUCK, retry=spoolrack.RetryPolicy(attempts=1)) as client:
        client.create_queue("q")
        queue = client.queue("q")
        for number in range(30):
            with pytest.raises(QueueNotFound):
                client.queue("nothing").send(b"x")
            with pytest.raises(InvalidRequest):
                queue.receive(1, wait=10_000_000)
            with pytest.raises(HTTPError) as refused:
                urlopen(f"{http}/nothing", timeout=STUCK)
            refused.value.close()
            assert refused.value.code == 404
            queue.send(f"{number}")
        assert queue.info().counts.ready_count == 30


def metric(http: str, name: str) -> float:
    with urlopen(f"{http}/-/metrics", timeout=STUCK) as answer:
        page = answer.read().decode()
    return float(re.search(rf"^{name}{{.*}} (.*)$", page, re.MULTILINE)[1])  # type: ignore[index]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_end_of_the_logs_reader_stops_nothing(start: Start, processes: str) -> None:
    reading, writing = os.pipe()
    process = start(*ANYWHERE, "--processes", processes, stderr=writing)
    os.close(writing)
    grpc, http = addresses(process)
    os.close(reading)
    use(grpc, http)
    if processes == "1":
        assert metric(http, "spoolrack_log_lines_dropped_total") > 0
    process.terminate()
    assert process.wait(STUCK) == 0


def test_a_reader_of_the_log_that_has_stopped_stops_nothing(start: Start) -> None:
    with ExitStack() as stack:
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        process = start(*ANYWHERE, stderr=writing)
        os.close(writing)
        grpc, http = addresses(process)
        use(grpc, http)
        process.terminate()
        assert process.wait(STUCK) == 0
        assert len(os.read(reading, 65_536)) > 3_000, "it was full"


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_a_log_on_a_full_disk_stops_no_start(start: Start, format: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    ports = [free_port(), free_port()]
    arguments = ("--grpc", f"127.0.0.1:{ports[0]}", "--http", f"127.0.0.1:{ports[1]}")
    with ExitStack() as stack:
        stack.callback(os.close, full)
        process = start(*arguments, "--log-format", format, stdout=full, stderr=full)
        with spoolrack.connect(f"127.0.0.1:{ports[0]}", timeout=STUCK) as client:
            client.create_queue("q")
        use(f"127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")
        # A failed start keeps its exit code.
        assert start(*arguments, stdout=full, stderr=full).wait(STUCK) == os.EX_UNAVAILABLE
        process.terminate()
        assert process.wait(STUCK) == 0


def test_all_that_a_server_with_a_log_of_json_writes_is_json(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as file:
        json_log = (*ANYWHERE, "--log-format", "json", "--peers", "3")
        process = start(*json_log, stdout=file.fileno(), stderr=file.fileno())
        found: dict[str, str] = {}
        while "grpc" not in found:
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n") and json.loads(line)["event"] == "serving":
                    found = json.loads(line)
        busy = start(
            *("--grpc", found["grpc"], "--http", "off", "--log-format", "json"),
            stdout=file.fileno(),
            stderr=file.fileno(),
        )
        assert busy.wait(STUCK) == os.EX_UNAVAILABLE
        missing = ("--tokens", str(tmp_path / "none"), "--log-format", "json")
        assert start(*missing, stdout=file.fileno(), stderr=file.fileno()).wait(STUCK) == MISUSED
        process.terminate()
        assert process.wait(STUCK) == 0
    told = [json.loads(line) for line in path.read_text().splitlines()]
    (failed,) = [line for line in told if line["event"].startswith("Can't listen at")]
    (misused,) = [line for line in told if "'--tokens'" in line["event"]]
    assert failed["level"] == misused["level"] == "error"
