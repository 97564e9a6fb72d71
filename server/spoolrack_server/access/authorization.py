"""Authorization of gRPC calls, from start to end.

A call is refused before its handler runs. A stream ends as soon as the files no longer permit it.
Handlers pass the `current_caller` to the use cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..app.caller import Caller
from .access_control import AccessControl, name_in_grpc
from .method_permissions import SERVED_METHODS

Context = grpc.aio.ServicerContext[Any, Any]
HEADER: Final = "authorization"

_caller: ContextVar[Caller] = ContextVar("caller")
_ANYBODY: Final = Caller()


def current_caller() -> Caller:
    """Return the caller of the current call; without authentication, one that may do everything."""
    return _caller.get(_ANYBODY)


@dataclass(eq=False, slots=True)
class AuthorizedCall:
    """A call whose caller is authenticated and has the method's permission on some queue."""

    context: Context
    method: str
    caller: Caller
    task: asyncio.Task[Any] | None
    request: Message | None = None
    """The only request of a long call, once it is read."""
    refused: StoreError | None = None
    """Why it may not go on."""

    def require_somewhere(self) -> None:
        """Raise `PermissionDenied` for a call that the caller may not make on any queue."""
        SERVED_METHODS[self.method].require_somewhere(self.caller)

    def require(self, request: Any) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make."""
        SERVED_METHODS[self.method].require(self.caller, request)


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
        admission.require_somewhere()
        _caller.set(admission.caller)
        if is_long:
            self._open.add(admission)
        try:
            yield admission
        finally:
            self._open.discard(admission)

    def caller_of(self, context: Context) -> Caller:
        """Return the caller; raise `Unauthenticated`."""
        found: str | None = None
        for key, value in context.invocation_metadata() or ():
            if key == HEADER:
                if found is not None:
                    raise Unauthenticated(why="there are two authorizations")
                found = value if isinstance(value, str) else value.decode(errors="replace")
        name = name_in_grpc(context.auth_context()) if self._guard.asks_for_certificates else None
        return Caller(self._guard.identify(found, name), self._guard)

    def recheck_permissions(self) -> None:
        """Apply changed permissions: end the calls whose callers have lost theirs."""
        for admission in list(self._open):
            try:
                admission.caller = self.caller_of(admission.context)
                admission.require_somewhere()
                if admission.request is not None:
                    admission.require(admission.request)
            except StoreError as error:
                admission.refused = error
                if admission.task is not None:
                    admission.task.cancel()
