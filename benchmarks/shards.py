"""What shards and a proxy cost in processor time: one server and three shards, each with and without
HAProxy before it, with the same load, in turns.

    python -m benchmarks.shards --page docs/how-to/shards.md

Clients and servers share one machine, so three servers gain no rate here: what is compared is the
processor time that servers and proxy take for a message. The client's is not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import spoolrack
from spoolrack._shards import shard_of

from .marked_parts import write_between
from .server_processes import Server, find, free_port, processor_seconds, serve
from .work_folder import own_disk

BEGIN: Final = "<!-- processor time: made by benchmarks/shards.py -->"
END: Final = "<!-- end of the processor time -->"
SHARDS: Final = 3
BODY: Final = b"x" * 1_000
QUEUES: Final = tuple(f"jobs-{number}" for number in range(9))
"""Of all shards, several each."""
assert {shard_of(queue, SHARDS) for queue in QUEUES} == set(range(SHARDS))
PATIENCE: Final = 120.0
PROXIES: Final = Path(__file__).resolve().parents[1] / "deploy" / "proxies"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One load on some servers."""

    servers: float
    proxy: float
    """Processor time for a message, in µs."""

    @property
    def both(self) -> float:
        return self.servers + self.proxy


def start_proxy(addresses: list[str], folder: Path) -> tuple[Server, str]:
    """Start HAProxy, as deploy/proxies configures it, before the servers; return its address."""
    program = find("haproxy")
    if program is None:
        raise SystemExit("needs haproxy: make system-tools installs it")
    at = f"127.0.0.1:{free_port()}"

    def local(found: re.Match[str]) -> str:
        host, port = found[1], found[2]
        if host == "0.0.0.0":
            return at if port in ("50050", "50051") else f"127.0.0.1:{free_port()}"
        return addresses[int(host.removeprefix("shard") if "shard" in host else 0)]

    text = (PROXIES / ("haproxy.cfg" if len(addresses) == 1 else "shards/haproxy.cfg")).read_text()
    text = re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1|shard\d):(\d+)", local, text)
    (folder / "haproxy.cfg").write_text(text)
    proxy = Server([program, "-db", "-f", str(folder / "haproxy.cfg")], folder / "haproxy.log")
    proxy.wait_for_port(int(at.rpartition(":")[2]))
    return proxy, at


def measure(title: str, count: int, folder: Path, *, is_proxied: bool) -> Measured:
    """Return the cost of a load on `count` servers."""
    work, callers, messages = LOADS[title]
    with ExitStack() as stack:
        servers, addresses = [], []
        for number in range(count):
            root = tempfile.mkdtemp(dir=folder)
            # The disk would be full after some rounds, and sends refused.
            stack.callback(shutil.rmtree, root)
            shard = ("--shard", f"{number}/{count}") if count > 1 else ()
            server = serve(Path(root, "root"), Path(root, "log"), *shard)
            stack.callback(server.end)
            servers.append(server)
            addresses.append(server.wait_for_line("  gRPC  ").split()[0])
        url, proxies = ",".join(addresses), list[Server]()
        if is_proxied:
            proxy, url = start_proxy(addresses, Path(tempfile.mkdtemp(dir=folder)))
            stack.callback(proxy.end)
            proxies.append(proxy)
        routing: Literal["header"] | None = "header" if is_proxied and count > 1 else None
        client = stack.enter_context(spoolrack.connect(url, timeout=PATIENCE, routing=routing))
        queues = [client.queue(client.create_queue(name).name) for name in QUEUES]
        pool = stack.enter_context(ThreadPoolExecutor(callers))

        def spent(processes: list[Server]) -> float:
            return sum(processor_seconds(each.pids()) for each in processes)

        [*pool.map(lambda queue: work(queue, 100), queues)]  # All is loaded and connected.
        before = spent(servers), spent(proxies)
        [*pool.map(lambda at: work(queues[at % len(queues)], messages), range(callers))]
        total = callers * messages
        return Measured(
            servers=(spent(servers) - before[0]) / total * 1e6,
            proxy=(spent(proxies) - before[1]) / total * 1e6,
        )


WORLDS: Final = ((1, False), (1, True), (SHARDS, False), (SHARDS, True))
"""The number of servers, and whether HAProxy is before them."""


def text_of(found: dict[str, list[tuple[Measured, ...]]]) -> str:
    columns = (
        "one server, µs a message",
        "behind HAProxy",
        "three shards",
        "times one server",
        "behind HAProxy",
    )
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for title, rounds in found.items():
        one, one_behind, three, three_behind = zip(*rounds, strict=True)
        times = median(more.both / less.both for less, more in zip(one, three, strict=True))
        cells = (
            f"{median(each.both for each in one):,.0f}",
            _behind(one, one_behind),
            f"{median(each.both for each in three):,.0f}",
            f"{times:.2f}",
            _behind(three, three_behind),
        )
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _behind(direct: tuple[Measured, ...], proxied: tuple[Measured, ...]) -> str:
    """Return the part of the servers and of the proxy, and what both are of the direct cost."""
    times = median(more.both / less.both for less, more in zip(direct, proxied, strict=True))
    servers, proxy = median(each.servers for each in proxied), median(each.proxy for each in proxied)
    return f"{servers:,.0f} + {proxy:,.0f} ({times - 1:+.0%})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", type=Path)
    options: Any = parser.parse_args()
    found: dict[str, list[tuple[Measured, ...]]] = {}
    with own_disk(Path(tempfile.gettempdir()), 1 << 30) as work:
        for _ in range(options.rounds):
            for title in LOADS:
                row = tuple(
                    measure(title, count, work.folder, is_proxied=is_proxied)
                    for count, is_proxied in WORLDS
                )
                found.setdefault(title, []).append(row)
                print(title, *(f"{each.servers:.0f}+{each.proxy:.0f}" for each in row), flush=True)
    told = f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, medians of {options.rounds} rounds"
    text = f"Measured {told}; the disk is {work.described}.\n\n{text_of(found)}"
    print(text)
    if options.page:
        write_between(BEGIN, END, f"{BEGIN}\n\n{text}\n\n{END}", options.page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
