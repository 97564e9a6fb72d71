"""Outages of servers, each of which is logged once by a process, whatever it has of streams.

A stream that has no connection for a moment is normal: a server restarts, a proxy ends an idle stream.
That is logged as INFO. A longer loss is an outage: one WARNING at its begin, one at its end.
"""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger("spoolrack")

TOLD_AFTER: Final = 5.0
"""Seconds without a connection after which it is an outage."""

_told: Final[dict[str, object]] = {}
"""Servers whose outage was logged, by address. Each change is one atomic call: there is no lock that a
forked child could find locked."""


def note_lost(server: str, queue: str, seconds: float, pause: float, error: Exception) -> None:
    """Log that a stream has had no connection for `seconds`, and tries again after a pause."""
    token = object()
    if seconds >= TOLD_AFTER and _told.setdefault(server, token) is token:
        log.warning(
            "no messages of %s arrive: %s doesn't answer since %.0f s. The stream is opened again once "
            "it does: %s",
            *(queue, server, seconds, error),
        )
    else:
        log.info("the stream of %s is opened again in %.2f s: %s", queue, pause, error)


def note_connected(server: str, seconds: float) -> None:
    """Log the end of an outage that was logged: a stream is connected after `seconds` without."""
    if _told.pop(server, None) is not None:
        log.warning("%s answers again, after %.0f s", server, seconds)


def level(server: str) -> int:
    """Return the level of what an outage brings with it: WARNING, or INFO if the outage was logged."""
    return logging.INFO if server in _told else logging.WARNING
