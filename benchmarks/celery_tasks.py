"""Celery's tasks on `spoolrack://` beside Redis: rates, and the server's processor time of each task.

    python -m benchmarks.celery_tasks --tasks 1000

Both servers sync each task before they answer: Redis has `appendfsync always`. All parts run in turn on
each, several times; compare the ratio of the two, as other load on the machine meets both. Results of
tasks are kept in the same Redis for both. Needs redis-server, and `pip install redis`, 6.1 or newer.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from celery import Celery, chord

TICKS: Final = os.sysconf("SC_CLK_TCK")
WITHIN: Final = 600.0
"""Seconds after which a part has failed."""
THREADS: Final = 8
NOTHING: Final = "benchmarks.celery_tasks.nothing"
LATE: Final = "benchmarks.celery_tasks.nothing_late"
ONE: Final = "benchmarks.celery_tasks.one"
TOTAL: Final = "benchmarks.celery_tasks.total"

app = Celery("benchmarks.celery_tasks")
app.conf.update(
    broker_url=os.environ.get("BENCHMARK_BROKER", "memory://"),
    result_backend=os.environ.get("BENCHMARK_BACKEND"),
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(shared=False, ignore_result=True)
def nothing() -> None:
    """Take no time."""


@app.task(shared=False, ignore_result=True, acks_late=True)
def nothing_late() -> None:
    """Take no time, and acknowledge after that."""


@app.task(shared=False)
def one(number: int) -> int:
    return number


@app.task(shared=False)
def total(numbers: list[int]) -> int:
    return sum(numbers)


class Server(NamedTuple):
    name: str
    url: str
    pid: int

    def processor_seconds(self) -> float:
        """Return the processor time that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Measured(NamedTuple):
    rate: float
    """Tasks a second."""
    server_milliseconds: float
    """Processor time of the server for each task."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: list[str], port: int, **options: Any) -> Iterator[int]:
    """Run a server until the end of the context; return its process id once it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_until(lambda: is_open(port), f"{command[0]} listens")
        yield process.pid
    finally:
        process.terminate()
        process.wait(WITHIN)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"never: {what}")
        time.sleep(0.005)


def measure(server: Server, count: int, run: Callable[[], object]) -> Measured:
    used, began = server.processor_seconds(), time.monotonic()
    run()
    seconds = time.monotonic() - began
    return Measured(count / seconds, (server.processor_seconds() - used) / count * 1e3)


@contextlib.contextmanager
def sender(server: Server, backend: str, **settings: Any) -> Iterator[Celery]:
    """Return an app with connections of its own."""
    with Celery("sender", broker=server.url, backend=backend) as own:
        own.conf.update(settings)
        own.send_task(NOTHING)  # It is connected, and the queue is there.
        yield own


@contextlib.contextmanager
def worker(server: Server, backend: str, pool: str) -> Iterator[None]:
    """Run a worker with two processes or threads."""
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.celery_tasks", "worker"]
    process = subprocess.Popen(
        [*command, "-c", "2", "-P", pool, "-l", "ERROR"],
        env={**os.environ, "BENCHMARK_BROKER": server.url, "BENCHMARK_BACKEND": backend},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WITHIN)


def send(app: Celery, count: int, task: str = NOTHING) -> None:
    for _ in range(count):
        app.send_task(task)


def send_from_threads(app: Celery, count: int) -> None:
    threads = [threading.Thread(target=send, args=(app, count // THREADS)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def drain(app: Celery) -> None:
    """Wait for a task behind all others."""
    app.send_task(ONE, (1,)).get(timeout=WITHIN)


def control(app: Celery, command: str) -> None:
    """Let the worker stop or begin to receive."""
    app.control.broadcast(command, {"queue": "celery"}, reply=True, timeout=WITHIN, limit=1)


def run_chord(app: Celery, count: int) -> None:
    header = [app.signature(ONE, (number,)) for number in range(count)]
    chord(header, app=app)(app.signature(TOTAL)).get(timeout=WITHIN)


def measure_all(server: Server, backend: str, count: int, pool: str) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    with sender(server, backend) as app:
        found["send"] = measure(server, count, lambda: send(app, count))
        with worker(server, backend, pool):
            drain(app)
            for name, task in (("work", NOTHING), ("work, acks_late", LATE)):
                control(app, "cancel_consumer")
                send(app, count, task)
                app.send_task(ONE, (1,), task_id=name)
                last = app.AsyncResult(name)

                def work_off(last: Any = last) -> None:
                    control(app, "add_consumer")
                    last.get(timeout=WITHIN)

                found[f"{name}, {pool}"] = measure(server, count, work_off)
                last.forget()
            found["chord"] = measure(server, count, lambda: run_chord(app, count))
    few = count // 4
    with sender(server, backend, broker_pool_limit=0) as app:
        found[f"send without a pool, {THREADS} threads"] = measure(
            server, few, lambda: send_from_threads(app, few)
        )
        app.control.purge()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pool", default="prefork")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="celery-tasks-"))
    ports = free_port(), free_port()
    redis = ["redis-server", "--port", str(ports[0]), "--dir", str(folder), "--save", ""]
    redis += ["--appendonly", "yes", "--appendfsync", "always", "--bind", "127.0.0.1"]
    serve = [sys.executable, "-m", "spoolrack_server", "serve", "--data", str(folder / "root")]
    serve += ["--grpc", f"127.0.0.1:{ports[1]}", "--http", "127.0.0.1:0"]
    try:
        with running(redis, ports[0]) as redis_pid, running(serve, ports[1]) as pid:
            backend = f"redis://127.0.0.1:{ports[0]}/1"
            servers = (
                Server("Redis", f"redis://127.0.0.1:{ports[0]}/0", redis_pid),
                Server("Spoolrack", f"spoolrack://127.0.0.1:{ports[1]}", pid),
            )
            rounds: dict[str, list[tuple[Measured, Measured]]] = {}
            for _ in range(given.rounds):
                both = [measure_all(each, backend, given.tasks, given.pool) for each in servers]
                for name, measured in both[0].items():
                    rounds.setdefault(name, []).append((measured, both[1][name]))
    finally:
        shutil.rmtree(folder)
    print(f"{'':36}{'tasks/s':>9}{'of Redis':>10}{'server ms':>11}{'Redis ms':>10}")
    for name, pairs in rounds.items():
        rate = median(ours.rate for _, ours in pairs)
        ratio = median(ours.rate / theirs.rate for theirs, ours in pairs)
        cost = median(ours.server_milliseconds for _, ours in pairs)
        other = median(theirs.server_milliseconds for theirs, _ in pairs)
        print(f"{name:36}{rate:9.0f}{ratio:10.2f}{cost:11.2f}{other:10.2f}")


if __name__ == "__main__":
    main()
