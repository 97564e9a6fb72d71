"""A root with messages in every state, made by a real store and left by it."""

from __future__ import annotations

from pathlib import Path

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

HOUR = Millis(3_600_000)
SINGLES = 3
BATCH = 5


def make_root(root: Path) -> Path:
    """3 single messages and a batch of 5: of the singles one is leased for an hour, one was deleted and
    one is ready; beside them one is delayed for an hour."""
    with Store.open(root) as store:
        settings = QueueSettings(visibility_timeout=HOUR)
        store.submit(CreateQueue(name="q", settings=settings)).result()
        for number in range(SINGLES):
            attributes = {0: {"n": str(number)}}
            send = Send(queue="q", bodies=[b"single %d" % number], attributes=attributes)
            store.submit(send).result()
        store.submit(Send(queue="q", bodies=[b"delayed"], delays={0: HOUR})).result()
        bodies = [b"batch %d" % number for number in range(BATCH)]
        store.submit(Send(queue="q", bodies=bodies)).result()
        first, _ = messages_of(store.submit(Receive(queue="q", max_messages=2)).result())
        assert first.receipt is not None
        store.submit(Delete(queue="q", receipts=[first.receipt])).result()
    return root


def single(root: Path) -> Path:
    """Return the file of the ready single message."""
    (path,) = (path for path in (root / "queues" / "q").iterdir() if ",n" not in path.name)
    return path


def delayed(root: Path) -> Path:
    (path,) = (path for path in (root / "delay").iterdir() if "~" not in path.name)
    return path


def bodies(root: Path, queue: str = "q") -> list[bytes]:
    """Return what a store delivers of a queue, in order."""
    with Store.open(root) as store:
        found = messages_of(store.submit(Receive(queue=queue, max_messages=100)).result())
    return [message.body for message in found]


READY = [b"single 2", *(b"batch %d" % number for number in range(BATCH))]
