"""A process with consumers of the strict queue "q" that runs until it is killed.

Before a receive's messages are deleted, their bodies are written to the pipe given, in one piece. Some
receives are dropped: their leases run out.
"""

from __future__ import annotations

import os
import sys
import threading
from random import Random

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Delete, Receive
from spoolrack_store.store import Store

HOLD = Millis(300)


def consume(store: Store, pipe: int, most: int) -> None:
    random = Random(f"{os.getpid()} {most}")
    while True:
        request = Receive(queue="q", max_messages=most, visibility_timeout=HOLD, wait=None)
        found = store.submit(request).result()
        if random.random() < 0.1:
            continue
        os.write(pipe, b"".join(body + b"\n" for each in found for body in each.bodies))
        for each in found:
            store.submit(Delete(queue="q", receipts=each.receipts)).result()


if __name__ == "__main__":
    with Store.open(sys.argv[1]) as opened:
        consumers = [
            threading.Thread(target=consume, args=(opened, int(sys.argv[2]), most)) for most in (1, 7)
        ]
        for consumer in consumers:
            consumer.start()
        for consumer in consumers:
            consumer.join()
