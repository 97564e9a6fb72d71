"""Log of refused calls, to be found by their request ids.

Rate-limited: beyond a few a second with the same reason they are only counted, and the next line says
how many were left out. A fault of the server is a warning, the rest is information.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from spoolrack_store.model.clock import stopwatch

from ..system.logs import Log

BURST: Final = 10
"""Lines with one reason at once."""
RATE: Final = 1.0
"""More of them each second."""
QUIET: Final = frozenset({"DRAINING"})
"""Every caller gets it while a server stops; the reason is logged."""


class ErrorLog:
    """The log of one server. Lives in one event loop."""

    def __init__(self, log: Log, now: Callable[[], float] = stopwatch) -> None:
        self._log = log
        self._now = now
        self._reasons: dict[str, _TokenBucket] = {}

    def log(self, operation: str, reason: str, detail: str, *, is_fault: bool) -> None:
        """Log a refused call for `operation`, with one of Spoolrack's reasons."""
        if reason in QUIET:
            return
        told = self._reasons.get(reason)
        if told is None:
            told = self._reasons[reason] = _TokenBucket(self._now())
        left_out = told.take(self._now())
        if left_out is None:
            return
        facts = {"left_out": left_out} if left_out else {}
        level = logging.WARNING if is_fault else logging.INFO
        self._log.log(level, "refused", operation=operation, reason=reason, detail=detail, **facts)


class _TokenBucket:
    """Token bucket of log lines."""

    def __init__(self, now: float) -> None:
        self._lines = float(BURST)
        self._since = now
        self._left_out = 0

    def take(self, now: float) -> int | None:
        """Take a token; return how many lines were left out before this one. None: this line is left
        out, too."""
        self._lines = min(float(BURST), self._lines + (now - self._since) * RATE)
        self._since = now
        if self._lines < 1:
            self._left_out += 1
            return None
        self._lines -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
