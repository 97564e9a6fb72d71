"""Callers and their permissions on queues, and the permission that a use case declares.

Independent of tokens, TLS and the wire. A refusal is `PermissionDenied`, whether the queue exists or
not: a caller without permission isn't told which queues there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Final, Protocol, TypeVar, cast

from spoolrack_store.model.errors import InvalidQueueName, PermissionDenied
from spoolrack_store.model.names import is_queue_name

Use = TypeVar("Use", bound=Callable[..., Any])

ALL_QUEUES: Final = "*"
LONGEST_AGENT: Final = 200
"""Characters of a user agent that are shown."""


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
    """The name of a caller's token, key or client certificate; empty: no authentication."""

    name: str = ""


class Access(Protocol):
    """The decision whether an identity has a permission."""

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        """Return whether `identity` has this permission on `queue`; "*": on all queues."""

    def allows_somewhere(self, identity: Identity, permission: Permission) -> bool:
        """Return whether `identity` can have this permission on any queue."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated identity with its permissions, which may change while it calls."""

    identity: Identity = Identity()
    access: Access | None = None
    """None: everything is permitted, on a server without permissions."""

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def owner(self) -> str:
        """The identity to which names that the caller uses first belong; "" where every caller may do
        everything."""
        return self.identity.name if self.access is not None else ""

    def may(self, permission: Permission, *queues: str) -> bool:
        """Return whether the caller has the permission on all of `queues`; "*" stands for all."""
        access = self.access
        return access is None or all(
            access.allows(self.identity, permission, queue) for queue in queues
        )

    def may_somewhere(self, permission: Permission) -> bool:
        """Return whether the caller can have the permission on any queue."""
        return self.access is None or self.access.allows_somewhere(self.identity, permission)

    def permissions(self, *queues: str) -> list[Permission]:
        """Return the caller's permissions on all of `queues`; "*" stands for all."""
        return [each for each in Permission if self.may(each, *queues)]

    def queues_for(self, permission: Permission) -> Callable[[str], bool] | None:
        """Return a predicate of queues on which the caller has the permission; None: all."""
        return None if self.may(permission, ALL_QUEUES) else lambda queue: self.may(permission, queue)

    def require(self, permission: Permission, queue: str) -> None:
        """Raise `PermissionDenied`; or `InvalidQueueName` for an invalid name."""
        # Not by `may` and `queue_name`: each message asks.
        if not is_queue_name(queue):
            raise InvalidQueueName(name=queue)
        access = self.access
        if access is not None and not access.allows(self.identity, permission, queue):
            raise self._denied(permission, queue)

    def require_named(self, permission: Permission, queue: str) -> None:
        """Raise as `require` does for the queue of a call that need not name one; "": it doesn't."""
        if queue:
            self.require(permission, queue)

    def require_everywhere(self, permission: Permission) -> None:
        """Raise `PermissionDenied` unless the caller has the permission on all queues."""
        if not self.may(permission, ALL_QUEUES):
            raise self._denied(permission, ALL_QUEUES)

    def require_somewhere(self, permission: Permission) -> None:
        """Raise `PermissionDenied` if the caller can't have the permission on any queue."""
        if not self.may_somewhere(permission):
            raise self._denied(permission, ALL_QUEUES)

    def _denied(self, permission: Permission, queue: str) -> PermissionDenied:
        return PermissionDenied(identity=self.name, permission=permission.value, queue=queue)


def consumer_name(caller: Caller, address: str, agent: str) -> str:
    """Return the name with which a caller's leases are shown: identity, address and user agent.

    It is for people: the user agent is whatever the client says. No credential is part of it.
    """
    name = ", ".join(filter(None, (caller.name, address, agent[:LONGEST_AGENT])))
    return name if name.isprintable() else "".join(each if each.isprintable() else "?" for each in name)


def on_queue(permission: Permission) -> Callable[[Use], Use]:
    """Require the permission on the queue that a use case names first, before anything else of it."""

    def declared(use: Use) -> Use:
        @wraps(use)
        def checked(self: Any, caller: Caller, queue: str, *args: Any, **kwargs: Any) -> Any:
            caller.require(permission, queue)
            return use(self, caller, queue, *args, **kwargs)

        return on_some_queue(permission)(cast(Use, checked))

    return declared


def on_some_queue(permission: Permission) -> Callable[[Use], Use]:
    """Declare the permission of a use case that finds its queues, and checks each."""

    def declared(use: Use) -> Use:
        use.__dict__["permission"] = permission
        return use

    return declared


def permission_of(needed: Permission | Callable[..., Any]) -> Permission:
    """Return the permission that a use case needs: a front may refuse a request before it is read."""
    found: Permission = needed if isinstance(needed, Permission) else needed.__dict__["permission"]
    return found
