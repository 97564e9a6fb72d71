"""beanstalkd: a tube, with the binlog synced at every write. Its protocol in a few lines."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

from .. import server_processes
from .base import Broken, Driver, Received, System, SystemFacts

_LEASE = 600
"""Seconds."""


class _Wire:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 5.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(60.0)
        self._lines = self._socket.makefile("rb")

    def ask(self, *commands: bytes) -> None:
        self._socket.sendall(b"".join(commands))

    def answer(self, *expected: bytes) -> list[bytes]:
        words = self._lines.readline().split()
        if not words or words[0] not in expected:
            raise Broken(f"beanstalkd answers {words} and not {expected}")
        return words

    def content(self, size: bytes) -> bytes:
        return self._lines.read(int(size) + 2)[:-2]

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class BeanstalkdDriver(Driver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._wire = _Wire(address)
        tube = queue.encode()
        self._wire.ask(b"use %s\r\nwatch %s\r\nignore default\r\n" % (tube, tube))
        self._wire.answer(b"USING")
        self._wire.answer(b"WATCHING")
        self._wire.answer(b"WATCHING")

    def send(self, body: bytes) -> None:
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._wire.ask(*(b"put 1024 0 %d %d\r\n%s\r\n" % (_LEASE, len(body), body) for body in bodies))
        for _ in bodies:
            self._wire.answer(b"INSERTED")

    def receive(self, count: int) -> list[Received]:
        # It waits for whole seconds. Only for the first: later ones take ready jobs only.
        self._wire.ask(b"reserve-with-timeout 1\r\n", b"reserve-with-timeout 0\r\n" * (count - 1))
        messages = []
        for _ in range(count):
            words = self._wire.answer(b"RESERVED", b"TIMED_OUT")
            if words[0] == b"RESERVED":
                messages.append(Received(self._wire.content(words[2]), words[1]))
        return messages

    def delete(self, messages: Sequence[Received]) -> None:
        self._wire.ask(*(b"delete %s\r\n" % message.handle for message in messages))
        for _ in messages:
            self._wire.answer(b"DELETED")

    def close(self) -> None:
        self._wire.close()


class Beanstalkd(System):
    name = "beanstalkd"
    driver = BeanstalkdDriver
    program = "beanstalkd"
    facts = SystemFacts(
        title="beanstalkd",
        configuration="-b -f0: a binlog, synced at every write; many commands go in one packet",
    )

    def start(self) -> None:
        super().start()
        port = server_processes.free_port()
        log = self.folder / "binlog"
        log.mkdir(exist_ok=True)
        self.run(port, "-l", "127.0.0.1", "-p", str(port), "-b", str(log), "-f0")

    def version(self) -> str:
        return self.output_of("-v").split()[-1]

    def create_queue(self, queue: str) -> None:
        """Do nothing: a tube exists while a client uses it."""

    def delete_queue(self, queue: str) -> None:
        """Do nothing: there is no command for it, and the jobs of a tube stay."""

    def count(self, queue: str) -> int | None:
        wire = _Wire(self.address)
        wire.ask(b"stats-tube %s\r\n" % queue.encode())
        words = wire.answer(b"OK", b"NOT_FOUND")
        if words[0] == b"NOT_FOUND":
            wire.close()
            return 0
        statistics = wire.content(words[1]).decode()
        wire.close()
        states = re.findall(
            r"^current-jobs-(?:ready|reserved|delayed|buried): (\d+)$", statistics, re.MULTILINE
        )
        return sum(map(int, states))
