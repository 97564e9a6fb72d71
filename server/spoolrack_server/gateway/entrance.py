"""Who sends a request, and whether he may: looked at before its endpoint is, by the table of routes.

What is not served at all is told to those alone whom the server knows.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..access.certificates import name_in_ssl
from ..access.guard import NOBODY, Guard
from ..access.permissions import Identity
from .errors import WrongHost

if TYPE_CHECKING:
    from .routes import Route

IDENTITY: Final = web.RequestKey("identity", Identity)
"""The `Identity` of who sends a request, in the request."""


class Entrance:
    """Of one gateway."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._routes: dict[tuple[str, Any], Route] = {}
        self._waiting: dict[asyncio.Task[Any], web.Request] = {}
        """Those that only look or receive, and may do so for long."""

    def add(self, route: Route) -> None:
        self._routes[route.method, route.endpoint] = route

    def admit(self, request: web.Request) -> None:
        """Raises `Unauthenticated`, `PermissionDenied`, `InvalidQueueName` or `WrongHost`."""
        request[IDENTITY] = NOBODY
        route = self._routes.get((request.method, request.match_info.handler))
        if self.guard.is_open:
            if route is not None and not route.is_open:
                _require_own_name(request)
            return
        self._check(request)
        task = asyncio.current_task()
        if request.method == "GET" and task is not None:
            self._waiting[task] = request
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._waiting.pop(task, None)

    def look_again(self) -> None:
        """Who may do what has changed: hang up on long polls that could not begin any more."""
        for task, request in list(self._waiting.items()):
            try:
                self._check(request)
            except StoreError:
                task.cancel()

    def _check(self, request: web.Request) -> None:
        route = self._routes.get((request.method, request.match_info.handler))
        if route is not None and route.is_open:
            return
        request[IDENTITY] = identity = self.guard.identify(_authorization(request), _name(request))
        if route is None or route.permission is None:
            return
        queue = request.match_info.get("queue")
        if queue is None:
            self.guard.require_everywhere(identity, route.permission)
        else:
            self.guard.require(identity, route.permission, queue)


def _require_own_name(request: web.Request) -> None:
    """Where whoever reaches the loopback may do everything, a browser must not be led there.

    A page of somebody else's may let its own name stand for 127.0.0.1, and is then of one origin with
    this server: its requests carry that name, and never an address.
    """
    host = request.headers.get("Host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() in ("", "localhost") or name.lower().endswith(".localhost") or _is_address(name):
        return
    transport = request.transport
    own = None if transport is None else transport.get_extra_info("sockname")
    if own and _is_address(own[0]) and _address(own[0]).is_loopback:
        raise WrongHost(name)


def _is_address(text: str) -> bool:
    try:
        _address(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _authorization(request: web.Request) -> str | None:
    found = request.headers.getall("Authorization", [])
    if len(found) > 1:
        raise Unauthenticated(why="there are two authorizations")
    return found[0] if found else None


def _name(request: web.Request) -> str | None:
    transport = request.transport
    return name_in_ssl(None if transport is None else transport.get_extra_info("peercert"))
