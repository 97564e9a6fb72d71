"""A server process whose surroundings fail: it is started, traced, starved and asked how it feels.

It has a root and a log of its own. Everything else (the disk under the root, who may read what, which
system calls fail) is the test's to spoil. Each process is ended by its own pid.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
import spoolrack
from grpc_health.v1 import health_pb2

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.forked import ForkedProgram
from tests.support.loop_disk import LoopDisk
from tests.support.waiting import until

ONCE: Final = spoolrack.RetryPolicy(attempts=1)
AS_MORTAL: Final = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
"""Before a command of root's: permissions hold for it as for any user."""


MakeDisk = Callable[..., LoopDisk]
"""Makes a small disk of a kind, with the other arguments of `LoopDisk`."""


class Health(NamedTuple):
    grpc: str
    http: str
    why: str


WELL: Final = Health("SERVING", "SERVING", "")


class RealServer:
    """`spoolrack serve` over `root`, any number of times."""

    def __init__(
        self, root: Path, log: Path, *, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> None:
        """`before` is the beginning of the command line, such as AS_MORTAL, and `after` its end."""
        self.root = root
        self._log = log
        self._before = tuple(before)
        self._after = tuple(after)
        self._process: subprocess.Popen[str] | ForkedProgram | None = None
        self._client: spoolrack.Client | None = None
        self.port = 0
        self.http_port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def client(self) -> spoolrack.Client:
        """One that repeats nothing."""
        if self._client is None:
            self._client = self.connect(ONCE)
        return self._client

    def connect(self, retry: spoolrack.RetryPolicy | None = None) -> spoolrack.Client:
        return spoolrack.connect(f"127.0.0.1:{self.port}", timeout=STUCK, retry=retry)

    def queue(self, name: str = "q") -> spoolrack.Queue:
        return self.client.queue(name)

    def start(self) -> None:
        """Return once it serves, and its log has what it says of the start."""
        before = len(self.log)
        process = self._begin()
        assert process.stdout is not None
        for line in process.stdout:
            found = re.fullmatch(r" +(gRPC|HTTP) .*:(\d+)(/.*)?\n", line)
            if found is not None and found[1] == "gRPC":
                self.port = int(found[2])
            elif found is not None:
                self.http_port = int(found[2])
                # A thread of the server writes its log: a busy machine may be late with it.
                self.until_logged("event=serving", before)
                return
        raise AssertionError(f"it has ended with {process.wait(STUCK)}:\n{self.log}")

    def refuse_start(self) -> tuple[int, str]:
        """Start in vain: the exit code, and what it said."""
        before = len(self.log)
        code = self._begin().wait(STUCK)
        self.kill()
        return code, self.log[before:]

    def _begin(self) -> subprocess.Popen[str] | ForkedProgram:
        self.kill()
        serve = (
            *("spoolrack_server", "serve", "--data", str(self.root)),
            *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *self._after),
        )
        with self._log.open("ab") as log:
            if self._before:
                self._process = subprocess.Popen(
                    [*self._before, sys.executable, "-m", *serve],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            else:
                self._process = ForkedProgram(*serve, folder=CHECKOUT, log=log.fileno())
        return self._process

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def until_logged(self, words: str, after: int = 0) -> None:
        """Return once the log has the words, `after` so many characters."""
        until(lambda: words in self.log[after:])

    def kill(self) -> None:
        """SIGKILL, if it lives; return once it is dead."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(STUCK)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(STUCK)
        self.kill()
        return code

    def restart(self) -> None:
        """End it cleanly, and start it again."""
        assert self.stop() == 0, self.log
        self.start()

    def health(self) -> Health:
        """Return what it says to both who ask; `why` is told by HTTP alone."""
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            request = health_pb2.HealthCheckRequest(service="spoolrack.v1.QueueService")
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            response = check(request, timeout=STUCK, wait_for_ready=True)
        name = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
        try:
            with urlopen(f"http://127.0.0.1:{self.http_port}/-/health", timeout=STUCK) as answer:
                told = json.load(answer)
        except HTTPError as error:
            if error.code != 503:
                raise
            with error:
                told = json.load(error)
        return Health(name, told["status"], told.get("why", ""))

    def is_failed(self) -> str:
        """Both say that it doesn't serve; why."""
        health = self.health()
        assert (health.grpc, health.http) == ("NOT_SERVING", "NOT_SERVING")
        return health.why

    @contextmanager
    def failing(
        self, calls: str, error: str, *, when: str = "1+", in_loop: bool = False
    ) -> Iterator[None]:
        """Let `calls`, a list as strace takes it, fail: those that `when` counts, in each thread of the
        server by itself; with `in_loop` only in that of its event loop."""
        tracer = subprocess.Popen(
            [
                *("strace", "-qqq", "-o", "/dev/null", *(() if in_loop else ("-f",))),
                *("-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={when}"),
                *("-p", str(self.pid)),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _wait_until_traced(self.pid, tracer, in_loop)
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            _, said = tracer.communicate(timeout=STUCK)
            assert tracer.returncode in (0, -signal.SIGINT, 128 + signal.SIGINT), said


def _wait_until_traced(pid: int, tracer: subprocess.Popen[str], first_only: bool) -> None:
    """Return once every thread, or the first, has its tracer, of which strace says nothing."""
    while True:
        assert tracer.poll() is None, tracer.communicate()[1]
        threads = list(Path(f"/proc/{pid}/task").glob(str(pid) if first_only else "*"))
        states = [(thread / "status").read_text() for thread in threads if thread.exists()]
        if all(re.search(r"^TracerPid:\t[1-9]", state, re.MULTILINE) for state in states):
            return


def slowly(*values: object) -> list[object]:
    """Parameters of a test that only the long run tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@cache
def why_not_traced() -> str | None:
    """Return what keeps this machine from letting system calls fail; None if nothing does."""
    if os.geteuid() != 0:
        return "needs root, to trace a process that runs: run it as root, or in CI"
    if shutil.which("strace") is None:
        return "needs strace: make system-tools installs it"
    return None
