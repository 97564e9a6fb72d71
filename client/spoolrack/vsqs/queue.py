"""The names of vsqs, for a program that changes only its import.

    from spoolrack.vsqs.queue import QueueManager, QueueFullException  # of vsqs 0.3
    from spoolrack.vsqs.queue import Queue                             # of its repository's head

A queue is a folder, shared with any number of processes that use this module or vsqs itself. Raises
`OSError` as the system does.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Final, Self

from ._folder import Full, MessageFolder

MAX_CACHE_SIZE: Final = 256
"""Of no use here: every message can be deleted, wherever it was received."""


class QueueException(Exception):
    """The base of a queue's errors."""


class QueueFullException(QueueException):
    """The queue has reached its capacity, the argument, and no message was deleted in time."""


def micros() -> int:
    """Return the Unix time in microseconds. A test may replace it."""
    return time.time_ns() // 1_000


_OURS: Final = micros


def now() -> int:
    """Return the time of the clock, which a test may replace in this module or in the package."""
    replaced = getattr(sys.modules.get(__package__ or ""), "micros", _OURS)
    return int((micros if replaced is _OURS else replaced)())


class Queue:
    """A folder as a queue. Safe to share between threads; usable after a fork."""

    def __init__(self, path: str | os.PathLike[str], capacity: int | None = None) -> None:
        """Makes the folder if need be. `capacity`: with this many messages, leased ones included,
        publishers wait; None is no limit. Each process has its own."""
        self.path = os.fspath(path)
        self.capacity = capacity
        self._folder = MessageFolder(self.path, now)
        self._folder.make()

    def publish(self, data: bytes, timeout: float | None = None) -> str:
        """Store a message; returns its id once it survives a loss of power.

        At capacity waits for a deletion, up to `timeout` seconds, None for ever, and then raises
        `QueueFullException`.
        """
        try:
            number = self._folder.publish(data, capacity=self.capacity, timeout=timeout)
        except Full as full:
            raise QueueFullException(full.size) from None
        self._folder.sync()
        return str(number)

    def receive(
        self, visibility_timeout: float = 10, timeout: float | None = None
    ) -> tuple[str, bytes] | tuple[None, None]:
        """Lease the oldest message for `visibility_timeout` seconds; returns its id and its content.

        Waits for one up to `timeout` seconds, None for ever; then, or when the queue is closed,
        returns (None, None). With 0 it looks once.
        """
        for message in self._folder.lease(visibility_timeout, timeout=timeout):
            return str(message.name.number), message.body
        return None, None

    def delete(self, m_id: str | int) -> None:
        """Delete a message, leased or not; return once that survives a loss of power.

        It is no error if there is none.
        """
        text = str(m_id)
        if text.isascii() and text.isdecimal() and self._folder.delete(int(text)):
            self._folder.sync()

    def size(self) -> int:
        """Return the number of messages, those that are being consumed included."""
        return self._folder.size()

    def close(self) -> None:
        """End all waits: a `receive` that waits returns, a `publish` raises."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<spoolrack.vsqs.Queue {self.path}>"


class QueueManager:
    """A folder of queues."""

    def __init__(self, path: str | os.PathLike[str] = "") -> None:
        self.path = os.fspath(path)

    def get_queue(self, name: str, capacity: int | None = None) -> Queue:
        """Return the queue in the folder `name` below this one, which is created if it is missing."""
        return Queue(os.path.join(self.path, name), capacity)

    def close(self) -> None:
        """Do nothing: each queue is closed by itself."""
