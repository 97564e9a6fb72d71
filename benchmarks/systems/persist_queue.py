"""persist-queue: SQLiteAckQueue. Several threads may share it, several processes may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import persistqueue

from .base import WAIT, Received, Shape, SystemFacts
from .library import Library, LibraryDriver


class PersistQueueDriver(LibraryDriver):
    is_shared = True

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._queue: Any = persistqueue.SQLiteAckQueue(
            str(self.folder), multithreading=True, timeout=60.0
        )

    def send(self, body: bytes) -> None:
        self._queue.put(body)

    def receive(self, count: int) -> list[Received]:
        try:
            found = self._queue.get(timeout=WAIT, raw=True)
        except persistqueue.Empty:
            return []
        return [Received(found["data"], found["pqid"])]

    def delete(self, messages: Sequence[Received]) -> None:
        for message in messages:
            self._queue.ack(id=message.handle)

    def close(self) -> None:
        self._queue.close()


class PersistQueue(Library):
    name = "persist-queue"
    distribution = "persist-queue"
    driver = PersistQueueDriver
    only = frozenset({"hundreds", "callers", "one"})
    shapes = {  # noqa: RUF012
        "hundreds": Shape(senders=(1, 8), batch=100),
        "callers": Shape(senders=(1, 64)),
    }
    draining = Shape(senders=(0, 0), consumers=(1, 1))
    facts = SystemFacts(
        title="persist-queue",
        configuration="SQLiteAckQueue, multithreading; SQLite's WAL, synchronous FULL (its default)",
        note="One process only: all load comes from its threads, and no producer is beside a consumer.",
    )
