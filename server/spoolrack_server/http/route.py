"""A route of HTTP: method, path, handler, and the permission that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from ..app.caller import Caller, Permission, permission_of

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    """As OpenAPI writes it."""
    endpoint: Endpoint
    needs: Permission | Callable[..., Any] | None = None
    """The permission, or the use case that has one, needed for the queue in the path. Without a queue
    there: the permission for all queues, or that of a use case for some queue. None: none."""
    is_page: bool = False
    """Served also while the server drains."""
    is_open: bool = False
    """Also without credentials."""
    parameters: Collection[str] = ()
    """Names that its query may have; of one that is open, any."""
    repeatable: Collection[str] = ()
    """Parameters that a query may have several times."""
    leases: bool = False
    """A receive or a reserve: ends with its client. A GET isn't safe then."""

    def require(self, caller: Caller, queue: str | None) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make, before its body is
        read."""
        if self.needs is None:
            return
        if queue is not None:
            caller.require(permission_of(self.needs), queue)
        elif isinstance(self.needs, Permission):
            caller.require_everywhere(self.needs)
        else:
            caller.require_somewhere(permission_of(self.needs))

    @property
    def changes(self) -> bool:
        """Whether the route changes anything."""
        return self.leases or self.method not in ("GET", "HEAD")


def with_heads(routes: Iterable[Route]) -> Iterator[Route]:
    """Yield the routes, and a HEAD for each GET, except a receive: a HEAD would hide a message."""
    for route in routes:
        yield route
        if route.method == "GET" and not route.leases:
            yield replace(route, method="HEAD")


def pattern(path: str) -> str:
    """Return the path in the syntax of aiohttp's router, which excludes `/-/` from queues."""
    return path.replace("{queue}", "{queue:(?!-(?:/|$))[^/]+}")
