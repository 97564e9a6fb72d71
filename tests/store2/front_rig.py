"""A store with its thread on a real folder, and a clock that stands still."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from linked_disk import FOLDERS
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.testing import ManualClock
from spoolrack_store2.changes import LOCK, PATH, SIZE
from spoolrack_store2.engine import Engine
from spoolrack_store2.local_disk import LocalDisk
from spoolrack_store2.operations import Delete, Delivery, Receive, Request, Send
from spoolrack_store2.store import Store

Answer = TypeVar("Answer")
GIVE_UP = 60.0
"""Seconds after which a store that doesn't answer fails a test. A good one never comes near."""


class Mapped:
    """`CHANGES`, as all processes see it."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(file, SIZE)
            self._map = mmap.mmap(file, SIZE)
        finally:
            os.close(file)

    def read(self, offset: int, length: int) -> bytes:
        return self._map[offset : offset + length]

    def write(self, offset: int, content: bytes) -> None:
        self._map[offset : offset + len(content)] = content


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


@dataclass
class FrontRig:
    path: Path
    disk: FailingDisk
    clock: Clock
    store: Store
    engine: Engine

    def ask(self, request: Request[Answer]) -> Answer:
        return self.store.submit(request).result(GIVE_UP)

    def send(self, *bodies: bytes, queue: str = "q", delay: int | None = None) -> list[str]:
        span = None if delay is None else Millis(delay)
        results = self.ask(Send(queue=queue, bodies=bodies, delay=span)).results
        ids = [result for result in results if isinstance(result, str)]
        assert len(ids) == len(bodies), results
        return ids

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


def make_root(path: Path) -> None:
    for folder in (*FOLDERS, "queues/q", "queues/relaxed", "queues/in-turn"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("FORMAT", LOCK):
        (path / name).touch()


@contextmanager
def opened(
    path: Path, clock: Clock | None = None, *, owner: str = "p1", living: tuple[str, ...] = ()
) -> Iterator[FrontRig]:
    """Open a store; `living` are the owners of other processes that live."""
    make_root(path)
    disk = FailingDisk(path)
    clock = clock if clock is not None else ManualClock()
    engine = Engine(
        disk,
        Mapped(path / PATH),
        clock=clock,
        random=Random(1),
        owner=owner,
        pid=os.getpid(),
        is_living=lambda owner: owner in living,
    )
    engine.catalog.add("q", QueueSettings())
    engine.catalog.add("in-turn", QueueSettings())
    engine.catalog.add("relaxed", QueueSettings(relaxed_leases=True))
    store = Store(engine, clock)
    try:
        yield FrontRig(path, disk, clock, store, engine)
    finally:
        store.close()
