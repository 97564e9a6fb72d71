"""When a failed call is repeated. Pure: time and randomness are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .arguments import integer, span
from .errors import SpoolrackError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with full jitter: a random pause from zero to a bound that doubles.

    Only what is `retryable` is repeated, and not before the delay that the server named.
    `RetryPolicy(attempts=1)` never repeats.
    """

    first: float = 0.05
    """The bound of the first pause, in seconds."""
    growth: float = 2.0
    most: float = 5.0
    """The bound never grows beyond this, in seconds."""
    attempts: int | None = None
    """How often a call is made at most, the first time included. None: until the timeout."""

    def __post_init__(self) -> None:
        span("first", self.first)
        span("growth", self.growth)
        span("most", self.most)
        if self.attempts is not None:
            integer("attempts", self.attempts, 1)

    def pause(self, error: SpoolrackError, *, failed: int, left: float, random: Random) -> float | None:
        """Seconds to wait after the `failed`th failure in a row, with `left` seconds until the timeout.

        None: give up, because a repetition can't help or would come too late.
        """
        if not error.retryable or (self.attempts is not None and failed >= self.attempts):
            return None
        # The exponent is bounded so that a stream which fails for days doesn't overflow a float.
        bound = min(self.most, self.first * self.growth ** min(failed - 1, 64))
        pause = random.uniform(0.0, bound)
        if error.retry_delay is not None:
            # On top of the server's delay, or all whom it turned away would be back at one moment.
            pause += error.retry_delay.total_seconds()
        return pause if pause < left else None
