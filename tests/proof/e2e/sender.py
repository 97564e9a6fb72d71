"""A program that sends messages without end, until SIGTERM.

    sender.py URL QUEUE LEDGERS NAME --seed N [--threads N] [--size BYTES] [--once]

A message without an acknowledgement is sent again, as another copy. With `--once` each message has a
deduplication id, and is sent again as the same copy; some acknowledged ones are sent again, too.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import TypeVar

import spoolrack
from spoolrack.errors import SpoolrackError

from tests.support.ledger import COPY, Ledger, Refused, Sending, Sent, digest_of

Answer = TypeVar("Answer")
PATIENCE = 120.0
"""Seconds in which a server that was killed is back."""
TRIES = 100
PAUSE = 0.05
"""Seconds between two of them."""
REPEATED = 500
"""So many acknowledged messages may be sent again."""


class Sender:
    def __init__(self, url: str, queue: str, ledger: Ledger, *, once: bool = False) -> None:
        # One call for each try, or a copy that the client itself sends again would be no fault.
        self._client = spoolrack.connect(url, retry=spoolrack.RetryPolicy(attempts=1))
        self._patient = spoolrack.connect(url, timeout=PATIENCE)
        self._queue = self._client.queue(queue)
        self._ledger = ledger
        self.sends_once = once

    def send(self, numbered: Sequence[tuple[int, bytes]]) -> None:
        """Return once each body is acknowledged. They fit in one call."""
        unsent = list(numbered)
        for attempt in range(TRIES):
            unsent = self._try(unsent, attempt)
            if not unsent:
                tell(f"sent {len(numbered)}")
                return
            self._patient.queue(self._queue.name).info()
            # A server whose disk is dead still answers that, and refuses to store: give it time to die.
            time.sleep(PAUSE)
        raise RuntimeError(f"not sent after {TRIES} tries: {unsent[0][0]}")

    def _try(self, numbered: Sequence[tuple[int, bytes]], attempt: int) -> list[tuple[int, bytes]]:
        """Return what is not acknowledged after this attempt."""
        names = [f"{self._ledger.name}:{number}" for number, _ in numbered]
        copies = [f"{name}:{0 if self.sends_once else attempt}" for name in names]
        self._ledger.write(
            Sending({copy: digest_of(body) for copy, (_, body) in zip(copies, numbered, strict=True)})
        )
        messages = [
            spoolrack.Outgoing(
                body=body, attributes={COPY: copy}, deduplication_id=name if self.sends_once else ""
            )
            for name, copy, (_, body) in zip(names, copies, numbered, strict=True)
        ]
        try:
            if len(messages) == 1:
                (one,) = messages
                ids: list[str | None] = [
                    self._queue.send(
                        one.body, attributes=one.attributes, deduplication_id=one.deduplication_id
                    )
                ]
            else:
                ids = [result.id for result in self._queue.send_many(messages)]
        except SpoolrackError as error:
            tell(f"unsent {len(numbered)} {error.reason}")
            return list(numbered)
        self._ledger.write(Sent({copy: id for copy, id in zip(copies, ids, strict=True) if id}))
        refused = [copy for copy, id in zip(copies, ids, strict=True) if not id]
        if refused and not self.sends_once:
            self._ledger.write(Refused(refused))
        return [each for each, id in zip(numbered, ids, strict=True) if not id]


def tell(what: str) -> None:
    """Write one line, in one write: threads do, too."""
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def bodies(random: Random) -> Iterator[bytes]:
    """Bodies of all bytes: most of them short, some empty, some of many blocks."""
    while True:
        size = random.choice((0, 1, 20, 100, 100, 300, 1_000, 5_000))
        yield random.randbytes(size if random.random() < 0.98 else 100_000)


def bodies_of(size: int, random: Random) -> Iterator[bytes]:
    """Bodies of one size, that differ."""
    while True:
        yield random.randbytes(min(size, 32)).ljust(size, b"x")


def send_on(
    sender: Sender, seed: int, threads: int, stopping: threading.Event, size_of_all: int | None
) -> None:
    """Send until told to stop: batches of any size, or single messages in many threads."""

    def advance(thread: int) -> None:
        random = Random(f"{seed} {thread}")
        acknowledged: deque[tuple[int, bytes]] = deque(maxlen=REPEATED)
        made = bodies(random) if size_of_all is None else bodies_of(size_of_all, random)
        numbered = zip(itertools.count(thread, threads), made, strict=False)
        while not stopping.is_set():
            size = 1 if threads > 1 else random.choice((1, 2, 10, 50, 200))
            batch = list(itertools.islice(numbered, size))
            sender.send(batch)
            if sender.sends_once:
                acknowledged += batch
                sender.send(random.sample(list(acknowledged), min(len(acknowledged), size)))

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(advance, thread) for thread in range(threads)]:
            done.result()


def told_to_stop() -> threading.Event:
    """Set on SIGTERM. To be called before there are any other threads.

    A handler wouldn't do: the kernel may choose any thread for the signal, above all when this process
    has just stood still, and the main one, which alone runs handlers, waits for the others.
    """
    stopping = threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        stopping.set()

    threading.Thread(target=wait, name="stops on SIGTERM", daemon=True).start()
    return stopping


def arguments() -> argparse.ArgumentParser:
    """Return a parser of the arguments that programs of this folder have in common."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("queue")
    parser.add_argument("ledgers", type=Path)
    parser.add_argument("name")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def until_answered(
    call: Callable[[], Answer], told: str, queue: spoolrack.Queue, *but: type[SpoolrackError]
) -> Answer:
    """Repeat a call until it is answered, or fails as `but` says; `queue` waits for a server."""
    for _ in range(TRIES):
        try:
            return call()
        except but:
            raise
        except SpoolrackError as error:
            tell(f"{told} {error.reason}")
        queue.info()
        time.sleep(PAUSE)
    raise RuntimeError(f"not answered after {TRIES} tries")


def main() -> None:
    parser = arguments()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, help="of every body; without it, of all sizes")
    parser.add_argument("--once", action="store_true", help="each with a deduplication id")
    asked = parser.parse_args()
    stopping = told_to_stop()
    ledger = Ledger(asked.ledgers, asked.name)
    sender = Sender(asked.url, asked.queue, ledger, once=asked.once)
    tell("started")
    send_on(sender, asked.seed, asked.threads, stopping, asked.size)


if __name__ == "__main__":
    main()
