"""Request ids: a name of each call and request in its log lines.

A caller may send its own, if it can stand in a log and a header as it is; else one is made. It is
returned with the answer, and stands in each line that is logged while the request is worked on. The
work of a commit for many requests belongs to none of them, and has no id.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from typing import Final

HEADER: Final = "x-request-id"
LONGEST: Final = 128

REQUEST_ID: Final[ContextVar[str]] = ContextVar("spoolrack-request-id", default="")
"""Of the request that this task works on; empty outside of any."""

PEER: Final[ContextVar[Callable[[], str | None]]] = ContextVar("spoolrack-peer", default=str)
"""Returns where the request of this task comes from, for as long as it runs, for the log."""
IDENTITY: Final[ContextVar[str]] = ContextVar("spoolrack-identity", default="")
"""Of the request's caller; empty: it isn't known."""

_SANE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@~-]{0,127}")


class RequestIds:
    """A maker of request ids that are unique, also among servers."""

    def __init__(self, seed: str | None = None) -> None:
        self._prefix = seed or secrets.token_hex(6)
        self._count = count(1)

    def choose(self, given_id: str | bytes | None) -> str:
        """Return the given id, if it is valid; else a new one."""
        if isinstance(given_id, str) and _SANE.fullmatch(given_id):
            return given_id
        return f"{self._prefix}-{next(self._count):x}"
