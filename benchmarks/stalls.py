"""Stalls: how long does a caller wait beside another caller's backlog?

    python -m benchmarks.stalls [--rows deaths,purge] [--times 10]
        [--page docs/explanation/performance.md]

A server on a file system of its own, and a process that probes it: 20 sends a second, 20 lives
(send, receive, delete) a second, health, GetQueue and metrics, each on connections of its own. Each
row makes its backlog, and then does its work. The figures are of the probes while that work is
done: the median, the 99th percentile and the longest wait of each, in milliseconds. A wait that grows
with the size is a fault; the absolute figures are this machine's, and the row "nothing" is what they
are to be compared with. `--times` makes all sizes so many times as large.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import spoolrack
from spoolrack import aio

from .made_root import MadeRoot
from .marked_parts import write_between
from .server_processes import Server, free_port, serve
from .work_folder import own_disk

PROBES: Final = ("send", "life", "health", "get_queue", "metrics")
RATE: Final = {"send": 20.0, "life": 20.0, "health": 10.0, "get_queue": 10.0, "metrics": 2.0}
"""A second."""
DISK_BYTES: Final = 8 << 30
_MAKING: Final = ("-i", "1536")
"""An inode for every 1.5 KiB: most messages are in files of their own, and many of these are empty."""
BATCH: Final = 100
BEGIN: Final = "<!-- stalls: made by benchmarks/stalls.py -->"
END: Final = "<!-- end of the stalls -->"
_BODY: Final = b"x" * 1_000


@dataclass
class StallRow:
    """One kind of work, at one size."""

    name: str
    size: int
    seconds: float
    waits: dict[str, list[float]] = field(default_factory=dict)
    """By probe, in milliseconds."""

    def line(self) -> str:
        told = "  ".join(
            f"{name} {median:6.1f} {tail:7.1f} {longest:8.1f}"
            for name, (median, tail, longest) in self.figures
        )
        return f"{self.name:12} {self.size:9,} {self.seconds:7.2f} s   {told}"

    def markdown(self) -> str:
        cells = (
            f"{median:.0f} / {tail:.0f} / {longest:.0f}" for _, (median, tail, longest) in self.figures
        )
        what = (ROWS[self.name][0].__doc__ or "").partition("\n\n")[0].replace("\n   ", "").rstrip(".")
        return f"| {what} | {self.size:,} | {self.seconds:.1f} | " + " | ".join(cells) + " |"

    @property
    def figures(self) -> list[tuple[str, tuple[float, float, float]]]:
        """The median, the 99th percentile and the longest wait of each probe."""
        return [
            (name, (statistics.median(waits), sorted(waits)[int(len(waits) * 0.99)], max(waits)))
            for name, waits in self.waits.items()
            if waits
        ]


class ServedRoot:
    """A server, and what a row needs of it."""

    def __init__(self, folder: Path) -> None:
        self.root, self._log = folder / "root", folder / "log"
        self._ports = free_port(), free_port()
        self.url = f"127.0.0.1:{self._ports[0]}"
        self.http = f"http://127.0.0.1:{self._ports[1]}"
        self.took: float | None = None
        """Seconds of the row's work, if it isn't what is done while the probes run."""
        self.start()

    def start(self) -> None:
        self._server = self.beside(self._ports)
        self._server.wait_for_port(self._ports[1])

    def beside(self, ports: tuple[int, int] | None = None) -> Server:
        """Start another server on the root."""
        grpc, http = (f"127.0.0.1:{port}" for port in ports or (free_port(), free_port()))
        return serve(self.root, self._log, "--grpc", grpc, "--http", http)

    def stop(self) -> None:
        self._server.end()

    def kill(self) -> None:
        self._server.kill()

    def wait_until_ready(self) -> None:
        while True:
            try:
                urllib.request.urlopen(f"{self.http}/-/health/ready", timeout=300).close()
            except urllib.error.HTTPError:
                time.sleep(0.01)
            else:
                return

    def put(self, queue: str, count: int, *, leased: int = 0) -> None:
        """Stop the server, and give a queue messages in files of their own, as names alone."""
        with self.client() as client:
            client.create_queue(queue)
        self.stop()
        made, now = MadeRoot(self.root), int(time.time() * 1_000)
        made.ready(queue, now, count - leased)
        made.hidden(queue, now, leased, due=now + 3_600_000, leased=True)
        os.sync()

    def client(self) -> spoolrack.Client:
        return spoolrack.connect(self.url, timeout=1_200)


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


def nothing(place: ServedRoot, size: int) -> Iterator[None]:
    """Do nothing beside the probes."""
    yield
    time.sleep(5)


def _dying(client: spoolrack.Client, size: int) -> spoolrack.Queue:
    """Have messages in files of a hundred received too often; return their dead-letter queue."""
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
    return client.queue("deaths-dead")


def _die(client: spoolrack.Client, dead: spoolrack.Queue, count: int) -> None:
    """Receive until so many have died."""
    while dead.info().counts.ready_count < count:
        client.queue("deaths").receive(10, wait=0.2)


def deaths(place: ServedRoot, size: int) -> Iterator[None]:
    """Let messages in files of a hundred die at a receive."""
    with place.client() as client:
        dead = _dying(client, size)
        yield
        _die(client, dead, size)


def killed_deaths(place: ServedRoot, size: int) -> Iterator[None]:
    """Kill the server in the middle of such deaths, and let the rest die."""
    with place.client() as client:
        dead = _dying(client, size)
        with ThreadPoolExecutor(1) as pool:
            dying = pool.submit(_die, client, dead, size // 4)
            dying.result(300)
        place.kill()
        place.start()
        place.wait_until_ready()
        yield
        _die(client, dead, size)


def purge(place: ServedRoot, size: int) -> Iterator[None]:
    """Purge lone messages."""
    with place.client() as client:
        queue = lone_queue(client, "purge", size)
        yield
        queue.purge()


def retention(place: ServedRoot, size: int) -> Iterator[None]:
    """Let messages in files of a hundred grow too old at once."""
    with place.client() as client:
        client.create_queue("old")
        queue = client.queue("old")
        fill(queue, size)
        yield
        client.update_queue("old", retention=1)
        while queue.info().counts.ready_count:
            time.sleep(0.2)


def expiry(place: ServedRoot, size: int) -> Iterator[None]:
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


def asking(place: ServedRoot, size: int) -> Iterator[None]:
    """Call GetQueue in a loop, for a queue of lone messages of which 10,000 are leased."""
    place.put("looked-at", size, leased=min(size // 2, 10_000))
    place.start()
    place.wait_until_ready()
    with place.client() as client:
        queue = client.queue("looked-at")
        yield
        end = time.monotonic() + 5
        while time.monotonic() < end:
            queue.info()


def start(place: ServedRoot, size: int) -> Iterator[None]:
    """Start with lone messages; a send waits for the end of that."""
    place.put("backlog", size)
    yield from _started(place)


def _started(place: ServedRoot) -> Iterator[None]:
    began = time.monotonic()
    place.start()
    yield
    place.wait_until_ready()
    place.took = time.monotonic() - began
    time.sleep(3)


def start_queues(place: ServedRoot, size: int) -> Iterator[None]:
    """Start with queues of one message each; a send waits for the end of that."""
    _make_queues(place, [f"queue-{number}" for number in range(size)])
    place.stop()
    yield from _started(place)


def join(place: ServedRoot, size: int) -> Iterator[None]:
    """Open a root of lone messages by `spoolrack queues list --root` and a second server."""
    place.put("backlog", size)
    place.start()
    place.wait_until_ready()
    yield
    command = [sys.executable, "-m", "spoolrack_server", "queues", "list", "--root", str(place.root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    other = place.beside((free_port(), port))
    try:
        other.wait_for_port(port)
        while urllib.request.urlopen(f"http://127.0.0.1:{port}/-/health/live").status != 200:
            time.sleep(0.05)
    finally:
        other.end()


def overtaken(place: ServedRoot, size: int) -> Iterator[None]:
    """Let a process that was stopped list a root of lone messages again, of which 8,000 are purged."""
    place.put("backlog", size)
    place.start()
    place.wait_until_ready()
    port = free_port()
    other = place.beside((free_port(), port))
    try:
        other.wait_for_port(port)
        with place.client() as client:
            purged = lone_queue(client, "purged", 8_000)
            client.queue("purged").info()
            for pid in other.pids():
                os.kill(pid, signal.SIGSTOP)
            purged.purge()
            yield
            for pid in other.pids():
                os.kill(pid, signal.SIGCONT)
            # The question waits for the listing.
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/metrics", timeout=300).read()
            time.sleep(3)
    finally:
        other.end()


def delays(place: ServedRoot, size: int) -> Iterator[None]:
    """Sixteen callers send messages that each have a delay of their own."""
    with place.client() as client:
        client.create_queue("delays")
        queue = client.queue("delays")
        messages = [spoolrack.Outgoing(body=b"x", delay=100 + at) for at in range(size // 16)]
        yield
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: queue.send_many(messages), range(16)))


def _make_queues(place: ServedRoot, names: Sequence[str]) -> None:
    """Make queues with a message each."""

    async def make() -> None:
        async with aio.connect(place.url, timeout=300) as client:

            async def one(name: str) -> None:
                await client.create_queue(name)
                await client.queue(name).send(b"x")

            for at in range(0, len(names), 100):
                await asyncio.gather(*map(one, names[at : at + 100]))

    asyncio.run(make())


def _beside(
    place: ServedRoot, each: Callable[[aio.Client, int], Awaitable[None]], count: int
) -> Iterator[None]:
    """Run so many coroutines until the row is over."""
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def run() -> None:
        async with aio.connect(place.url, timeout=120) as client:
            tasks = [asyncio.ensure_future(each(client, number)) for number in range(count)]
            await over.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    time.sleep(3 + count / 200)  # Until all wait.
    yield
    time.sleep(6)
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


async def _stream(queue: aio.Queue) -> None:
    async for message in queue.messages():
        await message.delete()


def streams_of_one(place: ServedRoot, size: int) -> Iterator[None]:
    """Wait on one queue with streams."""
    _make_queues(place, ["streamed"])
    yield from _beside(place, lambda client, number: _stream(client.queue("streamed")), size)


def streams_of_many(place: ServedRoot, size: int) -> Iterator[None]:
    """Wait on as many queues with a stream each."""
    _make_queues(place, [f"streamed-{number}" for number in range(size)])
    yield from _beside(place, lambda client, number: _stream(client.queue(f"streamed-{number}")), size)


def waiting(place: ServedRoot, size: int) -> Iterator[None]:
    """Wait on as many queues with a receive each."""
    _make_queues(place, [f"empty-{number}" for number in range(size)])

    async def receive(client: aio.Client, number: int) -> None:
        queue = client.queue(f"empty-{number}")
        while True:
            for message in await queue.receive(1, wait=20):
                await message.delete()

    yield from _beside(place, receive, size)


def busy(place: ServedRoot, size: int) -> Iterator[None]:
    """Send to many queues in turn: the history remembers each."""
    names = [f"busy-{number}" for number in range(size)]
    _make_queues(place, names)
    with place.client() as client:
        yield
        end, at = time.monotonic() + 12, 0
        while time.monotonic() < end:
            client.queue(names[at % size]).send(b"x")
            at += 1


def deletions(place: ServedRoot, size: int) -> Iterator[None]:
    """Delete queues one by one."""
    names = [f"gone-{number}" for number in range(size)]
    _make_queues(place, names)
    with place.client() as client:
        yield
        for name in names[: max(200, size // 10)]:
            client.delete_queue(name)


ROWS: Final[dict[str, tuple[Callable[[ServedRoot, int], Iterator[None]], int]]] = {
    "nothing": (nothing, 0),
    "deaths": (deaths, 20_000),
    "killed": (killed_deaths, 20_000),
    "join": (join, 450_000),
    "start": (start, 450_000),
    "start_queues": (start_queues, 2_000),
    "overtaken": (overtaken, 450_000),
    "asking": (asking, 450_000),
    "purge": (purge, 100_000),
    "retention": (retention, 100_000),
    "expiry": (expiry, 50_000),
    "delays": (delays, 16_000),
    "waiting": (waiting, 4_000),
    "streams": (streams_of_one, 1_000),
    "many_streams": (streams_of_many, 1_000),
    "busy": (busy, 2_000),
    "deletions": (deletions, 2_000),
}
"""With the first size of each."""


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
        try:
            with urllib.request.urlopen(f"{http}{path}", timeout=300) as response:
                content: bytes = response.read()
                return content
        except urllib.error.HTTPError as error:
            return error.read()  # Health of a server that starts.

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
def probing(place: ServedRoot, row: StallRow) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.stalls", "--probe", place.url, place.http]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as prober:
        assert prober.stdout is not None
        assert prober.stdout.readline() == "ready\n"
        began = time.monotonic()
        yield
        row.seconds = time.monotonic() - began if place.took is None else place.took
        said, _ = prober.communicate("over\n")
        row.waits = json.loads(said)


def measure(place: ServedRoot, name: str, size: int) -> StallRow:
    row = StallRow(name, size, 0.0)
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
    parser.add_argument("--times", type=float, default=1, help="how large, in their own sizes")
    parser.add_argument("--within", type=Path, default=Path("/tmp"), help="where the image is made")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    parser.add_argument("--page", type=Path, help="put the table into this page")
    options = parser.parse_args(arguments)
    if options.probe:
        probe(*options.probe)
        return
    rows: list[StallRow] = []
    print("median, 99th percentile and longest wait in ms, beside: the row, its size, its seconds")
    with own_disk(options.within, DISK_BYTES, making=_MAKING) as work:
        for name in options.rows.split(","):
            folder = work.folder / name
            folder.mkdir()
            place = ServedRoot(folder)
            try:
                with place.client() as client:
                    client.create_queue("probe-sends")
                    client.create_queue("probe-lives")
                rows.append(measure(place, name, int(ROWS[name][1] * options.times)))
                print(rows[-1].line(), flush=True)
            finally:
                place.stop()
                shutil.rmtree(folder)
    if options.json is not None:
        options.json.write_text(json.dumps([row.__dict__ for row in rows], indent=1) + "\n")
    if options.page is not None:
        write_between(BEGIN, END, table(rows, work.described), options.page)


def table(rows: Sequence[StallRow], place: str) -> str:
    """Return the part of the page between the marks."""
    return "\n".join(
        [
            BEGIN,
            "",
            f"Measured {datetime.now(UTC):%Y-%m-%d}. Disk: {place}. Each cell has waits in "
            "milliseconds: median / 99th percentile / longest. While the row's work runs, for `s` "
            "seconds, probes make 20 sends and 20 lives a second, 10 calls each of health and "
            "GetQueue, and 2 of the metrics.",
            "",
            "| work beside it | size | s | send | life | health | GetQueue | metrics |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
            *(row.markdown() for row in rows),
            "",
            END,
            "",
        ]
    )


if __name__ == "__main__":
    main()
