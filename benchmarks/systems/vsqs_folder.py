"""vsqs 0.3, Spoolrack's ancestor: a folder, a file a message, its deadline in the name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from vsqs.queue import QueueManager

from .base import WAIT, Received, SystemFacts
from .library import Library, LibraryDriver

_LEASE = 600


class VsqsDriver(LibraryDriver):
    is_shared = True

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        warnings.simplefilter("ignore", DeprecationWarning)  # Its own, one for every event.
        self._manager: Any = QueueManager(address)
        self._queue: Any = self._manager.get_queue(queue)

    def send(self, body: bytes) -> None:
        self._queue.publish(body)

    def receive(self, count: int) -> list[Received]:
        # One by one, as it is; the wait for the first is its own.
        id, body = self._queue.receive(visibility_timeout=_LEASE, timeout=WAIT)
        return [] if id is None else [Received(body, id)]

    def delete(self, messages: Sequence[Received]) -> None:
        for message in messages:
            self._queue.delete(message.handle)

    def close(self) -> None:
        self._manager.close()


class Vsqs(Library):
    name = "vsqs"
    distribution = "vsqs"
    driver = VsqsDriver
    facts = SystemFacts(
        title="vsqs",
        configuration="as it is: every file is synced, no folder ever is",
        note="In the processes themselves. The power may take what is in an unsynced folder.",
    )
