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
from urllib.parse import unquote

import grpc
from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..access.access_control import AccessControl, name_in_grpc
from ..app.caller import Caller, consumer_name
from ..wire.contract_calls import ContractMethod

Context = grpc.aio.ServicerContext[Any, Any]
HEADER: Final = "authorization"

_caller: ContextVar[Caller] = ContextVar("caller")
_ANYBODY: Final = Caller()


def current_caller() -> Caller:
    """Return the caller of the current call; without authentication, one that may do everything."""
    return _caller.get(_ANYBODY)


def current_consumer(context: Context) -> str:
    """Return the name of the current call's consumer."""
    kind, _, address = context.peer().partition(":")
    agent: str | bytes = ""
    for key, value in context.invocation_metadata() or ():
        if key == "user-agent":
            agent = value
    # gRPC appends what it is made of to the name that a program gives itself.
    own = str(agent).partition(" grpc-")[0]
    return consumer_name(current_caller(), unquote(address) if kind in ("ipv4", "ipv6") else kind, own)


@dataclass(eq=False, slots=True)
class AuthorizedCall:
    """A call whose caller is authenticated and has the method's permission on some queue."""

    context: Context
    needs: ContractMethod
    caller: Caller
    task: asyncio.Task[Any] | None
    request: Any = None
    """The first request of a long call, once it is read."""
    refusal: StoreError | None = None
    """Why it may not go on."""

    def require_somewhere(self) -> None:
        """Raise `PermissionDenied` for a call that the caller may not make on any queue."""
        self.caller.require_somewhere(self.needs.permission)

    def require(self, request: Any) -> None:
        """Raise `PermissionDenied` for a request that the caller may not make."""
        if queue := self.needs.queue(request):
            self.caller.require(self.needs.permission, queue)


class AuthorizedCalls:
    """The authorized calls of one server. Lives in one event loop."""

    def __init__(self, access_control: AccessControl) -> None:
        self._access_control = access_control
        self._long: set[AuthorizedCall] = set()

    @contextmanager
    def authorized(
        self, context: Context, needs: ContractMethod, *, is_long: bool
    ) -> Iterator[AuthorizedCall]:
        """Authorize a call while it runs; raise `Unauthenticated` or `PermissionDenied` at its start,
        before its request is read.

        A call that `is_long` is cancelled when its permission ends: `refusal` then holds the reason.
        """
        call = AuthorizedCall(context, needs, self.caller_of(context), asyncio.current_task())
        call.require_somewhere()
        _caller.set(call.caller)
        if is_long:
            self._long.add(call)
        try:
            yield call
        finally:
            self._long.discard(call)

    def caller_of(self, context: Context) -> Caller:
        """Return the caller; raise `Unauthenticated`."""
        authorization: str | None = None
        for key, value in context.invocation_metadata() or ():
            if key == HEADER:
                if authorization is not None:
                    raise Unauthenticated(why="there are two authorizations")
                authorization = value if isinstance(value, str) else value.decode(errors="replace")
        asks = self._access_control.asks_for_certificates
        name = name_in_grpc(context.auth_context()) if asks else None
        return Caller(self._access_control.identify(authorization, name), self._access_control)

    def recheck_permissions(self) -> None:
        """Apply changed permissions: end the calls whose callers have lost theirs."""
        for call in list(self._long):
            try:
                call.caller = self.caller_of(call.context)
                call.require_somewhere()
                if call.request is not None:
                    call.require(call.request)
            except StoreError as error:
                call.refusal = error
                if call.task is not None:
                    call.task.cancel()
