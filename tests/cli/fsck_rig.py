"""A root with messages in every state, made by a real store and left by it."""

from __future__ import annotations

from pathlib import Path

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import Batch, Item, parse_filed, parse_item
from spoolrack_store.model.operations import ByReceipt, CreateQueue, Delete, Outgoing, Receive, Send
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
            message = Outgoing(body=b"single %d" % number, attributes={"n": str(number)})
            store.submit(Send(queue="q", messages=[message])).result()
        delayed = Outgoing(body=b"delayed", delay=HOUR)
        store.submit(Send(queue="q", messages=[delayed])).result()
        batch = [Outgoing(body=b"batch %d" % number) for number in range(BATCH)]
        store.submit(Send(queue="q", messages=batch)).result()
        first, _ = store.submit(Receive(queue="q", max_messages=2)).result()
        assert first.receipt is not None
        store.submit(Delete(queue="q", targets=[ByReceipt(first.receipt)])).result()
    return root


def items(folder: Path) -> dict[Path, Item]:
    """What is in a queue's folder, in order."""
    return {path: parse_item(path.name) for path in sorted(folder.iterdir())}


def single(root: Path) -> Path:
    """The file of the ready single message."""
    return next(
        path for path, item in items(root / "queues" / "q").items() if not isinstance(item, Batch)
    )


def batch(root: Path) -> Path:
    """The folder of the batch."""
    return next(path for path, item in items(root / "queues" / "q").items() if isinstance(item, Batch))


def batched(root: Path) -> Path:
    """The file of the first message in the batch."""
    return min(batch(root).iterdir())


def leased(root: Path) -> Path:
    return next(path for path in (root / "delay").iterdir() if parse_filed(path.name).token)


def delayed(root: Path) -> Path:
    return next(path for path in (root / "delay").iterdir() if not parse_filed(path.name).token)


def bodies(root: Path, queue: str = "q") -> list[bytes]:
    """What a store delivers of a queue, in order."""
    with Store.open(root) as store:
        messages = store.submit(Receive(queue=queue, max_messages=100)).result()
    return [message.body for message in messages]


READY = [b"single 2", *(b"batch %d" % number for number in range(BATCH))]
