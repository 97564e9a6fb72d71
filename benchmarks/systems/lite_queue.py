"""litequeue: a table of SQLite, which every process opens for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litequeue import LiteQueue as Table

from .base import Received, Shape, SystemFacts
from .library import Library, LibraryDriver


class LiteQueueDriver(LibraryDriver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._queue: Any = Table(str(self.folder / "queue.db"), timeout=60.0)
        self._queue.conn.execute("PRAGMA synchronous = FULL")

    def send(self, body: bytes) -> None:
        self._queue.put(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        with self._queue.transaction(mode="IMMEDIATE"):
            for body in bodies:
                self._queue.put(body)

    def take(self) -> Received | None:
        message = self._queue.pop()
        return None if message is None else Received(message.data, message.message_id)

    def delete(self, messages: Sequence[Received]) -> None:
        with self._queue.transaction(mode="IMMEDIATE"):
            for message in messages:
                self._queue.done(message.handle)

    def close(self) -> None:
        self._queue.close()


class LiteQueue(Library):
    name = "litequeue"
    distribution = "litequeue"
    driver = LiteQueueDriver
    draining = Shape(senders=(0, 0), consumers=(1, 1))
    """Eight at once wait for each other's locks for minutes."""
    only = frozenset({"callers", "one", "singles", "tens", "paced"})
    """Messages sent in hundreds within a second take it minutes to deliver."""
    facts = SystemFacts(
        title="litequeue",
        configuration="SQLite's WAL, synchronous FULL (its own choice: NORMAL); many in a transaction",
        note="In the processes themselves, no server. Finished messages stay in the table. Not in "
        "hundreds: to receive again what it takes in a second takes minutes.",
    )
