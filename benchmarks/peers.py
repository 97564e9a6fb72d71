"""What do several servers on one root cost, and gain?

    python benchmarks/peers.py FOLDER [--messages 4000] [--only drain|unary]

works in a folder of its own in FOLDER, which it removes again. FOLDER should be on a file system with a
journal. Two tables:

drain   1, 2 and 4 servers: a full queue is received, ten at a time, and deleted by eight consumers that
        share the servers. Messages a second.
unary   `spoolrack serve --processes` 1 and 4: unary calls a second, one that only reads and one that
        is a durable send, from h2load (apt install nghttp2-client), which costs less than Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import spoolrack
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log

QUEUE: Final = "load"
CONSUMERS: Final = 8
SENDERS: Final = 16
AT_ONCE: Final = 10
CALLS: Final = 10_000


class Process:
    """This program in another role; it says one thing, and one more when it shall end."""

    def __init__(self, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> str:
        """Return its last words."""
        out, _ = self._process.communicate()
        return out.strip()


# The roles.


async def serve(root: str) -> None:
    log = make_log(level=logging.ERROR)
    async with Server(ServeSettings(root=root, http=None), log=log) as server:
        print(server.grpc_address, flush=True)
        await asyncio.to_thread(sys.stdin.readline)


def consume(url: str) -> None:
    received, last = 0, 0.0
    with spoolrack.connect(url) as client:
        queue = client.queue(QUEUE)
        print("ready", flush=True)
        sys.stdin.readline()
        while messages := queue.receive(AT_ONCE, wait=1):
            queue.delete_many([message.receipt for message in messages])
            received += len(messages)
            last = time.time()
        print(json.dumps([received, last]), flush=True)


# The tables.


def drain(folder: Path, servers: int, count: int) -> float:
    """Return messages a second."""
    root = folder / f"drain-{servers}"
    serving = [Process("serve", root)]
    addresses = [serving[0].says()]
    with spoolrack.connect(addresses[0]) as client:
        client.create_queue(QUEUE, visibility_timeout=600)
        queue = client.queue(QUEUE)
        with ThreadPoolExecutor(SENDERS) as pool:
            list(pool.map(lambda n: queue.send(b"%d" % n), range(count)))
    serving += [Process("serve", root) for _ in range(servers - 1)]
    addresses += [server.says() for server in serving[1:]]
    consumers = [Process("consume", addresses[n % servers]) for n in range(CONSUMERS)]
    for consumer in consumers:
        assert consumer.says() == "ready"
    began = time.time()
    for consumer in consumers:
        consumer.go()
    results = [json.loads(consumer.end()) for consumer in consumers]
    for server in serving:
        server.go()
    for server in serving:
        server.end()
    assert sum(received for received, _ in results) == count, "lost, or delivered twice"
    ended: float = max(last for _, last in results)
    return count / (ended - began)


def unary(folder: Path, processes: int) -> dict[str, float]:
    """Calls a second, by method."""
    requests = {
        "GetQueue": rpc.GetQueueRequest(name=QUEUE),
        "Send": rpc.SendRequest(queue=QUEUE, messages=[pb.OutgoingMessage(body=bytes(100))]),
    }
    found = {}
    with served(folder / f"unary-{processes}", processes) as address:
        with spoolrack.connect(address) as client:
            client.create_queue(QUEUE)
        for method, request in requests.items():
            body = folder / method
            content = request.SerializeToString()
            body.write_bytes(b"\0" + struct.pack(">I", len(content)) + content)
            found[method] = h2load(f"http://{address}/spoolrack.v1.QueueService/{method}", body)
    return found


def h2load(url: str, body: Path) -> float:
    done = subprocess.run(
        [
            *("h2load", "-n", str(CALLS), "-c", "32", "-m", "4", "-d", str(body)),
            *("-H", "content-type: application/grpc", "-H", "te: trailers", url),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.search(r"finished in .*?, ([\d.]+) req/s", done.stdout)
    assert match is not None, done.stdout
    assert f"{CALLS} succeeded" in done.stdout, done.stdout
    return float(match[1])


@contextmanager
def served(root: Path, processes: int) -> Iterator[str]:
    at = ("--grpc", "127.0.0.1:0", "--http", "off", "--processes", str(processes))
    server = subprocess.Popen(
        [sys.executable, "-m", "spoolrack_server", "serve", "--data", str(root), *at],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if line.startswith("  gRPC  "):
                yield line.split()[1]
                break
    finally:
        server.terminate()
        server.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=4_000)
    parser.add_argument("--only", choices=("drain", "unary"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="peers-", dir=options.folder))
    try:
        if options.only != "unary":
            print("servers | messages/s")
            for servers in (1, 2, 4):
                rate = drain(folder, servers, options.messages)
                print(f"{servers:7} | {rate:,.0f}", flush=True)
        if options.only != "drain" and shutil.which("h2load") is None:
            print("no table of unary calls: apt install nghttp2-client")
        elif options.only != "drain":
            print("processes | GetQueue/s | Send/s")
            for processes in (1, 4):
                found = unary(folder, processes)
                print(f"{processes:9} | {found['GetQueue']:10,.0f} | {found['Send']:,.0f}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(sys.argv[2]))
    elif sys.argv[1:2] == ["consume"]:
        consume(sys.argv[2])
    else:
        main()
