"""A flipped bit in any file of a root is told, and changes no message of another file.

A root has files of each kind. A bit is flipped in a byte of one of them, in a stopped root and beside
a store that has it open. Then all is delivered that can be, and compared with what an undamaged root
delivers: nothing comes that wasn't sent, nothing twice, and what is missing was in that file. `fsck`,
the log or an error tells it.

Names aren't flipped: their check is the file system's. Neither are files that a start makes anew, nor
those of deleted messages, which a thread unlinks.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from spoolrack_store import fsck
from spoolrack_store.files import changes, layout
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.overlay import OverlayDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import ALL_WORK, BackgroundWork
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    Receive,
    RejectMessages,
    Request,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import CommitReservations, MarkRead, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.shards import Shard
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.store import Store

from tests.store.front_rig import CallersDriver

PARTS: Final = 40
"""Of each file's bytes; a case flips a bit in those of one part, and in the first and the last."""
QUEUES: Final = ("q", "dead", "kept", "sets")
LEFT_OUT: Final = (changes.LOCK, changes.PATH, layout.RESERVE, layout.OWNERS, layout.REMOVE)
LOOKS: Final = BackgroundWork(unlinks=False)
"""The work of a store that changes nothing: no thread of it is at work beside the test."""
NOW: Final = Millis(1_700_000_000_000)
OLDER: Final = Millis(NOW - HOUR)

Delivered = Counter[tuple[str, str, bytes, str]]
"""Queue, id, body and attributes of messages, and how often each came."""


class Run:
    """A store on a root, whose commits are made when a test asks for an answer. With `saved` false it
    changes nothing on the disk."""

    def __init__(self, root: Path, *, saved: bool, wall: Millis = NOW) -> None:
        self.clock = ManualClock(wall)
        self.driver = CallersDriver()
        disk: Any = LocalDisk(root)
        self.store = Store.open(
            root,
            clock=self.clock,
            random=Random(wall),
            disk=disk if saved else OverlayDisk(disk),
            background=ALL_WORK if saved else LOOKS,
            driver=self.driver,
            shard=Shard(0, 1),
        )

    def ask(self, request: Request[Any]) -> Any:
        answer = self.store.submit(request)
        self.driver.run()
        return answer.result(0)

    def rest(self, span: Millis) -> None:
        self.clock.advance(span)
        self.driver.run()

    def delivered(self) -> Delivered:
        """Deliver all that comes, and end."""
        try:
            return delivered(self)
        finally:
            self.store.close()

    def receive(self, queue: str, most: int = 100) -> list[Any]:
        return list(self.ask(Receive(queue=queue, max_messages=most, visibility_timeout=Millis(HOUR))))


def made(root: Path) -> None:
    """Make a root with a file of each kind."""
    root.mkdir()
    run = Run(root, saved=True, wall=OLDER)
    run.ask(CreateQueue(name="dead", settings=QueueSettings()))
    dies = QueueSettings(max_receives=1, dead_letter_queue="dead", visibility_timeout=Millis(HOUR))
    run.ask(CreateQueue(name="q", settings=QueueSettings()))
    run.ask(UpdateQueue(name="q", if_version=0, changes={"retention": 30 * DAY}))
    run.ask(CreateQueue(name="kept", settings=QueueSettings(archive_retention=Millis(30 * DAY))))
    run.ask(CreateQueue(name="sets", settings=QueueSettings()))
    run.ask(CreateQueue(name="dying", settings=dies))

    def send_body(queue: str, body: bytes) -> None:
        file = run.store.begin_body()
        file.write(body)
        run.ask(Send(queue=queue, bodies=[b""], written=file.finish()))

    run.ask(Send(queue="kept", bodies=[b"first", b"second"], attributes={0: {"a": "1"}}))
    run.ask(Send(queue="dying", bodies=[b"dies"], attributes={0: {"a": "1"}}))
    send_body("kept", b"large and kept")
    run.ask(Send(queue="kept", bodies=[b"named"], deduplication_ids={0: "one"}))
    run.ask(Send(queue="kept", bodies=[b"two named"] * 2, deduplication_ids={0: "two", 1: "three"}))
    for delivery in run.receive("kept"):
        run.ask(Delete(queue="kept", receipts=delivery.receipts))
    for delivery in run.receive("dying"):
        run.ask(RejectMessages(queue="dying", receipts=delivery.receipts[:1], reason="why"))
    run.ask(Send(queue="sets", bodies=[b"committed"]))
    run.ask(Reserve(queue="sets", stream="s", sequence_number=0))
    run.ask(MarkRead(stream="s", sequence_number=0))
    run.ask(CommitReservations(stream="s", last_sequence_number=0))
    run.ask(Send(queue="sets", bodies=[b"held 1", b"held 2"]))
    run.ask(Reserve(queue="sets", stream="s", sequence_number=1, visibility_timeout=Millis(HOUR)))
    run.ask(Stage(stage="done", chunk_number=0, queue="q", bodies=[b"published"]))
    run.ask(Publish(writer="w", epoch=5, stages=["done"], digest="d", message_count=1))
    run.ask(Send(queue="q", bodies=[b"leased"]))
    run.receive("q", 2)
    run.ask(Send(queue="q", bodies=[b"plain"]))
    run.ask(Send(queue="q", bodies=[b"with attributes"], attributes={0: {"kind": "x"}}))
    run.ask(Send(queue="q", bodies=[b"batch 0", b"batch 1", b"batch 2"], attributes={1: {"n": "1"}}))
    run.ask(Send(queue="q", bodies=[b"delayed"], delays={0: Millis(2 * HOUR)}))
    send_body("q", b"large")
    run.ask(Stage(stage="open", chunk_number=0, queue="q", bodies=[b"staged 1", b"staged 2"]))
    run.ask(StartRedrive(queue="dead", destination="q", message_ids=()))
    run.driver.run()
    run.store.close()


def delivered(run: Run) -> Delivered:
    """Deliver all that comes within some days, also of what is staged."""
    found: Delivered = Counter()
    again = None
    try:
        run.ask(Stage(stage="again", chunk_number=0, queue="q", bodies=[b"published again"]))
        again = run.ask(Publish(writer="w", epoch=5, stages=["again"], digest="d"))
    except StoreError as error:
        logging.getLogger("spoolrack_store").warning("a publication is refused: %s", error)
    assert again is None or again.duplicate, "epoch 5 is published: the name of its manifest says so"
    try:
        run.ask(Publish(writer="v", epoch=0, stages=["open"]))
    except StoreError as error:
        logging.getLogger("spoolrack_store").warning("a publication is refused: %s", error)
    for _ in range(4):
        for queue in QUEUES:
            while deliveries := run.receive(queue):
                for delivery in deliveries:
                    for at, (id, body) in enumerate(
                        zip(delivery.ids, bodies(run, delivery), strict=True)
                    ):
                        told = repr(sorted(delivery.attributes.get(at, {}).items()))
                        found[queue, id, body, told] += 1
                    run.ask(Delete(queue=queue, receipts=delivery.receipts))
        run.rest(Millis(HOUR))
    return found


def bodies(run: Run, delivery: Any) -> Iterator[bytes]:
    if delivery.external_size is None:
        yield from delivery.bodies
        return
    yield run.store.message(delivery.queue, delivery.ids[0]).body


def files(root: Path) -> list[Path]:
    found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    return [path for path in found if path.parts[0] not in LEFT_OUT]


def places(path: Path, size: int, part: int) -> list[int]:
    """Return the bytes of a file in which a case flips a bit."""
    return sorted({0, size - 1, *range(part, size, PARTS)}) if size else []


def may_lack(path: Path, message: tuple[str, str, bytes, str]) -> bool:
    """Return whether a message may be missing after a fault in a file."""
    queue, id, *_ = message
    if path.parts[0] == layout.CONFIG:
        return path.name.startswith(f"{queue}.")
    return id[:-3] in path.name


class Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def told() -> Iterator[Told]:
    handler, log = Told(), logging.getLogger("spoolrack_store")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1 << (at % 8)
    return bytes(changed)


def is_found(root: Path) -> bool:
    """Return whether fsck finds a problem."""
    try:
        return bool(fsck.check(root, clock=ManualClock()).problems)
    except StoreError:
        return True


def compare(path: Path, at: int, before: Delivered, after: Delivered) -> None:
    where = f"{path}, byte {at}"
    assert not after - before, f"{where}: what wasn't sent is delivered, or twice"
    others = [message for message in before - after if not may_lack(path, message)]
    assert not others, f"{where}: messages of other files are missing"


def kinds_of(paths: list[Path]) -> set[str]:
    return {path.parts[0] for path in paths}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_flipped_bit_is_told_and_changes_no_other_message(
    part: int, tmp_path: Path, told: Told
) -> None:
    root = tmp_path / "root"
    made(root)
    before = Run(root, saved=False).delivered()
    assert not is_found(root)
    assert kinds_of(files(root)) >= {
        *(layout.FORMAT, layout.IDENTITY, layout.SHARD, layout.CONFIG, layout.QUEUES, layout.DELAY),
        *(layout.STAGED, layout.PUBLISHED, layout.RESERVED, layout.REDRIVES, layout.DEAD_LETTERS),
        *(layout.KEYS, layout.ARCHIVE, layout.BODIES),
    }
    for path in files(root):
        whole = (root / path).read_bytes()
        for at in places(path, len(whole), part):
            (root / path).write_bytes(flipped(whole, at))
            assert is_found(root), f"{path}, byte {at}: fsck finds nothing"
            told.lines.clear()
            try:
                after = Run(root, saved=False).delivered()
            except StoreError:
                continue  # The start is refused, and says why.
            finally:
                (root / path).write_bytes(whole)
            compare(path, at, before, after)
            assert after == before or told.lines, f"{path}, byte {at}: nothing says what is missing"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_bit_that_is_flipped_while_a_root_is_served_changes_no_other_message(
    part: int, tmp_path: Path, told: Told
) -> None:
    root = tmp_path / "root"
    made(root)
    before = Run(root, saved=False).delivered()
    for path in files(root):
        whole = (root / path).read_bytes()
        for at in places(path, len(whole), part):
            run = Run(root, saved=False)
            told.lines.clear()
            (root / path).write_bytes(flipped(whole, at))
            try:
                after = run.delivered()
            finally:
                (root / path).write_bytes(whole)
            compare(path, at, before, after)
            assert after == before or told.lines, f"{path}, byte {at}: nothing says what is missing"
