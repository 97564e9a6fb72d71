"""The interface of every system: a `System`, which runs it, and a `Driver`, which talks to it.

The load is the same program for all: it knows `Driver` and nothing else. A driver does what the
system's own client does for a program that wants the strict promise: when `send` or `delete`
returns, that is on stable media.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from .. import server_processes

READ_AHEAD: Final = 16
"""Messages that a consumer who works one by one may hold, where the system has no streams."""
WAIT: Final = 0.2
"""Seconds for which a receive may wait; then the consumer looks whether it is still needed."""
SLOW: Final = 10.0
"""Milliseconds by which each sync of a server on the slow disk is delayed."""
SLOWING: Final = f"strace delays each fsync, fdatasync and syncfs by {SLOW:.0f} ms"
SLOW_NOTE: Final = "The processor time is the server's and strace's."


class Broken(Exception):
    """A system doesn't do what the comparison needs of it."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and what its driver needs to delete it."""

    body: bytes
    handle: object


class Driver(ABC):
    """A program's connection to one queue. Unless it `is_shared`, each thread has its own."""

    is_shared: ClassVar[bool] = False

    def __init__(self, address: str, queue: str) -> None:
        """Connect to the server there; the system's module defines its addresses."""
        self.address = address
        self.queue = queue

    @abstractmethod
    def send(self, body: bytes) -> None:
        """Return when the message is on stable media."""

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Send many, in the quickest way that the system has."""
        for body in bodies:
            self.send(body)

    def receive(self, count: int) -> list[Received]:
        """Return up to so many messages; waits `WAIT` for the first, and may come with none."""
        raise NotImplementedError("there is no queue, but sends alone")

    def delete(self, messages: Sequence[Received]) -> None:
        """Return when none of them will ever be delivered again."""
        raise NotImplementedError("there is no queue, but sends alone")

    def stream(self) -> Iterator[Received | None]:
        """Yield messages as they come, without end; None now and then, when there is none."""
        while True:
            messages = self.receive(READ_AHEAD)
            yield from messages
            if not messages:
                yield None

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """Called from another thread: let a `stream` that waits end. At once, or within `WAIT`."""

    def close(self) -> None:  # noqa: B027  # some have no connection
        """End the connection."""


@dataclass(frozen=True, kw_only=True)
class SystemFacts:
    """The page's text about a system."""

    title: str
    configuration: str
    """The settings that make it strict, as one would write them down."""
    note: str = ""
    """A note for readers of its figures."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How many clients there are, and what each does at a time."""

    senders: tuple[int, int]
    """Processes, and threads in each."""
    consumers: tuple[int, int] = (0, 0)
    batch: int = 1
    driver: type[Driver] | None = None
    """Instead of the system's."""
    leaves: bool = True
    """Messages stay until they are received."""
    lives: bool = False
    """A sender receives and deletes what it has sent before it sends again."""


class System(ABC):
    """One system with its folder. `start` may be called again after `kill`, on the same folder."""

    name: ClassVar[str]
    facts: ClassVar[SystemFacts]
    driver: ClassVar[type[Driver]]
    program: ClassVar[str] = ""
    """The program that must be installed."""
    prefix: Sequence[str] = ()
    """A command that runs its server, as strace(1) does; it must be installed, too."""
    only: ClassVar[frozenset[str] | None] = None
    """The workloads that it has an answer to; None: to all."""
    most_rounds: ClassVar[int | None] = None
    shapes: ClassVar[Mapping[str, Shape]] = {}
    """By workload: a shape of its own, where the common one would say nothing."""
    draining: ClassVar[Shape | None] = None
    """How to empty a queue, if not as all others."""
    is_checked: ClassVar[bool] = True
    """Messages can be received again, and are, to find what is lost."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)
        self.server: server_processes.Server | None = None

    @classmethod
    def why_not(cls) -> str | None:
        """Return what keeps it from being run here; None if nothing does."""
        for program in (cls.program, *cls.prefix[:1]):
            if program and server_processes.find(program) is None:
                return f"{program} is not installed"
        return None

    def start(self) -> None:
        """Return when it takes connections."""
        self.folder.mkdir(exist_ok=True)

    def run(self, port: int, *arguments: str, **more: Any) -> None:
        """Run the program, as a server at a port of the loopback; return when it listens there."""
        program = server_processes.find(self.program) or self.program
        self.server = server_processes.Server(
            [program, *arguments], self.folder / "log", prefix=self.prefix, **more
        )
        self.address = f"127.0.0.1:{port}"
        self.server.wait_for_port(port)

    def output_of(self, *arguments: str) -> str:
        """Return what the program prints."""
        program = server_processes.find(self.program) or self.program
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

    def version(self) -> str:
        """Of the program that runs."""
        return ""

    def address_of(self, client: int) -> str:
        """Return what the client process with this number connects to."""
        return self.address

    @abstractmethod
    def create_queue(self, queue: str) -> None:
        """Make an empty queue."""

    @abstractmethod
    def delete_queue(self, queue: str) -> None:
        """Remove it with all that is in it."""

    def count(self, queue: str) -> int | None:
        """Return how many messages the system believes to be there; None if it doesn't tell."""
        return None

    def settle(self, queue: str) -> None:  # noqa: B027  # most do nothing in the background
        """Return when nothing is left to be done behind the back of the next one."""

    def seconds_of_imports(self) -> float:
        """Return what an interpreter's start and imports take before the server does anything of its
        own."""
        return 0.0

    def seconds_of_listing(self) -> float | None:
        """Return what it takes to read all names in its folder, where a name is a message."""
        return None

    def pids(self) -> list[int]:
        """Of all its processes."""
        return [] if self.server is None else self.server.pids()

    def kill(self) -> None:
        """SIGKILL to all its processes; return when they are dead."""
        if self.server is not None:
            self.server.kill()

    def stop(self) -> None:
        """End it, and remove its folder."""
        if self.server is not None:
            self.server.end()
            self.server = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, queue: str, timeout: float = 60.0) -> Driver:
        """Return a driver, as soon as the server is there."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self.driver(self.address, queue)
            except Exception:
                if time.monotonic() > end or not self.is_alive():
                    raise
                time.sleep(0.01)

    def is_alive(self) -> bool:
        return self.server is None or self.server.is_alive()
