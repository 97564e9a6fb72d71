"""How fast a redrive may go on, by the monotonic clock. Pure."""

from __future__ import annotations

from typing import Final

from ...model.clock import SECOND, Millis

PORTION: Final = Millis(100)
"""What so much time allows is moved together, so that a high rate needs no commit for each message."""
AT_ONCE: Final = 100
"""So many messages one commit looks at, so that others needn't wait. No rate allows more of them at
once: what a commit leaves of them would come on top of the next portion."""


class Pace:
    """So many messages a second at most; never more than a portion, or one, at once."""

    def __init__(self, rate: int, now: Millis) -> None:
        """A `rate` of 0 has no bound."""
        self._rate = rate
        self._most = max(SECOND, min(rate * PORTION, AT_ONCE * SECOND))
        self._allowed = 0
        """In thousandths of a message."""
        self._since = now

    def allowed(self, now: Millis, most: int) -> int:
        """How many messages may be moved now, up to `most`."""
        if not self._rate:
            return most
        passed = max(0, now - self._since)
        self._since = now
        self._allowed = min(self._most, self._allowed + passed * self._rate)
        return min(most, self._allowed // SECOND)

    def moved(self, count: int) -> None:
        if self._rate:
            self._allowed -= count * SECOND

    def next(self, now: Millis) -> Millis:
        """When so many are allowed that it is worth a commit."""
        if not self._rate:
            return now
        missing = self._most - self._allowed
        return Millis(self._since + max(0, -(-missing // self._rate)))
