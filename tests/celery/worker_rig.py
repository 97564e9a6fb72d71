"""A Celery worker process and a real server, with what a test waits for."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import CHECKOUT
from tests.celery import celery_app
from tests.support import STUCK


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return what `condition` returns, once that is true."""
    end = time.monotonic() + STUCK
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


@contextlib.contextmanager
def configure(broker: str, results: Path) -> Iterator[None]:
    """Let the app of this process send to a broker: a new app, because an app keeps the connections and
    the result backend that it first had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_BROKER_URL", broker)
        patch.setenv("TEST_RESULT_BACKEND", f"file://{results}")
        importlib.reload(celery_app)
        yield
        celery_app.app.close()


class Worker:
    """A worker of `tests.celery.celery_app`, in a process group of its own."""

    def __init__(self, name: str, broker: str, results: Path, log: Path, *options: str) -> None:
        self.name = f"{name}@localhost"
        self._log = log
        self._broker = broker
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "celery", "-A", "tests.celery.celery_app", "worker"),
                    *("--hostname", self.name, "--concurrency", "2", "--loglevel", "INFO", *options),
                ],
                cwd=CHECKOUT,
                env={
                    **os.environ,
                    "TEST_BROKER_URL": broker,
                    "TEST_RESULT_BACKEND": f"file://{results}",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until_ready(self) -> None:
        until(lambda: f"{self.name} ready" in self.log, f"{self.name} is ready:\n{self.log}")

    def signal(self, *signals: int) -> None:
        """Send signals, each once the worker has said what it does after the one before."""
        for number in signals:
            before = self.log.count("worker: ")
            self._process.send_signal(number)
            until(
                lambda before=before: (  # type: ignore[misc]
                    self._process.poll() is not None or self.log.count("worker: ") > before
                ),
                f"{self.name} handles signal {number}",
            )

    def ask_to_stop(self) -> None:
        """Return once it takes no more tasks; those that run come to their end."""
        self._process.terminate()
        until(lambda: "Warm shutdown" in self.log, f"{self.name} stops")

    def stop(self) -> None:
        """End it as an operator does: tasks that run come to their end."""
        self._process.terminate()
        self._process.wait(STUCK)

    def wait(self, timeout: float = STUCK) -> None:
        """Return once it has ended by itself."""
        self._process.wait(timeout)

    def kill(self) -> None:
        """End it with its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STUCK)


@contextlib.contextmanager
def ended_worker(name: str, broker: str, folder: Path, *options: str) -> Iterator[Worker]:
    """Run a worker, which the context ends; results are kept in `folder`/results."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    started = Worker(name, broker, results, folder / f"{name}.log", *options)
    try:
        started.until_ready()
        yield started
    finally:
        started.kill()


@contextlib.contextmanager
def worker(name: str, broker: str, folder: Path, *options: str) -> Iterator[Worker]:
    """Run a worker until the end of the context; results are kept in `folder`/results."""
    with ended_worker(name, broker, folder, *options) as started:
        yield started
        started.stop()
