"""Permissions for the dashboard's JSON, and a second check against cross-site requests.

Reading a queue's counts takes MONITOR, its messages RECEIVE, and so on, as over gRPC. A change also
needs a header that no form and no link of another site can carry (CSRF): a script of another site can
add it only after a CORS preflight, which this server never grants. There are no cookies, and only our
own script puts a token into a request; but a client's certificate, or the loopback interface of an open
server, would make a foreign page's request look like the operator's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.errors import InvalidRequest, MessageTooLarge

from ..access.permissions import Identity, Permission
from ..gateway import request_bodies
from ..gateway.context import GatewayContext
from ..gateway.request_checks import IDENTITY

OURS: Final = "X-Spoolrack-Dashboard"
"""The header of a change."""
LARGEST_BODY: Final = 128 * 1024
"""Bytes of JSON: a selection of a thousand ids has 40,000."""
LONGEST_FILTER: Final = 80
"""Characters."""


class RequestPermissions:
    """The permissions of a request's caller. Lives in one event loop."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def identity(self, request: web.Request) -> Identity:
        return request[IDENTITY]

    def allows(self, request: web.Request, permission: Permission, queue: str) -> bool:
        return self._context.guard.allows(self.identity(request), permission, queue)

    def require(self, request: web.Request, permission: Permission, *queues: str) -> None:
        """Raise `PermissionDenied`, whether the queues exist or not; `InvalidQueueName` for an invalid
        name."""
        for queue in queues:
            self._context.guard.require(self.identity(request), permission, queue)

    def require_everywhere(self, request: web.Request, permission: Permission) -> None:
        """Raise `PermissionDenied` unless the caller has the permission on all queues."""
        self._context.guard.require_everywhere(self.identity(request), permission)

    def queues_for(self, request: web.Request, permission: Permission) -> Callable[[str], bool] | None:
        """Return a predicate of queues on which the caller has the permission; None: all."""
        return self._context.guard.queues_for(self.identity(request), permission)

    def may_somewhere(self, request: web.Request, permission: Permission) -> bool:
        """Return whether the caller can have this permission on any queue."""
        return self._context.guard.allows_somewhere(self.identity(request), permission)

    def queue_filter(self, request: web.Request) -> Callable[[str], bool]:
        """Return a filter of queues by the caller's permissions and the request's search words; raise
        `InvalidRequest`."""
        contains = request.query.get("contains", "")
        if len(contains) > LONGEST_FILTER:
            raise InvalidRequest(
                what="contains", value=contains, rule=f"has {LONGEST_FILTER} characters at most"
            )
        return lambda name: contains in name and self.allows(request, Permission.MONITOR, name)

    def permissions(self, request: web.Request, queue: str) -> list[str]:
        """Return the caller's permissions on `queue`, by name."""
        return [each.value for each in Permission if self.allows(request, each, queue)]

    async def change(self, request: web.Request) -> Mapping[str, Any]:
        """Return the JSON object of a change's body. Raises `InvalidRequest` before any change."""
        if OURS not in request.headers or request.content_type != "application/json":
            raise InvalidRequest(
                what="a change",
                value=request.content_type,
                rule=f"must come as application/json with the header {OURS}: another site could have "
                "sent this",
            )
        try:
            with self._context.upload_memory.share() as share:
                raw = await request_bodies.read(
                    request,
                    queue="",
                    limit=LARGEST_BODY,
                    http_limits=self._context.http_limits,
                    share=share,
                )
        except MessageTooLarge as error:
            raise InvalidRequest(
                what="the body", value="more", rule=f"has {LARGEST_BODY} bytes at most"
            ) from error
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(what="the body", value=str(error), rule="must be JSON") from error
        if not isinstance(found, dict):
            raise InvalidRequest(
                what="the body", value=type(found).__name__, rule="must be a JSON object"
            )
        return found


def text(content: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of the request; raise `InvalidRequest`."""
    found = content.get(name, default)
    if not isinstance(found, str):
        raise InvalidRequest(what=name, value=found, rule="must be a text")
    return found


def whole(content: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a whole number of the request; raise `InvalidRequest`."""
    found = content.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidRequest(what=name, value=found, rule="must be a whole number")
    return found


def texts(content: Mapping[str, Any], name: str, *, most: int) -> list[str]:
    """Return a list of texts of the request; raise `InvalidRequest`."""
    found = content.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidRequest(what=name, value=type(found).__name__, rule="must be a list of texts")
    if len(found) > most:
        raise InvalidRequest(what=name, value=len(found), rule=f"has {most} entries at most")
    return found
