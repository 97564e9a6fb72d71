"""Sends in batches of ten: Spoolrack over gRPC, over SQS, and moto's server, which keeps all in memory.

    python -m benchmarks.sqs [--rounds 5] [--seconds 2] [--folder DIR]

One Spoolrack server serves both protocols. Four client processes of two threads send to each in turn,
round by round, so that what disturbs the machine disturbs all alike; the figure is the median, and the
ratio is that of one run. SQS is spoken by boto3, which needs far more of the processor for a call than
the server does, and by a client that only writes the same request and reads the response. moto is left
out where it isn't installed.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
import spoolrack
from botocore.config import Config

from . import running

GRPC, SQS, LEAN = "Spoolrack, gRPC", "Spoolrack, SQS by boto3", "Spoolrack, SQS by a lean client"
MOTO: Final = "moto, SQS by boto3"
PROCESSES: Final = 4
THREADS: Final = 2
BATCH: Final = 10
BODY: Final = "x" * 1_000
GO: Final = "go\n"


def client_of(url: str) -> Any:
    """Return boto3's client of SQS."""
    session = boto3.session.Session("any", "any", region_name="us-east-1")
    return session.client("sqs", endpoint_url=url, config=Config(max_pool_connections=THREADS))


def sender(protocol: str, address: str, name: str) -> Callable[[], None]:
    """Return what sends one batch, and raises unless all of it was accepted."""
    if protocol == "grpc":
        queue = spoolrack.connect(address).queue(name)
        queue.info()

        def send() -> None:
            for result in queue.send_many([BODY] * BATCH):
                if result.error is not None:
                    raise result.error

        return send
    sqs = client_of(address)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    if protocol == "lean":
        return lean_sender(address, url)
    entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]

    def send_over_sqs() -> None:
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if len(answer["Successful"]) != BATCH:
            raise SystemExit(f"not all were accepted: {answer}")

    return send_over_sqs


def lean_sender(address: str, url: str) -> Callable[[], None]:
    """Return what sends one batch over a connection of its thread, as botocore does, unsigned."""
    entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]
    body = json.dumps({"QueueUrl": url, "Entries": entries}).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessageBatch",
    }
    kept = threading.local()

    def send() -> None:
        if not hasattr(kept, "connection"):
            kept.connection = http.client.HTTPConnection(urlsplit(address).netloc)
        kept.connection.request("POST", "/", body, headers)
        response = kept.connection.getresponse()
        answer = json.loads(response.read())
        if len(answer.get("Successful", ())) != BATCH:
            raise SystemExit(f"not all were accepted: {answer}")

    return send


def client(protocol: str, address: str, queue: str, seconds: float) -> None:
    """Send for so long, once a line has come; print how many messages a second that were, and seconds
    of the processor for each."""
    send = sender(protocol, address, queue)
    print("ready", flush=True)
    sys.stdin.readline()
    counts = [0] * THREADS
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < end:
            send()
            counts[number] += BATCH

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    began, before = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent, sent = time.process_time() - before, sum(counts)
    print(json.dumps((sent / (time.monotonic() - began), spent / sent)), flush=True)


def measure(protocol: str, address: str, queue: str, seconds: float) -> tuple[float, float]:
    """Return messages a second of all clients in one round, and the clients' seconds of the processor
    for each."""
    command = [sys.executable, "-m", "benchmarks.sqs", "--client", protocol, "--address", address]
    clients = [
        subprocess.Popen(
            [*command, "--queue", queue, "--seconds", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for each in clients:
        assert each.stdout is not None
        if not each.stdout.readline():
            raise SystemExit("a client could not connect")
    found: list[tuple[float, float]] = []
    for each in clients:
        assert each.stdin is not None
        each.stdin.write(GO)
        each.stdin.flush()
    for each in clients:
        out, _ = each.communicate(timeout=running.PATIENCE)
        if each.returncode:
            raise SystemExit("a client failed")
        found.append(json.loads(out))
    rate = sum(rate for rate, _ in found)
    return rate, sum(rate * spent for rate, spent in found) / rate


def start_spoolrack(folder: Path) -> tuple[running.Server, str, str]:
    """Return the server, and its addresses of gRPC and of SQS."""
    server = running.Server(
        [
            *(sys.executable, "-m", "spoolrack_server", "serve", "--data", str(folder / "root")),
            *("--grpc", "127.0.0.1:0", "--http", "off", "--sqs", "127.0.0.1:0"),
        ],
        folder / "spoolrack.log",
    )
    grpc = server.wait_for_line("  gRPC  ").split()[0]
    return server, grpc, server.wait_for_line("  SQS   ").split()[0]


def start_moto(folder: Path) -> tuple[running.Server, str]:
    port = running.free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = running.Server(command, folder / "moto.log")
    server.wait_for_port(port)
    return server, f"http://127.0.0.1:{port}"


@dataclass
class System:
    """A server as it is spoken to, with what was measured."""

    protocol: str
    address: str
    server: running.Server
    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    client_processor: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages a second, the median of all rounds."""
        return statistics.median(self.rates)

    @property
    def microseconds(self) -> float:
        """Processor time of the server for a message, the median of all rounds."""
        return statistics.median(self.processor)

    @property
    def client_microseconds(self) -> float:
        """The same of the clients."""
        return statistics.median(self.client_processor)

    def round(self, seconds: float) -> None:
        """Measure one round on a queue of its own."""
        queue = f"bench-{len(self.rates)}-{self.protocol}"
        before = running.processor_seconds(self.server.pids())
        with self._made(queue):
            rate, spent_by_clients = measure(self.protocol, self.address, queue, seconds)
        self.rates.append(rate)
        self.client_processor.append(spent_by_clients * 1e6)
        spent = running.processor_seconds(self.server.pids()) - before
        self.processor.append(spent / (self.rates[-1] * seconds) * 1e6)

    @contextmanager
    def _made(self, queue: str) -> Iterator[None]:
        if self.protocol == "grpc":
            with spoolrack.connect(self.address) as client:
                client.create_queue(queue)
                yield
                client.delete_queue(queue)
        else:
            sqs = client_of(self.address)
            url = sqs.create_queue(QueueName=queue)["QueueUrl"]
            yield
            sqs.delete_queue(QueueUrl=url)


def compare(folder: Path, rounds: int, seconds: float) -> dict[str, System]:
    """Measure each system in turn, so many rounds."""
    servers: list[running.Server] = []
    try:
        server, grpc, sqs = start_spoolrack(folder)
        servers.append(server)
        systems = {
            GRPC: System("grpc", grpc, server),
            SQS: System("sqs", sqs, server),
            LEAN: System("lean", sqs, server),
        }
        if importlib.util.find_spec("moto") is None:
            print("without moto: the Python package moto is not installed", flush=True)
        else:
            server, moto = start_moto(folder)
            servers.append(server)
            systems[MOTO] = System("sqs", moto, server)
        for _ in range(rounds):
            for system in systems.values():
                system.round(seconds)
        return systems
    finally:
        for server in servers:
            server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each system in a round")
    parser.add_argument("--folder", type=Path, help="where a root is made, and removed")
    parser.add_argument("--client", choices=("grpc", "sqs", "lean"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--queue", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        client(asked.client, asked.address, asked.queue, asked.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="sqs-", dir=asked.folder) as folder:
        found = compare(Path(folder), asked.rounds, asked.seconds)
    for name, system in found.items():
        share = system.rate / found[GRPC].rate
        print(f"{name}: {system.rate:.0f} messages a second, {share:.2f} of gRPC's; ", end="")
        print(
            f"microseconds of the processor a message: server {system.microseconds:.0f}, clients "
            f"{system.client_microseconds:.0f}"
        )


if __name__ == "__main__":
    main()
