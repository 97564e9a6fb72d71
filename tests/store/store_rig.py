"""A store with its threads on a real folder, a clock that stands still, and a disk that may fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from faulty_disk import FaultyDisk
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.operations import (
    ByReceipt,
    CreateQueue,
    Delete,
    Message,
    Outgoing,
    Receive,
    Request,
    Send,
    Sent,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.testing import ManualClock

Answer = TypeVar("Answer")

GIVE_UP = 60.0
"""Seconds after which a store that doesn't answer fails a test. A good one never comes near."""


@dataclass
class StoreRig:
    path: Path
    disk: FaultyDisk
    clock: ManualClock
    store: Store

    def ask(self, request: Request[Answer]) -> Answer:
        return self.store.submit(request).result(GIVE_UP)

    def create(self, queue: str = "q", **settings: object) -> None:
        self.ask(CreateQueue(name=queue, settings=QueueSettings().changed(settings)))

    def send(self, *bodies: bytes, queue: str = "q", delay: int | None = None) -> list[str]:
        span = None if delay is None else Millis(delay)
        request = Send(queue=queue, messages=[Outgoing(body=body, delay=span) for body in bodies])
        results = self.ask(request)
        assert all(isinstance(result, Sent) for result in results), results
        return [result.id for result in results if isinstance(result, Sent)]

    def wait_for(
        self,
        most: int = 1,
        *,
        queue: str = "q",
        wait: int | None = None,
        credits: Credits | None = None,
    ) -> Future[list[Message]]:
        """A receive that waits, by now, if there was nothing for it."""
        span = None if wait is None else Millis(wait)
        request = Receive(queue=queue, max_messages=most, wait=span, credits=credits)
        future = self.store.submit(request)
        self.in_turn()
        return future

    def receive(self, most: int = 1, *, queue: str = "q") -> list[Message]:
        return self.ask(Receive(queue=queue, max_messages=most))

    def delete(self, *messages: Message) -> None:
        targets = [ByReceipt(message.receipt or "") for message in messages]
        assert self.ask(Delete(queue=messages[0].queue, targets=targets)) == [None] * len(targets)

    def in_turn(self) -> None:
        """Return when all that was submitted before has had its commit."""
        for _ in range(2):
            self.ask(CreateQueue(name="in-turn", settings=QueueSettings()))


def until(holds: Callable[[], bool]) -> None:
    """Return once it is so: a thread of the store brings it about, and tells nobody."""
    pause, end = threading.Event(), time.monotonic() + GIVE_UP
    while not holds():
        assert time.monotonic() < end, "it never came about"
        pause.wait(0.002)


@contextmanager
def opened(path: Path, clock: ManualClock | None = None) -> Iterator[StoreRig]:
    path.mkdir(exist_ok=True)
    disk = FaultyDisk(LocalDisk(path))
    clock = clock if clock is not None else ManualClock()
    store = Store.open(path, clock=clock, disk=disk)
    try:
        yield StoreRig(path, disk, clock, store)
    finally:
        store.close()
