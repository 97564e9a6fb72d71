"""Authorization of gRPC calls, from start to end.

A call is refused before its handler runs. A stream ends as soon as the files no longer permit it.
Handlers ask `queues_for` what they may touch where only the store knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from spoolrack_store.model.errors import StoreError, Unauthenticated

from .access_control import AccessControl, name_in_grpc
from .method_permissions import CallerPermissions
from .permissions import Permission

Context = grpc.aio.ServicerContext[Any, Any]
HEADER: Final = "authorization"

_caller: ContextVar[CallerPermissions | None] = ContextVar("caller", default=None)


def queues_for(permission: Permission) -> Callable[[str], bool] | None:
    """Return a predicate of queues on which the current caller has the permission; None: all."""
    caller = _caller.get()
    return None if caller is None else caller.queues_for(permission)


def caller_name() -> str:
    """Return the name of the current caller's identity; "" without authentication."""
    caller = _caller.get()
    return "" if caller is None else caller.identity.name


def owner_name() -> str:
    """Return the identity to which names that the current caller uses first belong; "" where every
    caller may do everything."""
    caller = _caller.get()
    return "" if caller is None or not caller.guard.has_rules else caller.identity.name


@dataclass(eq=False, slots=True)
class AuthorizedCall:
    """A call whose caller is authenticated and has the method's permission on some queue."""

    context: Context
    method: str
    caller: CallerPermissions
    task: asyncio.Task[Any] | None
    request: Message | None = None
    """The only request of a long call, once it is read."""
    refused: StoreError | None = None
    """Why it may not go on."""

    def require(self, request: Any) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make."""
        self.caller.require(self.method, request)


class CallAuthorizer:
    """The authorized calls of one server. Lives in one event loop."""

    def __init__(self, guard: AccessControl) -> None:
        self._guard = guard
        self._open: set[AuthorizedCall] = set()

    @contextmanager
    def admitted(self, context: Context, method: str, *, is_long: bool) -> Iterator[AuthorizedCall]:
        """Authorize a call while it runs; raise `Unauthenticated` or `PermissionDenied` at its start,
        before its request is read.

        A call that `is_long` is cancelled when its permission ends: `refused` then holds the reason.
        """
        admission = AuthorizedCall(context, method, self.caller_of(context), asyncio.current_task())
        admission.caller.require_somewhere(method)
        _caller.set(admission.caller)
        if is_long:
            self._open.add(admission)
        try:
            yield admission
        finally:
            self._open.discard(admission)

    def caller_of(self, context: Context) -> CallerPermissions:
        """Return the caller; raise `Unauthenticated`."""
        found: str | None = None
        for key, value in context.invocation_metadata() or ():
            if key == HEADER:
                if found is not None:
                    raise Unauthenticated(why="there are two authorizations")
                found = value if isinstance(value, str) else value.decode(errors="replace")
        name = name_in_grpc(context.auth_context()) if self._guard.asks_for_certificates else None
        return CallerPermissions(self._guard, self._guard.identify(found, name))

    def recheck_permissions(self) -> None:
        """Apply changed permissions: end the calls whose callers have lost theirs."""
        for admission in list(self._open):
            try:
                admission.caller = self.caller_of(admission.context)
                admission.caller.require_somewhere(admission.method)
                if admission.request is not None:
                    admission.require(admission.request)
            except StoreError as error:
                admission.refused = error
                if admission.task is not None:
                    admission.task.cancel()
