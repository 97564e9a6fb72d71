"""How many leased messages a consumer may hold at once.

A receive charges the credits; whatever ends the lease (a delete, a release, an expiry, a purge,
through whichever connection or process) gives them back. Changed only by the engine, under its lock.
"""

from __future__ import annotations

from collections.abc import Callable


class Credits:
    """A consumer's allowance of `limit` messages in flight."""

    __slots__ = ("_on_return", "in_flight", "limit")

    def __init__(self, limit: int, on_return: Callable[[], None]) -> None:
        """`on_return` is called, from any thread and with locks held, whenever credit comes back:
        it must return at once and must not call the store."""
        self.limit = limit
        self.in_flight = 0
        self._on_return = on_return

    @property
    def free(self) -> int:
        return max(0, self.limit - self.in_flight)

    def charge(self, count: int) -> None:
        self.in_flight += count

    def give_back(self, count: int) -> None:
        self.in_flight -= count
        self._on_return()
