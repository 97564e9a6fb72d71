"""Credits of a consumer: a bound on its leased messages, and on their bytes.

A receive charges the credits; the end of the lease (a delete, a release, an expiry, a purge, through
any connection or process) gives them back. Changed only by the engine, under its lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

UNBOUNDED: Final = sys.maxsize


class Credits:
    """A consumer's allowance of `limit` messages in flight, with `max_bytes` of bodies and attributes.

    The bytes may be exceeded by one message: a message of any size can be received.
    """

    __slots__ = ("_on_return", "bytes_in_flight", "in_flight", "limit", "max_bytes")

    def __init__(self, limit: int, on_return: Callable[[], None], max_bytes: int = UNBOUNDED) -> None:
        """`on_return` is called, from any thread and with locks held, whenever credit comes back:
        it must return at once and must not call the store."""
        self.limit = limit
        self.max_bytes = max_bytes
        self.in_flight = 0
        self.bytes_in_flight = 0
        self._on_return = on_return

    @property
    def free(self) -> int:
        """Messages that may still be leased; 0 also if no byte is free."""
        return max(0, self.limit - self.in_flight) if self.free_bytes else 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.max_bytes - self.bytes_in_flight)

    def charge(self, count: int, size: int = 0) -> None:
        self.in_flight += count
        self.bytes_in_flight += size

    def give_back(self, count: int, size: int = 0) -> None:
        self.in_flight -= count
        self.bytes_in_flight -= size
        self._on_return()
