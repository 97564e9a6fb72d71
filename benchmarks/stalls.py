"""Stalls: how long does a caller wait beside another caller's backlog?

    python -m benchmarks.stalls [--sizes 2000,20000] [--rows deaths,purge] [--within DIR] [--json FILE]

A server on a file system of its own, and a process that probes it: 20 sends a second, 20 lives
(send, receive, delete) a second, health, GetQueue and metrics, each on connections of its own. Each
row makes its backlog, and then does its work. The figures are of the probes while that work is
done: the median and the longest wait of each, in milliseconds. A wait that grows with the size is a
fault; the absolute figures are this machine's, and the row "nothing" is what they are to be
compared with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import spoolrack

from .server_processes import Server, free_port
from .work_folder import own_disk

PROBES: Final = ("send", "life", "health", "get_queue", "metrics")
RATE: Final = {"send": 20.0, "life": 20.0, "health": 10.0, "get_queue": 10.0, "metrics": 2.0}
"""A second."""
DISK_BYTES: Final = 6 << 30
BATCH: Final = 100
_BODY: Final = b"x" * 1_000


@dataclass
class Row:
    """One kind of work, at one size."""

    name: str
    size: int
    seconds: float
    waits: dict[str, list[float]] = field(default_factory=dict)
    """By probe, in milliseconds."""

    def line(self) -> str:
        told = "  ".join(
            f"{name} {statistics.median(waits):6.1f} {max(waits):8.1f}"
            for name, waits in self.waits.items()
            if waits
        )
        return f"{self.name:12} {self.size:9,} {self.seconds:7.2f} s   {told}"


class Place:
    """A server, and what a row needs of it."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root, self._log = root, log
        self._ports = free_port(), free_port()
        self.url = f"127.0.0.1:{self._ports[0]}"
        self.http = f"http://127.0.0.1:{self._ports[1]}"
        self.start()

    def start(self) -> None:
        grpc, http = (f"127.0.0.1:{port}" for port in self._ports)
        command = [sys.executable, "-m", "spoolrack_server", "serve", "--data", str(self._root)]
        self._server = Server([*command, "--grpc", grpc, "--http", http], self._log)
        self._server.wait_for_port(self._ports[1])

    def stop(self) -> None:
        self._server.end()

    def client(self) -> spoolrack.Client:
        return spoolrack.connect(self.url, timeout=120)


def fill(queue: spoolrack.Queue, count: int) -> None:
    """Send messages in atomic files of a hundred."""
    for start in range(0, count, BATCH):
        queue.send_many([_BODY] * min(BATCH, count - start))


def lone_queue(client: spoolrack.Client, name: str, count: int) -> spoolrack.Queue:
    """Make a queue with messages in files of their own."""
    client.create_queue(name, messages_per_file=1)
    queue = client.queue(name)
    fill(queue, count)
    return queue


def nothing(place: Place, size: int) -> Iterator[None]:
    yield
    time.sleep(5)


def deaths(place: Place, size: int) -> Iterator[None]:
    """Let messages in files of a hundred be received too often: the next receive finds them."""
    with place.client() as client:
        client.create_queue("deaths-dead")
        client.create_queue(
            "deaths", max_receives=1, dead_letter_queue="deaths-dead", dead_letter_at="receive"
        )
        queue = client.queue("deaths")
        fill(queue, size)
        found: list[spoolrack.Message] = []
        while len(found) < size:
            found += queue.receive(1_000, visibility_timeout=600)
        queue.release_many(found)
        yield
        dead = client.queue("deaths-dead")
        while dead.info().counts.ready_count < size:
            queue.receive(10, wait=0.2)


def purge(place: Place, size: int) -> Iterator[None]:
    """Lone messages are purged."""
    with place.client() as client:
        queue = lone_queue(client, "purge", size)
        yield
        queue.purge()


def retention(place: Place, size: int) -> Iterator[None]:
    """Let messages in files of a hundred grow too old at once."""
    with place.client() as client:
        client.create_queue("old")
        queue = client.queue("old")
        fill(queue, size)
        yield
        client.update_queue("old", retention=1)
        while queue.info().counts.ready_count:
            time.sleep(0.2)


def expiry(place: Place, size: int) -> Iterator[None]:
    """Let the leases of lone messages end within a second."""
    with place.client() as client:
        queue = lone_queue(client, "ends", size)
        until = time.monotonic() + 2 + size / 2_000
        left = size
        while left:
            found = queue.receive(min(left, 1_000), visibility_timeout=until - time.monotonic())
            left -= len(found)
        yield
        while queue.info().counts.leased_count:
            time.sleep(0.1)


def asking(place: Place, size: int) -> Iterator[None]:
    """Look at a queue with lone messages in a loop, as dashboards and scalers do."""
    with place.client() as client:
        queue = lone_queue(client, "looked-at", size)
        for _ in range(10):
            queue.receive(min(size, 1_000), visibility_timeout=600)
        yield
        end = time.monotonic() + 5
        while time.monotonic() < end:
            queue.info()


def delays(place: Place, size: int) -> Iterator[None]:
    """Sixteen callers send messages that each have a delay of their own."""
    with place.client() as client:
        client.create_queue("delays")
        queue = client.queue("delays")
        messages = [spoolrack.Outgoing(body=b"x", delay=100 + at) for at in range(size // 16)]
        yield
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: queue.send_many(messages), range(16)))


def waiting(place: Place, size: int) -> Iterator[None]:
    """Receives wait on queues that stay empty: a hundred queues, as many receives as the size."""
    names = [f"empty-{number}" for number in range(100)]
    with place.client() as client:
        for name in names:
            client.create_queue(name)
        stop = threading.Event()

        def wait_on(number: int) -> None:
            while not stop.is_set():
                client.queue(names[number % 100]).receive(1, wait=5)

        with ThreadPoolExecutor(size) as pool:
            for number in range(size):
                pool.submit(wait_on, number)
            yield
            time.sleep(6)
            stop.set()


ROWS: Final[dict[str, tuple[Callable[[Place, int], Iterator[None]], tuple[int, ...]]]] = {
    "nothing": (nothing, (0,)),
    "deaths": (deaths, (2_000, 20_000)),
    "purge": (purge, (2_000, 20_000)),
    "retention": (retention, (10_000, 100_000)),
    "expiry": (expiry, (2_000, 20_000)),
    "asking": (asking, (2_000, 20_000)),
    "delays": (delays, (1_600, 16_000)),
    "waiting": (waiting, (100, 1_000)),
}


# The process that probes.


def probe(url: str, http: str) -> None:
    """Probe until a line comes on standard input, and print what was waited."""
    over = threading.Event()
    waits: dict[str, list[float]] = {name: [] for name in PROBES}

    def loop(name: str, act: Callable[[], object]) -> None:
        due = time.monotonic()
        while not over.is_set():
            began = time.monotonic()
            act()
            ended = time.monotonic()
            waits[name].append(1_000 * (ended - began))
            due = max(due + 1 / RATE[name], ended)
            over.wait(due - ended)

    def fetch(path: str) -> bytes:
        with urllib.request.urlopen(f"{http}{path}", timeout=300) as response:
            content: bytes = response.read()
            return content

    with spoolrack.connect(url, timeout=300) as first, spoolrack.connect(url, timeout=300) as second:
        sent, lives = first.queue("probe-sends"), second.queue("probe-lives")

        def live() -> None:
            lives.send(b"x")
            (message,) = lives.receive(1, wait=300)
            message.delete()

        acts = {
            "send": lambda: sent.send(b"x"),
            "life": live,
            "health": lambda: fetch("/-/health/ready"),
            "get_queue": sent.info,
            "metrics": lambda: fetch("/-/metrics"),
        }
        threads = [threading.Thread(target=loop, args=each) for each in acts.items()]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.readline()
        over.set()
        for thread in threads:
            thread.join()
    print(json.dumps(waits))


@contextmanager
def probing(place: Place, row: Row) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.stalls", "--probe", place.url, place.http]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as prober:
        assert prober.stdout is not None
        assert prober.stdout.readline() == "ready\n"
        began = time.monotonic()
        yield
        row.seconds = time.monotonic() - began
        said, _ = prober.communicate("over\n")
        row.waits = json.loads(said)


def measure(place: Place, name: str, size: int) -> Row:
    row = Row(name, size, 0.0)
    steps = ROWS[name][0](place, size)
    next(steps)
    with probing(place, row):
        for _ in steps:
            pass
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls")
    parser.add_argument("--probe", nargs=2, metavar=("URL", "HTTP"), help=argparse.SUPPRESS)
    parser.add_argument("--rows", default=",".join(ROWS), help="which, with commas")
    parser.add_argument("--sizes", default="", help="of each row, with commas; else its own")
    parser.add_argument("--within", type=Path, default=Path("/tmp"), help="where the image is made")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    options = parser.parse_args(arguments)
    if options.probe:
        probe(*options.probe)
        return
    rows: list[Row] = []
    print("median and longest wait in ms, beside: the row, its size, its seconds")
    for name in options.rows.split(","):
        sizes = tuple(map(int, options.sizes.split(","))) if options.sizes else ROWS[name][1]
        for size in sizes:
            with own_disk(options.within, DISK_BYTES) as work:
                place = Place(work.folder / "root", work.folder / "log")
                try:
                    with place.client() as client:
                        client.create_queue("probe-sends")
                        client.create_queue("probe-lives")
                    rows.append(measure(place, name, size))
                    print(rows[-1].line(), flush=True)
                finally:
                    place.stop()
    if options.json is not None:
        options.json.write_text(json.dumps([row.__dict__ for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
