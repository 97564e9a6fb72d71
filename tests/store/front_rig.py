"""A store with its thread on a real folder, and a clock that its readings and the test move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spoolrack_store.committer import Committer
from spoolrack_store.files.changes import LOCK
from spoolrack_store.files.disk import Lock
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import ALL_WORK, BackgroundWork
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Delivery, Receive, Request, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.thread_driver import run_whole

Answer = TypeVar("Answer")
GIVE_UP = 60.0
"""Seconds after which a store that doesn't answer fails a test. A good one never comes near."""


class FailingDisk(LocalDisk):
    """A disk whose syncs fail when a test says so."""

    fails = False
    syncs = 0
    before_sync: Callable[[], None] | None = None

    def sync_file(self, path: str) -> None:
        self._told()
        super().sync_file(path)

    def sync_folder(self, path: str) -> None:
        self._told()
        super().sync_folder(path)

    def sync_all(self) -> None:
        self._told()
        super().sync_all()

    def _told(self) -> None:
        self.syncs += 1
        if self.before_sync is not None:
            self.before_sync()
        if self.fails:
            raise OSError(5, "Input/output error")


def taken_lock(root: Path) -> Lock:
    """Take the lock of a root: a commit that is answered may not have left it yet."""
    disk, pause = LocalDisk(root), threading.Event()
    while (lock := disk.lock(LOCK)) is None:
        pause.wait(0.001)
    return lock


class CallersDriver:
    """Runs the commits when it is told to, in the caller's thread."""

    committer: Committer

    def start(self, committer: Committer) -> None:
        self.committer = committer

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        self.run()

    def run(self, most: int | None = None) -> None:
        """Commit as long as there is something to do, or so often."""
        for _ in range(1_000 if most is None else most):
            if not self.committer.poll_work()[0]:
                return
            run_whole(self.committer)
        assert most is not None, "the store doesn't come to rest"


@dataclass
class FrontRig:
    path: Path
    disk: FailingDisk
    clock: Clock
    store: Store

    @property
    def manual_clock(self) -> ManualClock:
        assert isinstance(self.clock, ManualClock)
        return self.clock

    def ask(self, request: Request[Answer]) -> Answer:
        return self.store.submit(request).result(GIVE_UP)

    def send(self, *bodies: bytes, queue: str = "q") -> list[str]:
        results = self.ask(Send(queue=queue, bodies=bodies)).results
        ids = [result for result in results if isinstance(result, str)]
        assert len(ids) == len(bodies), results
        return ids

    def send_together(self, count: int) -> list[str]:
        """Send one message, and so many others that share the next commit; return their ids."""
        reached, advance = threading.Event(), threading.Event()

        def hold() -> None:
            self.disk.before_sync = None
            reached.set()
            assert advance.wait(GIVE_UP)

        send = Send(queue="q", bodies=[b"x"])
        self.disk.before_sync = hold
        first = self.store.submit(send)
        assert reached.wait(GIVE_UP)
        others = [self.store.submit(send) for _ in range(count)]
        advance.set()
        return [str(each.result(GIVE_UP).results[0]) for each in (first, *others)]

    def receive(self, most: int = 1, *, queue: str = "q") -> list[Delivery]:
        return self.ask(Receive(queue=queue, max_messages=most))

    def wait_for(self, most: int = 1, *, wait: int | None = None) -> Future[list[Delivery]]:
        """Return a receive that waits, by now, if there was nothing for it."""
        span = None if wait is None else Millis(wait)
        future = self.store.submit(Receive(queue="q", max_messages=most, wait=span))
        self.in_turn()
        return future

    def delete(self, *deliveries: Delivery) -> None:
        receipts = receipts_of(deliveries)
        assert self.ask(Delete(queue="q", receipts=receipts)) == [None] * len(receipts)

    def in_turn(self) -> None:
        """Return when all that was submitted before has had its commit."""
        for _ in range(2):
            self.ask(Send(queue="in-turn", bodies=[]))


def bodies_of(deliveries: list[Delivery]) -> list[bytes]:
    return [body for delivery in deliveries for body in delivery.bodies]


def receipts_of(deliveries: tuple[Delivery, ...] | list[Delivery]) -> list[str]:
    return [receipt for delivery in deliveries for receipt in delivery.receipts]


@contextmanager
def opened(
    path: Path, clock: Clock | None = None, background: BackgroundWork = ALL_WORK
) -> Iterator[FrontRig]:
    path.mkdir(exist_ok=True)
    disk = FailingDisk(path)
    clock = clock if clock is not None else ManualClock(ticks=True)
    store = Store.open(path, clock=clock, disk=disk, background=background)
    try:
        rig = FrontRig(path, disk, clock, store)
        for name in ("q", "in-turn"):
            rig.ask(CreateQueue(name=name, settings=QueueSettings()))
        rig.ask(CreateQueue(name="relaxed", settings=QueueSettings(lease_durability="relaxed")))
        yield rig
    finally:
        store.close()
