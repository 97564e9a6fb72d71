"""What shards cost in processor time: one server and three shards with the same load, in turns.

    python -m benchmarks.shards --page docs/how-to/shards.md

Clients and servers share one machine, so three servers gain no rate here: what is compared is the
processor time that the servers take for a message. The client's is not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import spoolrack
from spoolrack._shards import shard_of

from .marked_parts import put_between
from .page_figures import short
from .server_processes import Server, free_port, processor_seconds
from .work_folder import own_disk

BEGIN: Final = "<!-- processor time: made by benchmarks/shards.py -->"
END: Final = "<!-- end of the processor time -->"
SHARDS: Final = 3
BODY: Final = b"x" * 1_000
QUEUES: Final = tuple(f"jobs-{number}" for number in range(9))
"""Of all shards, several each."""
assert {shard_of(queue, SHARDS) for queue in QUEUES} == set(range(SHARDS))
PATIENCE: Final = 120.0


def _send(queue: spoolrack.Queue, count: int) -> None:
    for _ in range(count):
        queue.send(BODY)


def _live(queue: spoolrack.Queue, count: int) -> None:
    for _ in range(count):
        queue.send(BODY)
        for message in queue.receive(1, wait=10.0):
            message.delete()


def _live_in_hundreds(queue: spoolrack.Queue, count: int) -> None:
    for _ in range(count // 100):
        queue.send_many([BODY] * 100)
        left = 100
        while left:
            messages = queue.receive(left, wait=10.0)
            queue.delete_many(messages)
            left -= len(messages)


LOADS: Final[dict[str, tuple[Callable[[spoolrack.Queue, int], None], int, int]]] = {
    "sends of one message, 9 callers": (_send, 9, 400),
    "sends of one message, 63 callers": (_send, 63, 120),
    "sent, received, deleted one by one, 63 callers": (_live, 63, 40),
    "the same in hundreds, 9 callers": (_live_in_hundreds, 9, 2_000),
}
"""By title: the work of a caller, how many there are, and the messages of each."""


def measure(title: str, count: int, folder: Path) -> tuple[float, float]:
    """Return the messages a second of `count` servers, and their processor time of one in µs."""
    work, callers, messages = LOADS[title]
    with ExitStack() as stack:
        servers, addresses = [], []
        for number in range(count):
            address = f"127.0.0.1:{free_port()}"
            root = tempfile.mkdtemp(dir=folder)
            shard = ("--shard", f"{number}/{count}") if count > 1 else ()
            at = ("--data", f"{root}/root", "--grpc", address, "--http", "off")
            program = (sys.executable, "-m", "spoolrack_server", "serve")
            server = Server([*program, *at, *shard], Path(root, "log"))
            stack.callback(server.end)
            server.wait_for_port(int(address.rpartition(":")[2]))
            servers.append(server)
            addresses.append(address)
        client = stack.enter_context(spoolrack.connect(",".join(addresses), timeout=PATIENCE))
        queues = [client.queue(client.create_queue(name).name) for name in QUEUES]
        pool = stack.enter_context(ThreadPoolExecutor(callers))

        def spent() -> float:
            return sum(processor_seconds(server.pids()) for server in servers)

        [*pool.map(lambda queue: work(queue, 100), queues)]  # All is loaded and connected.
        before, began = spent(), time.monotonic()
        [*pool.map(lambda at: work(queues[at % len(queues)], messages), range(callers))]
        seconds, total = time.monotonic() - began, callers * messages
        return total / seconds, (spent() - before) / total * 1e6


def text_of(found: dict[str, list[tuple[float, float, float, float]]]) -> str:
    lines = [
        "| | one server, µs a message | three shards | times | one server, messages/s | three shards |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for title, rounds in found.items():
        rate_of_one, one, rate_of_three, three = (median(each) for each in zip(*rounds, strict=True))
        times = median(more / less for _, less, _, more in rounds)
        cells = (
            f"{one:,.0f}",
            f"{three:,.0f}",
            f"{times:.2f}",
            short(rate_of_one),
            short(rate_of_three),
        )
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", type=Path)
    options: Any = parser.parse_args()
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    with own_disk(Path(tempfile.gettempdir()), 1 << 30) as work:
        for _ in range(options.rounds):
            for title in LOADS:
                row = (*measure(title, 1, work.folder), *measure(title, SHARDS, work.folder))
                found.setdefault(title, []).append(row)
                print(title, *(f"{each:.0f}" for each in row), flush=True)
    told = f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, medians of {options.rounds} rounds"
    text = f"Measured {told}; the disk is {work.described}.\n\n{text_of(found)}"
    print(text)
    if options.page:
        page = options.page.read_text()
        options.page.write_text(put_between(BEGIN, END, f"{BEGIN}\n\n{text}\n\n{END}", page))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
