"""Sends in batches of ten: Spoolrack over gRPC, over SQS, and moto's server, which keeps all in memory.

    python -m benchmarks.sqs [--rounds 5] [--seconds 2] [--folder DIR]

One Spoolrack server serves both protocols. Four client processes of two threads send to each in turn,
round by round, so that what disturbs the machine disturbs all alike; the figure is the median, and the
ratio is that of one run. Two clients speak SQS: boto3, and a plain one, which signs each request and
sends it over a connection that it keeps. boto3 spends more processor time on a batch than the server:
on a small machine its rate says little of the server, and the plain client's says more. moto is left
out where it isn't installed.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import importlib.util
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import spoolrack
from botocore.config import Config

from . import server_processes

GRPC, PLAIN, SQS = "Spoolrack, gRPC", "Spoolrack, SQS, plain client", "Spoolrack, SQS, boto3"
MOTO = "moto, SQS, boto3"
REGION: Final = "us-east-1"
PROCESSES: Final = 4
THREADS: Final = 2
BATCH: Final = 10
BODY: Final = "x" * 1_000
GO: Final = "go\n"


def client_of(url: str) -> Any:
    """Return boto3's client of SQS."""
    session = boto3.session.Session("any", "any", region_name=REGION)
    return session.client("sqs", endpoint_url=url, config=Config(max_pool_connections=THREADS))


class PlainClient:
    """Signed requests of AWS JSON 1.0, on one connection. For one thread."""

    def __init__(self, url: str, key: str = "any", secret: str = "any") -> None:
        self._access_key = key
        self._secret = secret
        self._host = url.removeprefix("http://")
        host, _, port = self._host.rpartition(":")
        self._connection = socket.create_connection((host, int(port)))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._date = ""
        self._key = b""

    def close(self) -> None:
        self._connection.close()

    def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the response; raise `SystemExit` on an error."""
        body = json.dumps(parameters).encode()
        target = f"AmazonSQS.{operation}"
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._connection.sendall(
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\nX-Amz-Target: {target}\r\nX-Amz-Date: {now}\r\n"
            f"Authorization: {self._authorization(target, now, body)}\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head, _, rest = self._read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(rest) < length:
            rest += self._read()
        if b" 200 " not in head[:13]:
            raise SystemExit(f"{operation} was refused: {rest.decode()}")
        answer: dict[str, Any] = json.loads(rest)
        return answer

    def _authorization(self, target: str, now: str, body: bytes) -> str:
        """Return the signature of a request by version 4; the key is derived once a day."""
        date, names = now[:8], "host;x-amz-date;x-amz-target"
        if date != self._date:
            self._date, self._key = date, f"AWS4{self._secret}".encode()
            for part in (date, REGION, "sqs", "aws4_request"):
                self._key = hmac.digest(self._key, part.encode(), "sha256")
        canonical = (
            f"POST\n/\n\nhost:{self._host}\nx-amz-date:{now}\nx-amz-target:{target}\n\n{names}\n"
            f"{hashlib.sha256(body).hexdigest()}"
        )
        scope = f"{date}/{REGION}/sqs/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        signature = hmac.digest(
            self._key, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}".encode(), "sha256"
        )
        return (
            f"AWS4-HMAC-SHA256 Credential={self._access_key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature.hex()}"
        )

    def _read_until(self, mark: bytes) -> bytes:
        got = b""
        while mark not in got:
            got += self._read()
        return got

    def _read(self) -> bytes:
        part = self._connection.recv(65_536)
        if not part:
            raise SystemExit("the server closed the connection")
        return part


@contextmanager
def senders(protocol: str, address: str, name: str, count: int) -> Iterator[list[Callable[[], None]]]:
    """Yield a call for each of so many threads. It sends a batch, and raises unless all was accepted.

    The threads share a client of gRPC, and one of boto3. A plain client is for one thread.
    """
    entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]
    with ExitStack() as stack:
        if protocol == "grpc":
            client = stack.enter_context(spoolrack.connect(address))
            queue = client.queue(name)
            queue.info()
            yield [partial(send_by_grpc, queue)] * count
        elif protocol == "plain":
            sends: list[Callable[[], None]] = []
            for _ in range(count):
                plain = stack.enter_context(closing(PlainClient(address)))
                url = plain.call("GetQueueUrl", {"QueueName": name})["QueueUrl"]
                batch = {"QueueUrl": url, "Entries": entries}
                sends.append(partial(send_by_sqs, partial(plain.call, "SendMessageBatch", batch)))
            yield sends
        else:
            sqs = stack.enter_context(closing(client_of(address)))
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
            call = partial(sqs.send_message_batch, QueueUrl=url, Entries=entries)
            yield [partial(send_by_sqs, call)] * count


def send_by_grpc(queue: spoolrack.Queue) -> None:
    for result in queue.send_many([BODY] * BATCH):
        if result.error is not None:
            raise result.error


def send_by_sqs(call: Callable[[], dict[str, Any]]) -> None:
    answer = call()
    if len(answer["Successful"]) != BATCH:
        raise SystemExit(f"not all were accepted: {answer}")


def client(protocol: str, address: str, queue: str, seconds: float) -> None:
    """Send for so long, once a line has come; print the messages a second, and the processor time
    that each took, in seconds."""
    counts = [0] * THREADS
    with senders(protocol, address, queue, THREADS) as sends:
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + seconds

        def work(number: int) -> None:
            while time.monotonic() < end:
                sends[number]()
                counts[number] += BATCH

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        began, spent = time.monotonic(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = sum(counts) / (time.monotonic() - began)
        print(json.dumps([rate, (time.process_time() - spent) / sum(counts)]), flush=True)


def measure(protocol: str, address: str, queue: str, seconds: float) -> tuple[float, float]:
    """Return messages a second of all clients in one round, and the clients' processor time for one."""
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
    rates: list[tuple[float, float]] = []
    for each in clients:
        assert each.stdin is not None
        each.stdin.write(GO)
        each.stdin.flush()
    for each in clients:
        out, _ = each.communicate(timeout=server_processes.PATIENCE)
        if each.returncode:
            raise SystemExit("a client failed")
        rates.append(json.loads(out))
    rate = sum(each for each, _ in rates)
    return rate, sum(each * seconds for each, seconds in rates) / rate


def start_spoolrack(folder: Path, *options: str) -> tuple[server_processes.Server, str, str]:
    """Return the server, and its addresses of gRPC and of SQS."""
    at = (folder / "root", folder / "spoolrack.log")
    server = server_processes.serve(*at, "--sqs", "127.0.0.1:0", *options)
    grpc = server.wait_for_line("  gRPC  ").split()[0]
    return server, grpc, server.wait_for_line("  SQS   ").split()[0]


def start_moto(folder: Path) -> tuple[server_processes.Server, str]:
    port = server_processes.free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = server_processes.Server(command, folder / "moto.log")
    server.wait_for_port(port)
    return server, f"http://127.0.0.1:{port}"


@dataclass
class SqsSystem:
    """A server as it is spoken to, with what was measured."""

    protocol: str
    address: str
    server: server_processes.Server
    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    clients: list[float] = field(default_factory=list)

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
        """Processor time of a client for a message, the median of all rounds."""
        return statistics.median(self.clients)

    def round(self, seconds: float) -> None:
        """Measure one round on a queue of its own."""
        queue = f"bench-{len(self.rates)}-{self.protocol}"
        before = server_processes.processor_seconds(self.server.pids())
        with self._made(queue):
            rate, client = measure(self.protocol, self.address, queue, seconds)
        self.rates.append(rate)
        self.clients.append(client * 1e6)
        spent = server_processes.processor_seconds(self.server.pids()) - before
        self.processor.append(spent / (rate * seconds) * 1e6)

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


def compare(folder: Path, rounds: int, seconds: float) -> dict[str, SqsSystem]:
    """Measure each system in turn, so many rounds."""
    servers: list[server_processes.Server] = []
    try:
        server, grpc, sqs = start_spoolrack(folder)
        servers.append(server)
        systems = {
            GRPC: SqsSystem("grpc", grpc, server),
            PLAIN: SqsSystem("plain", sqs, server),
            SQS: SqsSystem("sqs", sqs, server),
        }
        if importlib.util.find_spec("moto") is None:
            print("without moto: the Python package moto is not installed", flush=True)
        else:
            server, moto = start_moto(folder)
            servers.append(server)
            systems[MOTO] = SqsSystem("sqs", moto, server)
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
    parser.add_argument("--client", choices=("grpc", "plain", "sqs"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--queue", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        client(options.client, options.address, options.queue, options.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="sqs-", dir=options.folder) as folder:
        found = compare(Path(folder), options.rounds, options.seconds)
    for name, system in found.items():
        share = system.rate / found[GRPC].rate
        print(f"{name}: {system.rate:.0f} messages a second, {share:.2f} of gRPC's; ", end="")
        print(f"{system.microseconds:.0f} microseconds of the server's processor a message, ", end="")
        print(f"{system.client_microseconds:.0f} of the client's")


if __name__ == "__main__":
    main()
