"""A root of format 4 on a real disk, with messages in every state, made by an engine and left by it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.changes import LOCK, SIZE
from spoolrack_store.files.layout import FOLDERS, FORMAT_CONTENT
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.operations import Delete, Delivery, Receive, Send
from spoolrack_store.model.sealed import seal_text
from spoolrack_store.model.settings import QueueSettings, Record, encode

from tests.support.engines import commit, start

NOW = Millis(1_700_000_000_000)
QUEUES = ("q", "dead")
SETTINGS = {"q": QueueSettings(visibility_timeout=Millis(HOUR)), "dead": QueueSettings()}
BATCH = [b"batch %d" % number for number in range(5)]
READY = [b"single 2", *BATCH]


class Still:
    """A clock that stands."""

    def __init__(self, now: Millis = NOW) -> None:
        self.now = now

    def wall(self) -> Millis:
        return self.now

    def monotonic(self) -> Millis:
        return Millis(self.now - 1_600_000_000_000)

    def wait(self, condition: object, until: object) -> None:
        raise AssertionError("an engine never waits")


class Bytes:
    """`CHANGES` in memory."""

    def __init__(self) -> None:
        self._content = bytearray(SIZE)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        self._content[offset : offset + len(content)] = content


def lay_out(root: Path) -> None:
    """Make the folders and files of an empty root."""
    root.mkdir()
    for folder in FOLDERS:
        (root / folder).mkdir()
    for queue in QUEUES:
        (root / "queues" / queue).mkdir()
        record = Record(settings=SETTINGS[queue], created_at=NOW, salt="salt")
        (root / "config" / f"{queue}.1.json").write_bytes(encode(record))
    (root / "FORMAT").write_bytes(FORMAT_CONTENT)
    (root / "IDENTITY").write_bytes(seal_text("0190a1b2-c3d4-4e5f-8a6b-7c8d9e0f1a2b"))
    for name in (LOCK, "CHANGES", "RESERVE"):
        (root / name).write_bytes(b"")


def opened(root: Path, clock: Still | None = None) -> Engine:
    """Return an engine on the root, which knows the queues of the rig."""
    return start(LocalDisk(root), Bytes(), clock=clock or Still(), random=Random(7), queues=SETTINGS)


def settle(engine: Engine) -> None:
    """Commit until nothing waits for a sync, or is due."""
    for _ in range(8):
        now = engine.moves.clock.monotonic()
        waits, due = engine.next_work(now)
        if not waits and (due is None or due > now):
            return
        commit(engine)


def make_root(root: Path) -> Path:
    """Three single messages, of which one is leased for an hour, one was deleted and one is ready; one
    delayed for an hour; a ready batch of five."""
    lay_out(root)
    engine = opened(root)
    for number in range(3):
        commit(engine, Send(queue="q", bodies=[b"single %d" % number], attributes={0: {"n": "1"}}))
    commit(engine, Send(queue="q", bodies=[b"delayed"], delays={0: Millis(HOUR)}))
    commit(engine, Send(queue="q", bodies=BATCH))
    settle(engine)
    (found,) = commit(engine, Receive(queue="q", max_messages=2))
    receipts = [receipt for delivery in _deliveries(found) for receipt in delivery.receipts]
    commit(engine, Delete(queue="q", receipts=receipts[:1]))
    return root


def bodies(root: Path, queue: str = "q") -> list[bytes]:
    """Return what an engine delivers of a queue, in order."""
    engine = opened(root)
    settle(engine)
    (found,) = commit(engine, Receive(queue=queue, max_messages=100))
    return [body for delivery in _deliveries(found) for body in delivery.bodies]


def _deliveries(answer: object) -> list[Delivery]:
    assert isinstance(answer, list)
    return answer


def single(root: Path) -> Path:
    """Return the file of the ready single message."""
    return next(path for path in sorted((root / "queues/q").iterdir()) if ",n" not in path.name)


def batch(root: Path) -> Path:
    return next(path for path in sorted((root / "queues/q").iterdir()) if ",n5" in path.name)


def leased(root: Path) -> Path:
    return next(path for path in (root / "delay").iterdir() if "~" in path.name)


def delayed(root: Path) -> Path:
    return next(path for path in (root / "delay").iterdir() if "~" not in path.name)


def stem_of(path: Path) -> str:
    """Return what all names of the file have in common."""
    return path.name.partition(":")[2].partition(",v")[0] or path.name.partition(",v")[0]
