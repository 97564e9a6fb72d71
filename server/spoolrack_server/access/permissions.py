"""Permissions of an identity on queues. Values, independent of tokens, TLS and the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol


class Permission(Enum):
    """A permission on a queue. No permission implies another."""

    SEND = "send"
    """Send and stage messages."""
    RECEIVE = "receive"
    """Receive, look at, extend, release and delete messages; reserve them."""
    MANAGE = "manage"
    """Create, change, purge and delete the queue; redrive its dead letters; make its schedules."""
    MONITOR = "monitor"
    """See that the queue is there, its settings and its counts, and no message."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller, by the name of its token or client certificate; empty: no authentication."""

    name: str = ""


class Access(Protocol):
    """The decision whether an identity has a permission."""

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        """Return whether `identity` has this permission on `queue`; "*": on all queues."""


class OpenAccess:
    """All permissions for every caller: a server without authentication."""

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        return True


OPEN: Final = OpenAccess()
