"""dirq: QueueSimple, a file a message in folders by time. It syncs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from dirq.QueueSimple import QueueSimple

from .base import Received, SystemFacts
from .library import Library, LibraryDriver


class DirqDriver(LibraryDriver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._queue: Any = QueueSimple(str(self.folder))
        self._names: Iterator[str] = iter(())

    def send(self, body: bytes) -> None:
        self._queue.add(body)

    def take(self) -> Received | None:
        # A listing is read to its end before the next one is made.
        for is_new in (False, True):
            if is_new:
                self._names = iter(list(self._queue.names()))
            for name in self._names:
                if self._queue.lock(name):
                    return Received(self._queue.get(name), name)
        return None

    def delete(self, messages: Sequence[Received]) -> None:
        for message in messages:
            self._queue.remove(cast(str, message.handle))


class Dirq(Library):
    name = "dirq"
    distribution = "dirq"
    driver = DirqDriver
    facts = SystemFacts(
        title="dirq",
        configuration="QueueSimple, as it is: nothing is synced",
        note="Not the same promise: acknowledged messages are lost with the power. "
        "In the process itself.",
    )
