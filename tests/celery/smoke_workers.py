"""Fixtures that stand for those of pytest-celery: each worker is a process, not a container.

Copied beside Celery's own smoke tests, as their `conftest.py`. TEST_BROKER, TEST_BACKEND, REDIS_HOST
and REDIS_PORT name servers that run already; each test finds the broker empty.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal as signals
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spoolrack
from celery import Celery

STARTS = 60.0
"""Seconds in which a worker has to be ready."""
STOPS = 60.0
CONCURRENCY = 4
"""As many tasks run at once as some tests send."""


class WorkerProcess:
    """A worker process, with the methods of a container that pytest-celery calls."""

    def __init__(
        self,
        kind: Any,
        command: list[str],
        env: dict[str, Any],
        content: dict[str, bytes],
        folder: Path,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.name = f"{kind.worker_name()}-{self.id[:12]}"
        for name in ("version", "log_level", "worker_name", "worker_queue"):
            setattr(self, name, getattr(kind, name))
        self._command = [word.replace("%h", self.id[:12]) for word in command]
        self._env = {
            **os.environ,
            **{name: str(value) for name, value in env.items()},
            "PYTHONPATH": os.environ["PYTHONPATH"],
        }
        self._folder = folder
        self._log = folder / "log"
        for name, text in content.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        self._start()

    def _start(self) -> None:
        with self._log.open("a") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._command],
                cwd=self._folder,
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def status(self) -> str:
        return "running" if self._process.poll() is None else "exited"

    @property
    def attrs(self) -> dict[str, Any]:
        return {"State": {"ExitCode": self._process.poll()}}

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def ready(self) -> bool:
        self._wait_until_ready(1)
        return True

    def _wait_until_ready(self, count: int) -> None:
        end = time.monotonic() + STARTS
        while self.logs().count("ready.") < count:
            assert self.status == "running", self.logs()
            assert time.monotonic() < end, self.logs()
            time.sleep(0.1)

    def reload(self) -> None:
        """Do nothing: no state of the process is cached."""

    def kill(self, signal: str) -> None:
        """Send a signal to the worker; SIGKILL to its children, too, as with a container."""
        if signal == "SIGKILL":
            self._end()
        else:
            # As long as Docker takes: two signals at once are one, and all tasks that a test has sent
            # begin before its signal, as those expect that wait for the first one alone.
            time.sleep(1.0)
            self._process.send_signal(signals.Signals[signal])

    def restart(self, timeout: float = STOPS) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self._end()
        count = self.logs().count("ready.")
        self._start()
        self._wait_until_ready(count + 1)

    def exec_run(self, command: str) -> tuple[int, bytes]:
        done = subprocess.run(
            ["sh", "-c", command], cwd=self._folder, env=self._env, capture_output=True, check=False
        )
        return done.returncode, done.stdout

    def teardown(self) -> None:
        self._end()

    remove = teardown

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signals.SIGKILL)
        self._process.wait(STOPS)


class Server:
    """A broker or a backend that runs already, as a cluster of one."""

    def __init__(self, url: str) -> None:
        self.nodes = ()
        self._url = url

    def __getitem__(self, place: int) -> Server:
        return self

    def config(self) -> dict[str, list[str]]:
        return {"urls": [self._url], "host_urls": [self._url]}

    def ready(self) -> bool:
        return True

    def teardown(self) -> None:
        pass


@pytest.fixture
def redis_test_container() -> Any:
    return SimpleNamespace(hostname=os.environ["REDIS_HOST"], port=int(os.environ["REDIS_PORT"]))


@pytest.fixture(autouse=True)
def set_redis_test_container() -> None:
    """Do nothing: the environment names the server already."""


@pytest.fixture
def celery_broker_cluster() -> Server:
    url = os.environ["TEST_BROKER"]
    with spoolrack.connect(url.replace("spoolrack://", "grpc://")) as client:
        for queue in client.list_queues():
            if queue.name == "kombu.bindings":  # The connections of this process need it.
                client.queue(queue.name).purge()
            else:
                client.delete_queue(queue.name)
    return Server(url)


@pytest.fixture
def celery_backend_cluster() -> Server:
    return Server(os.environ["TEST_BACKEND"])


@pytest.fixture
def default_worker_app(default_worker_app: Celery) -> Celery:
    default_worker_app.conf.worker_concurrency = CONCURRENCY
    return default_worker_app


@pytest.fixture
def default_worker_env(default_worker_env: dict[str, Any]) -> dict[str, Any]:
    default_worker_env["REDIS_PORT"] = os.environ["REDIS_PORT"]
    return default_worker_env


@pytest.fixture
def start_worker(
    default_worker_env: dict[str, Any], default_worker_initial_content: dict[str, bytes], tmp_path: Path
) -> Iterator[Callable[[Any, list[str]], WorkerProcess]]:
    # The mark of a task that dies once, which a container would not keep.
    Path("/tmp/kill_child_process_once").unlink(missing_ok=True)
    started: list[WorkerProcess] = []

    def start(kind: Any, command: list[str]) -> WorkerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(
            WorkerProcess(kind, command, default_worker_env, default_worker_initial_content, folder)
        )
        started[-1].ready()
        return started[-1]

    yield start
    for each in started:
        each.teardown()


@pytest.fixture
def default_worker_container(
    start_worker: Callable[[Any, list[str]], WorkerProcess],
    default_worker_container_cls: Any,
    default_worker_command: list[str],
) -> WorkerProcess:
    return start_worker(default_worker_container_cls, default_worker_command)


@pytest.fixture
def alt_dev_worker_container(start_worker: Callable[[Any, list[str]], WorkerProcess]) -> WorkerProcess:
    kind = importlib.import_module("t.smoke.workers.alt").AltSmokeWorkerContainer
    return start_worker(kind, kind.command())
