"""Random histories of the store on a real folder, each from a seed, for other programs to read."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any, Final

from spoolrack_store.files.local_disk import LocalDisk, TouchWatch
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, HOUR, SECOND, Millis
from spoolrack_store.model.names import MAX_PRIORITY
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Message,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import CallersDriver

SETTINGS: Final = {
    "plain": QueueSettings(),
    "dead": QueueSettings(archive_retention=Millis(DAY)),
    "poor": QueueSettings(max_receives=2, dead_letter_queue="dead", backoff_at="lease_end"),
    "late": QueueSettings(max_receives=1, dead_letter_queue="dead", dead_letter_at="receive"),
    "strict": QueueSettings(group_order="strict", messages_per_file=3),
    "aging": QueueSettings(priority_aging=Millis(SECOND), archive_retention=Millis(HOUR)),
}
DEDUPLICATION_IDS: Final = [f"order-{number}" for number in range(12)]


class Died(BaseException):
    """The process has died in the midst of a commit."""


class FastDisk(LocalDisk):
    """It syncs nothing, and dies at a step if it is told to."""

    steps_left: int | None = None

    def _step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Died

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if self.steps_left == 0:
            super().create(path, [b"".join(parts)[:-1]], sync=False)
        self._step()
        super().create(path, parts, sync=False)

    def link(self, source: str, target: str) -> None:
        self._step()
        super().link(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._step()
        super().rename_new(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)

    def watch(self, path: str) -> TouchWatch | None:
        return None  # The test runs the commits, and a user has few watches.

    def sync_file(self, path: str) -> None:
        self.facts(path)

    def sync_folder(self, path: str) -> None:
        self.facts(path)

    def sync_all(self) -> None:
        self.facts("FORMAT")


class OpenStore:
    """A store whose commits and unlinks the test runs, on a disk that doesn't sync."""

    def __init__(self, root: Path, clock: ManualClock, seed: int) -> None:
        root.mkdir(mode=0o700, exist_ok=True)
        self.disk = FastDisk(root)
        self.disk.overwrites = seed % 2 == 1
        self.driver = CallersDriver()
        self.store = Store.open(
            root, clock=clock, random=Random(seed), disk=self.disk, driver=self.driver
        )
        self.store._reaper.stop()
        self.spares = self.store._engine.moves.spares
        if self.store._spare_thread is not None:
            self.store._spare_thread.stop()
            self.spares._wanted[4096] = 3

    def reap(self, most: int) -> None:
        """Unlink up to so many names in `remove/`, and make spares."""
        self.spares.make()
        self.store._engine.moves.removed_files.unlink(most)

    def do(self, request: Request[Any]) -> Any:
        """Return the answer to a request, or raise its error, after one commit."""
        answer: Future[Any] = self.store.submit(request)
        self.driver.run()
        return answer.result(timeout=0)


class History:
    """A root with a random past."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = Random(seed)
        self.clock = ManualClock()
        self.leased: list[Message] = []
        self.sent: list[tuple[str, str]] = []
        """Queues and ids."""
        self.open = OpenStore(root, self.clock, seed)
        for queue, settings in SETTINGS.items():
            self.open.do(CreateQueue(name=queue, settings=settings, labels={"of": queue}))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def die(self) -> None:
        """Die in the midst of a commit, or between two."""
        self.open.disk.steps_left = self.random.randrange(8)
        try:
            self.run(3)
            self.clock.advance(HOUR)
            self.open.driver.run(3)
        except Died:
            pass
        finally:
            self.open.disk.steps_left = None

    def _step(self) -> None:
        request = self._request()
        if request is None:
            self.clock.advance(self.random.choice((1, 400, 2_000, 31_000)))
            self.open.reap(self.random.randrange(4))
            if self.random.random() < 0.1:
                self._damage()
            self.open.driver.run(self.random.randrange(4))
            return
        answer: Future[Any] = self.open.store.submit(request)
        if self.random.random() < 0.2:
            self.open.store.submit(self._send())
        self.open.driver.run(self.random.choice((1, 1, 3)))
        if not answer.done():
            self.open.driver.run()
        if answer.exception(timeout=0) is not None:
            return
        found = answer.result()
        if isinstance(request, Receive):
            self.leased += messages_of(found)
        elif isinstance(request, Send):
            assert isinstance(found, SendResults)
            self.sent += [(request.queue, id) for id in found.results if isinstance(id, str)]

    def _damage(self) -> None:
        """Change a byte of a message's file."""
        files = [file for file in sorted(self.root.glob("queues/*/*")) if file.stat().st_size]
        if files:
            file = self.random.choice(files)
            content = bytearray(file.read_bytes())
            content[self.random.randrange(len(content))] ^= 1
            file.write_bytes(content)

    def _request(self) -> Request[Any] | None:
        chance = self.random
        queue = chance.choice(list(SETTINGS))
        mine = [each for each in self.leased if each.queue == queue]
        chosen = chance.sample(mine, min(len(mine), chance.randint(1, 4)))
        receipts = [each.receipt for each in chosen if each.receipt is not None]
        match chance.choice("ssssrrrrrddetoojgipxuq"):
            case "s":
                return self._send()
            case "r":
                return Receive(
                    queue=queue,
                    max_messages=chance.choice((1, 2, 5, 400)),
                    visibility_timeout=chance.choice((None, Millis(1_000), Millis(HOUR))),
                )
            case "d":
                return Delete(queue=queue, receipts=receipts)
            case "e":
                return ChangeVisibility(queue=queue, receipts=receipts, visibility_timeout=Millis(HOUR))
            case "o":
                return ReleaseMessages(
                    queue=queue,
                    receipts=receipts,
                    delay=chance.choice((None, Millis(0), Millis(HOUR))),
                    reason=chance.choice(("", "no such customer")),
                    uncounted=chance.random() < 0.3,
                )
            case "j":
                return RejectMessages(queue="poor", receipts=receipts, reason="unknown ☃")
            case "g":
                return GiveBack(queue=queue, receipts=receipts)
            case "i":
                there = [id for sent_to, id in self.sent if sent_to == queue]
                return Delete(queue=queue, ids=chance.sample(there, min(len(there), 3)))
            case "p" if chance.random() < 0.3:
                return Purge(queue=queue)
            case "x":
                return StartRedrive(queue="dead", destination=chance.choice(("", "late")))
            case "u":
                window = chance.choice((Millis(5_000), Millis(HOUR)))
                return UpdateQueue(name=queue, changes={"deduplication_window": window})
            case "q" if chance.random() < 0.1:
                return DeleteQueue(name="strict")
            case _:
                return None

    def _send(self) -> Send:
        chance = self.random
        queue = chance.choice(list(SETTINGS))
        count = chance.choice((1, 1, 1, 2, 7, 40, 300))
        places = range(count)

        def some(share: float) -> list[int]:
            share *= chance.choice((0, 0, 1))
            return [place for place in places if chance.random() < share]

        request = Send(
            queue=queue,
            bodies=[chance.randbytes(chance.choice((0, 3, 20, 200))) for _ in places],
            attributes={place: {"kind": "größer\n", "raw": chance.randbytes(4)} for place in some(0.3)},
            delays=dict.fromkeys(some(0.5), Millis(5_000)),
            priorities={place: chance.randint(0, MAX_PRIORITY) for place in some(0.1)},
            deduplication_ids={place: chance.choice(DEDUPLICATION_IDS) for place in some(0.5)},
        )
        if queue in ("strict", "dead"):
            request.groups = {place: chance.choice(("a", "b ☃", "c,i0")) for place in some(0.7)}
        if count == 1 and chance.random() < 0.2:
            body = self.open.store.begin_body()
            body.write(request.bodies[0])
            request.bodies, request.written = [b""], body.finish()
        return request


def copy_of(root: Path, target: Path) -> Path:
    """Return a copy of a root in which each name has a file of its own, and no process lives."""
    shutil.copytree(root, target)
    return target
