"""Log of refused calls, to be found by their request ids.

Rate-limited for each reason and caller: beyond a few a second they are only counted, and the next line
says how many were left out, so that the noise of one caller hides no other. A caller is an identity, or
an address where none is known. All callers together have a limit of their own. A fault of the server is
a warning, the rest is information.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from spoolrack_store.model.clock import stopwatch

from .logs import Log
from .request_ids import IDENTITY, PEER

BURST: Final = 10
"""Lines with one reason of one caller at once."""
RATE: Final = 1.0
"""More of them each second."""
ALL: Final = 20
"""Multiple of both for the lines of all callers."""
MOST_CALLERS: Final = 1_000
"""Whose lines are counted by themselves. More lose the counts of those that were refused the longest
ago."""
QUIET: Final = frozenset({"DRAINING"})
"""Every caller gets it while a server stops; the reason is logged."""


class ErrorLog:
    """The log of one server. Lives in one event loop."""

    def __init__(self, log: Log, now: Callable[[], float] = stopwatch) -> None:
        self._log = log
        self._now = now
        self._buckets: dict[tuple[str, str], _TokenBucket] = {}
        """By reason and caller, the one that was asked last at the end."""
        self._all = _TokenBucket(now(), ALL)

    def log(self, operation: str, reason: str, detail: str, *, is_fault: bool) -> None:
        """Log a refused call for `operation`, with one of Spoolrack's reasons."""
        if reason in QUIET:
            return
        peer, identity = _address(PEER.get()() or ""), IDENTITY.get()
        key = reason, identity or peer
        bucket = self._buckets.pop(key, None) or _TokenBucket(self._now())
        self._buckets[key] = bucket
        if len(self._buckets) > MOST_CALLERS:
            del self._buckets[next(iter(self._buckets))]
        left_out = bucket.take(self._now())
        if left_out is None:
            return
        left_out_of_all = self._all.take(self._now())
        if left_out_of_all is None:
            return
        facts = {
            name: value
            for name, value in (
                ("peer", peer),
                ("identity", identity),
                ("left_out", left_out),
                ("left_out_of_all", left_out_of_all),
            )
            if value
        }
        level = logging.WARNING if is_fault else logging.INFO
        self._log.log(level, "refused", operation=operation, reason=reason, detail=detail, **facts)


def _address(peer: str) -> str:
    """Return the address of a peer as gRPC names it, `ipv4:192.0.2.1:41234`, or as it is."""
    kind, colon, rest = peer.partition(":")
    if not colon or kind not in ("ipv4", "ipv6"):
        return peer
    return unquote(rest.rpartition(":")[0]).strip("[]")


class _TokenBucket:
    """Token bucket of log lines."""

    def __init__(self, now: float, times: int = 1) -> None:
        self._burst, self._rate = float(times * BURST), times * RATE
        self._lines = self._burst
        self._since = now
        self._left_out = 0

    def take(self, now: float) -> int | None:
        """Take a token; return how many lines were left out before this one. None: this line is left
        out, too."""
        self._lines = min(self._burst, self._lines + (now - self._since) * self._rate)
        self._since = now
        if self._lines < 1:
            self._left_out += 1
            return None
        self._lines -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
