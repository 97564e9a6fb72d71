"""Senders and consumers at the servers of a root, and what their calls were told."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import spoolrack

from tests.support.real_server import ONCE, RealServer

QUEUE: Final = "q"
CALL: Final = 20.0
"""Seconds that a call may take before its outcome counts as unknown."""
PAUSE: Final = 0.05


@dataclass
class Ledger:
    """The facts of a run. Thread-safe, as its containers are."""

    sent: dict[str, float] = field(default_factory=dict)
    """When the send of a message was acknowledged."""
    delivered: list[tuple[str, float]] = field(default_factory=list)
    """Messages, and when the call began that got them."""
    deleted: dict[str, float] = field(default_factory=dict)
    """When the delete of a message was acknowledged."""
    answers: dict[str, list[float]] = field(default_factory=dict)
    """Of each server when it answered with success."""

    @property
    def lost(self) -> set[str]:
        """Messages that were acknowledged and never delivered."""
        return self.sent.keys() - {id for id, _ in self.delivered}

    @property
    def back(self) -> set[str]:
        """Messages that a call got which began after their delete was acknowledged."""
        return {id for id, began in self.delivered if began > self.deleted.get(id, began)}


class Load:
    """A sender and a consumer for each server, until `stop`."""

    def __init__(self, servers: dict[str, RealServer]) -> None:
        self.ledger = Ledger(answers={name: [] for name in servers})
        self._stopped = threading.Event()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._run, args=(name, server, act), daemon=True)
            for name, server in servers.items()
            for act in (self._send, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, seconds: float) -> None:
        """Let it go on."""
        self._stopped.wait(seconds)

    def seconds_to_answer(self, server: str, began: float, limit: float = 60.0) -> float:
        """Return how many seconds after `began` a server answered first; wait for that."""
        answers = self.ledger.answers[server]
        while time.monotonic() < began + limit:
            for moment in answers[bisect(answers, began) :]:
                return moment - began
            self._stopped.wait(PAUSE)
        raise AssertionError(f"{server} answered nothing within {limit} s")

    def stop(self) -> Ledger:
        self._stopped.set()
        for thread in self._threads:
            thread.join(3 * CALL)
            assert not thread.is_alive(), "a call has no end"
        return self.ledger

    def _run(self, name: str, server: RealServer, act: object) -> None:
        assert callable(act)
        while not self._stopped.is_set():
            url = f"127.0.0.1:{server.port}"
            try:
                with spoolrack.connect(url, timeout=CALL, retry=ONCE) as client:
                    while not self._stopped.is_set() and url.endswith(f":{server.port}"):
                        act(client.queue(QUEUE))
                        self.ledger.answers[name].append(time.monotonic())
            except spoolrack.SpoolrackError:
                self._stopped.wait(PAUSE)

    def _send(self, queue: spoolrack.Queue) -> None:
        number = next(self._numbers)
        results = queue.send_many([b"%d.%d" % (number, n) for n in range(1 + number % 5)])
        now = time.monotonic()
        self.ledger.sent.update((result.id, now) for result in results if result.id)

    def _consume(self, queue: spoolrack.Queue) -> None:
        receive_and_delete(queue, self.ledger)


def receive_and_delete(queue: spoolrack.Queue, ledger: Ledger, wait: float = 0.5) -> int:
    """Receive up to ten messages and delete them; return how many there were."""
    began = time.monotonic()
    messages = queue.receive(10, wait=wait, visibility_timeout=5)
    ledger.delivered += [(message.id, began) for message in messages]
    results = queue.delete_many(messages)
    now = time.monotonic()
    for message, result in zip(messages, results, strict=True):
        if result.error is None:
            ledger.deleted.setdefault(message.id, now)
    return len(messages)


def drain(server: RealServer, ledger: Ledger) -> None:
    """Receive what is left, leases that are under way too."""
    with server.connect() as client:
        queue = client.queue(QUEUE)
        while receive_and_delete(queue, ledger, wait=7):
            pass
