"""A program that stages messages, and publishes them or drops them, until it gets SIGTERM.

    stager.py URL QUEUE LEDGERS NAME --seed N

Every call is made until it is answered, as the same call. A published stage is there, all of it, though
its ids are returned to no caller; a dropped one was never there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from random import Random

import spoolrack
from spoolrack.errors import StageNotFound

from tests.proof.e2e.sender import (
    PATIENCE,
    Answer,
    arguments,
    bodies,
    tell,
    told_to_stop,
    until_answered,
)
from tests.support.ledger import COPY, Ledger, Published, Refused, Sending, digest_of

DROPPED = 0.2
"""So many of the epochs come to nothing."""
REPEATED = 0.2
"""So many publications are made once more."""


class Stager:
    def __init__(self, url: str, queue: str, ledger: Ledger, seed: int) -> None:
        self._client = spoolrack.connect(url, retry=spoolrack.RetryPolicy(attempts=1))
        self._patient = spoolrack.connect(url, timeout=PATIENCE).queue(queue)
        self._queue = queue
        self._ledger = ledger
        self._random = Random(seed)
        self._bodies = bodies(self._random)
        self._copies = itertools.count()

    def publish(self, epoch: int) -> None:
        """Return once the epoch is published, or dropped."""
        random, writer = self._random, self._ledger.name
        stages = [f"{writer}-{epoch}-{number}" for number in range(random.randint(1, 3))]
        copies = [copy for stage in stages for copy in self._stage(stage)]
        if random.random() < DROPPED:
            for stage in stages:
                # Not found: it was dropped by a call that wasn't answered.
                with suppress(StageNotFound):
                    self._until_answered(
                        lambda stage=stage: self._client.staging.abort(stage, queue=self._queue)
                    )
            self._ledger.write(Refused(copies))
            return
        try:
            for _ in range(2 if random.random() < REPEATED else 1):
                self._until_answered(
                    lambda: self._client.staging.publish(writer, epoch, stages, queue=self._queue)
                )
        except StageNotFound as error:
            # They were promised to be there until they are published: so they are missed all the same.
            tell(f"gone {error}")
        self._ledger.write(Published(copies))
        tell(f"sent {len(copies)}")

    def _stage(self, stage: str) -> list[str]:
        """Return the copies in it."""
        random, copies = self._random, []
        for chunk in range(random.randint(1, 3)):
            messages = []
            for body in itertools.islice(self._bodies, random.choice((1, 3, 20))):
                copy = f"{self._ledger.name}:{next(self._copies)}:0"
                copies.append(copy)
                messages.append(spoolrack.Outgoing(body=body, attributes={COPY: copy}))
            self._ledger.write(
                Sending({str(one.attributes[COPY]): digest_of(one.body) for one in messages})
            )
            self._until_answered(
                lambda chunk=chunk, messages=messages: self._client.staging.stage(
                    stage, chunk, self._queue, messages
                )
            )
        return copies

    def _until_answered(self, call: Callable[[], Answer]) -> Answer:
        return until_answered(call, "unsent 1", self._patient, StageNotFound)


def main() -> None:
    asked = arguments().parse_args()
    stopping = told_to_stop()
    stager = Stager(asked.url, asked.queue, Ledger(asked.ledgers, asked.name), asked.seed)
    tell("started")
    for epoch in itertools.count():
        if stopping.is_set():
            return
        stager.publish(epoch)


if __name__ == "__main__":
    main()
