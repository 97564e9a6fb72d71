"""A program that reserves sets of messages, reads them, and commits them, until it is killed.

    reserver.py URL QUEUE LEDGERS NAME --seed N

Every call is made until it is answered, as the same call. Some sets are read twice, and some are
released or forgotten instead of committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import spoolrack
from spoolrack.errors import ReservationLost, ReservationNotFound

from tests.proof.e2e.sender import PATIENCE, Answer, arguments, tell, until_answered
from tests.support.ledger import (
    COPY,
    Deleted,
    Deleting,
    Delivery,
    Kept,
    Ledger,
    Received,
    Releasing,
    digest_of,
    now_ms,
)

HOLD = 2.0
AT_ONCE = 200
WAIT = 10.0
READ_TWICE = 0.3


class Reserver:
    def __init__(self, url: str, queue: str, ledger: Ledger, seed: int) -> None:
        self._client = spoolrack.connect(url, retry=spoolrack.RetryPolicy(attempts=1))
        self._patient = spoolrack.connect(url, timeout=PATIENCE).queue(queue)
        self._queue = self._client.queue(queue)
        self._ledger = ledger
        self._random = Random(seed)
        self._open: dict[int, list[str]] = {}
        """The ids in sets that were read and not committed: a later commit is about them, too."""

    def take(self, sequence_number: int) -> None:
        """Reserve the set of this number, and be done with it."""
        stream, most = self._ledger.name, self._random.randint(1, AT_ONCE)
        try:
            held = None
            while held is None:
                held = self._until_answered(
                    lambda: self._queue.reserve(
                        stream, sequence_number, max_messages=most, visibility_timeout=HOLD, wait=WAIT
                    )
                )
            due_ms = round(held.expires_at.timestamp() * 1_000)
            deliveries = self._read(sequence_number, due_ms)
            self._ledger.write(Received(deliveries))
            self._open[sequence_number] = [one.id for one in deliveries]
            if self._random.random() < READ_TWICE:
                # Others may have deleted some of them by their ids; but one that is another than before
                # is in two hands.
                again = self._read(sequence_number, due_ms)
                self._ledger.write(Received([one for one in again if one not in deliveries]))
            self._settle(sequence_number)
        except (ReservationLost, ReservationNotFound):
            return  # If it was held, a receive of its messages now comes too early.

    def _read(self, sequence_number: int, due_ms: int) -> list[Delivery]:
        stream = self._ledger.name
        messages = self._until_answered(
            lambda: list(
                self._client.reservations.read(stream, sequence_number, queue=self._queue.name)
            )
        )
        return [
            Delivery(
                id=message.id,
                copy=str(message.attributes.get(COPY, "")),
                digest=digest_of(message.body),
                receipt=f"{stream}.{sequence_number}",
                began_ms=due_ms - round(HOLD * 1_000),
                due_ms=due_ms,
            )
            for message in messages
        ]

    def _settle(self, sequence_number: int) -> None:
        stream, chance = self._ledger.name, self._random.random()
        if chance < 0.05:
            return  # Forgotten: it comes back when the hold is over, unless the next commit is faster.
        if chance < 0.15:
            self._ledger.write(Releasing([f"{stream}.{sequence_number}"]))
            self._until_answered(
                lambda: self._client.reservations.release(
                    stream, sequence_number, queue=self._queue.name
                )
            )
            return
        calls = {f"{stream}:{each}:{sequence_number}": each for each in self._open}
        for call, each in calls.items():
            self._ledger.write(Deleting(call, self._open[each]))
        done = self._until_answered(
            lambda: self._client.reservations.commit(stream, sequence_number, queue=self._queue.name)
        )
        for call, each in calls.items():
            ids = self._open.pop(each)
            if each in done.lost_sequence_numbers:
                self._ledger.write(Kept(call, ids))
            else:
                self._ledger.write(Deleted(call, ids, now_ms()))
                tell(f"deleted {len(ids)}")

    def _until_answered(self, call: Callable[[], Answer]) -> Answer:
        return until_answered(call, "unanswered", self._patient, ReservationLost, ReservationNotFound)


def main() -> None:
    asked = arguments().parse_args()
    reserver = Reserver(asked.url, asked.queue, Ledger(asked.ledgers, asked.name), asked.seed)
    tell("started")
    for sequence_number in itertools.count():
        reserver.take(sequence_number)


if __name__ == "__main__":
    main()
