"""Random calls of many threads through the Python client, over gRPC or in a folder, with what `stress`
promises of each message: sends and receives of both kinds, unary and on streams."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from random import Random
from typing import Final

import spoolrack
from spoolrack import Client, Message

from tests.proof.races.stress import (
    DEAD,
    DELAYS,
    OTHERS,
    PATIENCE,
    QUEUE,
    Ledger,
    run_together,
    watched,
)

LEASE: Final = 600.0
"""Seconds: no lease ends by itself."""


class ClientCaller:
    """One thread that calls."""

    def __init__(self, client: Client, ledger: Ledger, random: Random) -> None:
        self._client, self._ledger, self._random = client, ledger, random
        self._queue, self._other = client.queue(QUEUE), client.queue(OTHERS[0])
        self._held: list[tuple[Message, float]] = []
        calls: dict[Callable[[], None], int] = {
            self._send: 8,
            self._send_many: 3,
            self._receive: 8,
            self._stream: 2,
            self._delete: 6,
            self._release: 2,
            self._extend: 1,
            self._look: 4,
            self._change: 2,
        }
        self._calls, self._weights = list(calls), list(calls.values())

    def run(self, until: float) -> None:
        while time.monotonic() < until and not self._ledger.faults:
            (call,) = self._random.choices(self._calls, self._weights)
            try:
                call()
            except spoolrack.errors.QueueNotFound:
                pass  # It comes and goes.
            except BaseException as error:
                logging.exception("a call has failed")
                self._ledger.faults.append(f"{call.__name__}: {error!r}")
            self._ledger.calls += 1

    def _send(self) -> None:
        delay = self._random.choice((0, 0, *DELAYS))
        self._ledger.sent.append((self._queue.send(b"x", delay=delay / 1_000), delay))

    def _send_many(self) -> None:
        for result in self._queue.send_many([b"x"] * 3):
            assert result.id is not None, result.error
            self._ledger.sent.append((result.id, 0))

    def _receive(self) -> None:
        most, wait = self._random.choice((1, 1, 5)), self._random.choice((0, 0, 0.03))
        found = self._queue.receive(most, wait=wait, visibility_timeout=LEASE)
        self._held += [(message, time.monotonic()) for message in found]

    def _stream(self) -> None:
        """Take what a stream brings; the messages that it prefetched go back with its end."""
        most = self._random.choice((1, 4))
        with self._queue.messages(max_in_flight=most, visibility_timeout=LEASE) as stream:
            # Without the wait the last threads would wait for messages that no other sends any more.
            found = stream.receive(most, wait=0.2)
            self._held += [(message, time.monotonic()) for message in found]

    def _delete(self) -> None:
        held, self._held = self._held[:3], self._held[3:]
        now = self._end(held)
        for (message, _), result in zip(
            held, self._queue.delete_many([message for message, _ in held]), strict=True
        ):
            if result.error is None:
                self._ledger.deleted.append((message.id, now))
            else:
                self._ledger.faults.append(f"a leased message can't be deleted: {result.error!r}")

    def _release(self) -> None:
        held, self._held = self._held[:2], self._held[2:]
        self._end(held)
        for result in self._queue.release_many([message for message, _ in held]):
            if result.error is not None:
                self._ledger.faults.append(f"a leased message can't be released: {result.error!r}")

    def _extend(self) -> None:
        held = [message for message, _ in self._held[:5]]
        for result in self._queue.extend_many(held, LEASE):
            if result.error is not None:
                self._ledger.faults.append(f"a lease can't be extended: {result.error!r}")

    def _end(self, held: list[tuple[Message, float]]) -> float:
        now = time.monotonic()
        self._ledger.holds += [(message.id, since, now) for message, since in held]
        return now

    def _look(self) -> None:
        look: Callable[[], object] = self._random.choice(
            (
                self._queue.info,
                lambda: list(self._client.list_queues()),
                lambda: list(self._queue.peek(limit=5)),
                self._other.info,
            )
        )
        look()

    def _change(self) -> None:
        if self._random.random() < 0.3:
            self._client.delete_queue(OTHERS[0])
        self._client.create_queue(OTHERS[0])
        self._other.send_many([b"x"] * 2)
        self._other.receive(2)
        self._other.purge()

    def finish(self) -> None:
        while self._held:
            self._release()


def work(url: str, *, seconds: float, threads: int, seed: int, interval: float) -> Ledger:
    """Let `threads` call by one client for so many seconds; return what they saw."""
    ledger = Ledger()
    with watched(ledger), spoolrack.connect(url, timeout=PATIENCE) as client:
        for name in (DEAD, QUEUE, OTHERS[0]):
            client.create_queue(name)
        callers = [ClientCaller(client, ledger, Random(f"{seed} {each}")) for each in range(threads)]
        run_together(callers, ledger, seconds=seconds, interval=interval)
    return ledger
