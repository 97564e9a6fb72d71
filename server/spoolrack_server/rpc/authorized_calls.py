"""Authorization of gRPC calls, from start to end.

A call is refused before its handler runs. A stream ends as soon as the files no longer permit it.
Handlers pass the `current_caller` to the use cases.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import unquote

import grpc
from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..access.access_control import AccessControl
from ..app.caller import Caller, consumer_name
from ..system.request_ids import IDENTITY
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


class AuthorizedCall:
    """A call whose caller is authenticated and has the method's permission on some queue."""

    def __init__(self, access_control: AccessControl, context: Context, needs: ContractMethod) -> None:
        """Raise `Unauthenticated` or `PermissionDenied`, before a request is read."""
        self._access_control = access_control
        self._context = context
        self._needs = needs
        self._request: Any = None
        self.refusal: StoreError | None = None
        """Why it may not go on."""
        self.caller = self._check()
        _caller.set(self.caller)

    def require(self, request: Any) -> None:
        """Raise `PermissionDenied` for a first request that the caller may not make."""
        self._request = request
        self._require(self.caller)

    def recheck(self) -> None:
        """Raise the error of a call that may not go on."""
        try:
            self._check()
        except StoreError as error:
            self.refusal = error
            raise

    def _check(self) -> Caller:
        caller = caller_of(self._context, self._access_control)
        caller.require_somewhere(self._needs.permission)
        self._require(caller)
        return caller

    def _require(self, caller: Caller) -> None:
        if self._request is not None and (queue := self._needs.queue(self._request)):
            caller.require(self._needs.permission, queue)


def caller_of(context: Context, access_control: AccessControl) -> Caller:
    """Return the caller; raise `Unauthenticated`."""
    authorization: str | None = None
    for key, value in context.invocation_metadata() or ():
        if key == HEADER:
            if authorization is not None:
                raise Unauthenticated(why="there are two authorizations")
            authorization = value if isinstance(value, str) else value.decode(errors="replace")
    asks = access_control.asks_for_certificates
    name = None
    if asks:
        # Loaded only where certificates are asked for: it takes a start 40 ms.
        from ..access.certificate_names import name_in_grpc

        name = name_in_grpc(context.auth_context())
    caller = access_control.caller(authorization, name)
    IDENTITY.set(caller.name)
    return caller
