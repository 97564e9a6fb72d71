"""Retry policies: `RetryPolicy` for calls, `Backoff` and `Retry` for messages.

Pure: time and randomness are arguments.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from random import Random
from typing import Final

from ._arguments import MAX_DELAY, flag, integer, number, optional_span, span
from ._arguments import reason as checked_reason
from ._values import Seconds, seconds_of
from .errors import SpoolrackError

MAX_FACTOR: Final = 1_000.0
_MAX_EXPONENT: Final = 64
"""Bounds the exponent, so that a failure that lasts for days doesn't overflow a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Retries of a failed call: exponential backoff with full jitter.

    Only a `retryable` error is repeated, and not before the delay that the server named.
    `RetryPolicy(attempts=1)` never repeats.
    """

    initial: float = 0.05
    """The upper bound of the first pause, in seconds."""
    factor: float = 2.0
    """Factor of the bound after each failure: from 1 to 1,000."""
    maximum: float = 5.0
    """The bound never grows beyond this, in seconds."""
    attempts: int | None = None
    """How often a call is made at most, the first time included. None: until the timeout."""

    def __post_init__(self) -> None:
        span("initial", self.initial)
        number("factor", self.factor, 1.0, MAX_FACTOR)
        span("maximum", self.maximum)
        if self.attempts is not None:
            integer("attempts", self.attempts, 1)

    def pause(self, error: SpoolrackError, *, failed: int, left: float, random: Random) -> float | None:
        """Return the seconds to wait after the `failed`th failure in a row, `left` before the timeout.

        None: give up, because a repetition can't help or would come too late.
        """
        if not error.retryable or (self.attempts is not None and failed >= self.attempts):
            return None
        bound = min(self.maximum, self.initial * self.factor ** min(failed - 1, _MAX_EXPONENT))
        pause = random.uniform(0.0, bound)
        if error.retry_delay is not None:
            # On top of the server's delay, so that the callers it turned away don't return together.
            pause += error.retry_delay.total_seconds()
        return pause if pause < left else None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay of a message whose handler failed: exponential backoff with jitter.

    The delay is `initial` after the first receive, and is multiplied by `factor` with each further one,
    up to `maximum`. Up to `jitter` percent of it are left off at random, so that messages that failed
    together are retried apart.
    """

    initial: Seconds = 1.0
    """Above 0."""
    factor: float = 2.0
    """From 1 to 1,000."""
    maximum: Seconds = 300.0
    """Above 0, up to 365 days."""
    jitter: float = 50
    """Percent, from 0 (none) to 100, as the queue's `backoff_jitter`. A float up to 1.0 is taken for a
    fraction, which is deprecated."""

    def __post_init__(self) -> None:
        span("initial", self.initial, is_positive=True)
        number("factor", self.factor, 1.0, MAX_FACTOR)
        span("maximum", self.maximum, is_positive=True, most=MAX_DELAY)
        number("jitter", self.jitter, 0.0, 100.0)
        if isinstance(self.jitter, float) and 0.0 < self.jitter <= 1.0:
            percent = round(self.jitter * 100, 9)
            warnings.warn(
                f"Backoff.jitter is in percent: write jitter={percent:g} in place of {self.jitter:g}",
                DeprecationWarning,
                stacklevel=3,
            )
            object.__setattr__(self, "jitter", percent)

    def delay(self, receive_count: int, random: Random) -> float:
        """Return the delay in seconds after so many receives."""
        exponent = min(max(0, receive_count - 1), _MAX_EXPONENT)
        bound = min(seconds_of(self.maximum), seconds_of(self.initial) * self.factor**exponent)
        return bound * random.uniform(1.0 - self.jitter / 100, 1.0)


class Retry(Exception):
    """A retry of a message after a delay: raised from a handler, or in the block of the message.

        raise Retry(after=60)

    The message is ready again `after` so many seconds, up to 365 days. Without `after` the worker's
    `Backoff` decides, and else the queue's back-off. With `count=False` the receive isn't
    counted, for a failure that the message hasn't caused. A worker doesn't report it to `on_error`.
    """

    def __init__(self, after: Seconds | None = None, *, reason: str = "", count: bool = True) -> None:
        super().__init__() if after is None else super().__init__(after)
        self.after = optional_span("after", after, most=MAX_DELAY)
        """Seconds. None: as the backoff says."""
        self.reason = checked_reason(reason)
        """Kept in the dead-letter record, if the message becomes a dead letter by this."""
        self.count = flag("count", count)


class Reject(Exception):
    """A rejection of a message, which makes it a dead letter: raised from a handler, or in its block.

        raise Reject("the order has no customer")

    The dead-letter record keeps the reason. A worker doesn't report it to `on_error`. If the message
    can't be rejected, it is released as after any failure, and `on_error` is called with the reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = checked_reason(reason)
