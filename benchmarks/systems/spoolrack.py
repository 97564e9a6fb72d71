"""Spoolrack, over gRPC, with its public client: one server process, or several on one root.

Several have a port each, and the client processes are dealt out to them in turn. Behind one port the
kernel deals out connections by chance: four clients mostly come to two or three of four servers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

import spoolrack

from .. import server_processes
from .base import (
    SLOW,
    SLOW_NOTE,
    SLOWING,
    WAIT,
    Broken,
    Driver,
    Received,
    System,
    SystemFacts,
)

_IMPORTS = "import " + ", ".join(
    f"spoolrack_server.{module}"
    for module in ("cli.program", "cli.operators.serve_command", "process.server")
)
"""All that `spoolrack serve` imports, also what it imports late."""
_SETTLED = 60.0
"""Seconds that the reaper may take for what a round leaves."""


class SpoolrackDriver(Driver):
    is_shared = True

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._client = spoolrack.connect(address, timeout=60)
        self._queue = self._client.queue(queue)
        self._client.queue(queue).info()  # Connect; report a missing server.
        self._making = threading.Lock()
        self._stream: spoolrack.MessageStream | None = None

    def send(self, body: bytes) -> None:
        self._queue.send(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        for result in self._queue.send_many(bodies):
            if result.error is not None:
                raise result.error

    def receive(self, count: int) -> list[Received]:
        if count == 1:
            messages = self._queue.receive(1, wait=WAIT)  # A stream would lease more than that.
        else:
            messages = self._messages().receive(count, wait=WAIT)
        return [Received(each.body, each) for each in messages]

    def delete(self, messages: Sequence[Received]) -> None:
        given = [cast(spoolrack.Message, message.handle) for message in messages]
        if len(given) == 1:
            given[0].delete()
            return
        for result in self._queue.delete_many(given):
            if result.error is not None:
                raise result.error

    def stream(self) -> Iterator[Received | None]:
        for message in self._messages():
            yield Received(message.body, message)

    def _messages(self) -> spoolrack.MessageStream:
        """Return all threads share a stream, so that what comes together is one frame."""
        with self._making:
            if self._stream is None:
                self._stream = self._queue.messages()
            return self._stream

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def close(self) -> None:
        self._client.close()


class Spoolrack(System):
    """One server process."""

    name = "spoolrack"
    processes = 1
    driver = SpoolrackDriver
    facts = SystemFacts(
        title="Spoolrack",
        configuration="spoolrack serve; lease_durability strict (the default)",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._addresses: list[str] = []
        self._servers: list[server_processes.Server] = []

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def start(self) -> None:
        super().start()
        self._servers = [self._start(number) for number in range(self.processes)]
        self._addresses = [server.wait_for_line("  gRPC  ").split()[0] for server in self._servers]
        self.address, self.server = self._addresses[0], self._servers[0]

    def _start(self, number: int) -> server_processes.Server:
        log = self.folder / f"log-{number}"
        log.unlink(missing_ok=True)
        return server_processes.serve(self.root, log, prefix=self.prefix)

    def address_of(self, client: int) -> str:
        return self._addresses[client % self.processes]

    def pids(self) -> list[int]:
        return [pid for server in self._servers for pid in server.pids()]

    def kill(self) -> None:
        for server in self._servers:
            server.kill()

    def stop(self) -> None:
        for server in self._servers:
            server.end()
        self._servers.clear()
        super().stop()

    def is_alive(self) -> bool:
        return all(server.is_alive() for server in self._servers)

    def version(self) -> str:
        return version("spoolrack")

    def create_queue(self, queue: str) -> None:
        with spoolrack.connect(self.address) as client:
            client.create_queue(queue, visibility_timeout=600)

    def delete_queue(self, queue: str) -> None:
        with spoolrack.connect(self.address, timeout=120) as client:
            client.delete_queue(queue)

    def count(self, queue: str) -> int | None:
        if self.processes > 1:
            return None  # Operations of the other processes are counted a moment later.
        with spoolrack.connect(self.address) as client:
            counts = client.queue(queue).info().counts
        return counts.ready_count + counts.leased_count + counts.delayed_count

    def settle(self, queue: str) -> None:
        await_reaper(self.root)

    def seconds_of_imports(self) -> float:
        return min(_seconds_of(_IMPORTS) for _ in range(3))

    def seconds_of_listing(self) -> float | None:
        began = time.monotonic()
        for _ in os.walk(self.root):
            pass
        return time.monotonic() - began


class SpoolrackAckDriver(SpoolrackDriver):
    def delete(self, messages: Sequence[Received]) -> None:
        """Return at once, as a delete of RabbitMQ's does."""
        for message in messages:
            self._messages().ack(cast(spoolrack.Message, message.handle))


class SpoolrackAcks(Spoolrack):
    """Deletes as unconfirmed as a quorum queue's, to be set beside one."""

    name = "spoolrack-acks"
    driver = SpoolrackAckDriver
    only = frozenset({"singles", "paced"})
    facts = SystemFacts(
        title="Spoolrack, acks",
        configuration="spoolrack serve; consumers call MessageStream.ack",
        note="A delete is not waited for: after a crash the message may come again.",
    )


class SpoolrackTwo(Spoolrack):
    """Shows, with one and with all, what more processes bring."""

    name = "spoolrack-2"
    processes = 2
    only = frozenset({"hundreds", "callers", "singles", "tens", "paced"})
    facts = SystemFacts(
        title="Spoolrack, 2 processes",
        configuration="two spoolrack serve on one root, the client processes dealt out to them; "
        "lease_durability strict",
    )


class SpoolrackProcesses(Spoolrack):
    """As many as the machine has cores, but four at most."""

    name = "spoolrack-n"
    processes = max(3, min(4, os.cpu_count() or 3))
    facts = SystemFacts(
        title=f"Spoolrack, {processes} processes",
        configuration=f"{processes} spoolrack serve on one root, the client processes dealt out to "
        "them; lease_durability strict",
    )


class SpoolrackFile(Spoolrack):
    """No server: the caller works on the files itself, to be set beside PostgreSQL's one connection."""

    name = "spoolrack-file"
    only = frozenset({"one", "life"})
    facts = SystemFacts(
        title="Spoolrack, file://",
        configuration="spoolrack.connect of file:///DIR; lease_durability strict",
        note="In the process itself.",
    )

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.address = self.root.as_uri()

    def address_of(self, client: int) -> str:
        return self.address


class SpoolrackSlow(Spoolrack):
    """On a slow disk, where the syncs of an operation decide."""

    name = "spoolrack-slow"
    prefix = server_processes.slowed(SLOW)
    only = frozenset({"slow", "slow-life"})
    facts = SystemFacts(
        title="Spoolrack, slow disk",
        configuration=f"{Spoolrack.facts.configuration}; {SLOWING}",
        note=SLOW_NOTE,
    )


def await_reaper(root: Path) -> None:
    """Return when a root has no deleted file left; raise `Broken` after `_SETTLED`."""
    end = time.monotonic() + _SETTLED
    while any((root / "remove").iterdir()):
        if time.monotonic() > end:
            raise Broken(f"the reaper of {root} has not come to an end in {_SETTLED:.0f} s")
        time.sleep(0.02)


def _seconds_of(program: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.monotonic() - began
