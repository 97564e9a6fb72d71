"""A process that sends, receives and deletes in a root until it is killed, and tells of each answer.

Each line has a word, the monotonic time in nanoseconds, and a body: `sends` and `deletes` before the
request, `sent` and `deleted` after its answer, `received` with the time at which the receive was asked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from itertools import count
from random import Random

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Delete, Receive, Send
from spoolrack_store.store import Store

HOLD = Millis(300)


def tell(word: str, bodies: Sequence[bytes], at: int | None = None) -> None:
    moment = time.monotonic_ns() if at is None else at
    os.write(1, b"".join(b"%s %d %s\n" % (word.encode(), moment, body) for body in bodies))


def work(root: str, name: str) -> None:
    random = Random(name)
    with Store.open(root) as store:
        tell("open", [name.encode()])
        for number in count():
            size = random.choice((1, 1, 2, 7))
            bodies = [b"%s-%d-%d" % (name.encode(), number, place) for place in range(size)]
            tell("sends", bodies)
            results = store.submit(Send(queue="q", bodies=bodies)).result().results
            assert all(isinstance(result, str) for result in results), results
            tell("sent", bodies)
            asked = time.monotonic_ns()
            most = random.choice((1, 3, 9))
            got = store.submit(Receive(queue="q", max_messages=most, visibility_timeout=HOLD)).result()
            for delivery in got:
                tell("received", delivery.bodies, asked)
                if random.random() < 0.1:
                    continue  # It comes back.
                tell("deletes", delivery.bodies)
                told = store.submit(Delete(queue="q", receipts=delivery.receipts)).result()
                pairs = zip(delivery.bodies, told, strict=True)
                tell("deleted", [body for body, error in pairs if error is None])


if __name__ == "__main__":
    work(*sys.argv[1:])
