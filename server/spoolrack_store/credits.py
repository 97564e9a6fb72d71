"""Credits of a consumer: a bound on its leased messages, and on their bytes.

A receive charges the credits; the end of the lease (a delete, a release, an expiry, a purge, through
any connection or process) gives them back. Changed only by the engine, under its lock, but for
`report`.

Progress: the messages of a consumer with a concurrency are numbered in the order of delivery, and it
begins them in this order. Of those that it holds, the last ones, beyond its concurrency, are
prefetched: so each answer (a delete, a release) tells how far it is. A consumer that begins more than
its concurrency reports it. A consumer is silent once the lease of a prefetched message has expired: it
gets nothing new until it answers or reports.
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

    __slots__ = (
        *("_inferred", "_on_return", "_reported", "_silent_below", "bytes_in_flight"),
        *("concurrency", "delivered", "in_flight", "limit", "max_bytes"),
    )

    def __init__(
        self,
        limit: int,
        on_return: Callable[[], None],
        max_bytes: int = UNBOUNDED,
        *,
        concurrency: int = 0,
    ) -> None:
        """`on_return` is called, from any thread and with locks held, whenever credit comes back:
        it must return at once and must not call the store. With a `concurrency` of 0 each message is
        begun as it is delivered."""
        self.limit = limit
        self.max_bytes = max_bytes
        self.concurrency = concurrency
        self.in_flight = 0
        self.bytes_in_flight = 0
        self.delivered = 0
        """Messages so far; the number of the next."""
        self._on_return = on_return
        self._inferred = concurrency
        """All below this number may be begun, by the last answer."""
        self._reported = 0
        self._silent_below = 0
        """A report must pass this number to end the silence; 0: there is none."""

    def disconnect(self) -> None:
        """Call `on_return` no more: the consumer has gone, and its leases may go on."""
        self._on_return = _ignore

    @property
    def free(self) -> int:
        """Messages that may still be leased; 0 also if no byte is free, or the consumer is silent."""
        if self.is_silent or not self.free_bytes:
            return 0
        return max(0, self.limit - self.in_flight)

    @property
    def free_bytes(self) -> int:
        return max(0, self.max_bytes - self.bytes_in_flight)

    @property
    def begun(self) -> int:
        """The number below which all messages are begun."""
        if not self.concurrency:
            return UNBOUNDED
        return max(self._inferred, self._reported)

    @property
    def is_silent(self) -> bool:
        """Whether a prefetched message expired, and the consumer hasn't answered or reported since."""
        return self._silent_below > self.begun

    def charge(self, count: int, size: int = 0) -> None:
        self.in_flight += count
        self.bytes_in_flight += size

    def deliver(self, count: int) -> int:
        """Number messages that were charged; return the first number."""
        first = self.delivered
        self.delivered += count
        return first

    def give_back(self, count: int, size: int = 0, *, is_answer: bool = True) -> None:
        """Give back what an answer of the consumer has ended, or time, or the loss of a response."""
        self.in_flight -= count
        self.bytes_in_flight -= size
        if is_answer and self.concurrency:
            begun = self.delivered - self.in_flight + self.concurrency
            self._inferred = max(self._inferred, begun)
            self._silent_below = 0
        self._on_return()

    def be_silent(self, below: int) -> None:
        """Note that messages below this number were prefetched, and expired."""
        self._silent_below = max(self._silent_below, below)

    def undeliver(self, count: int) -> None:
        """Note that the messages delivered last don't reach the consumer: others get their numbers."""
        self.delivered -= count

    def report(self, begun: int, limit: int | None = None, max_bytes: int | None = None) -> None:
        """Note how many of the messages that have reached it the consumer has begun or dropped, and new
        limits. Called from any thread, but from one only."""
        if limit is not None:
            self.limit = limit
        if max_bytes is not None:
            self.max_bytes = max_bytes
        if self.is_silent:
            # Its lost messages ended without an answer. Of those that it holds now, it begins the first
            # ones without a report.
            begun = max(begun, self.delivered - self.in_flight + self.concurrency)
        self._reported = max(self._reported, begun)
        self._silent_below = 0
        self._on_return()


def _ignore() -> None:
    pass
