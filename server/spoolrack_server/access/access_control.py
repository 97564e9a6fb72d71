"""Authentication and authorization of callers, by tokens, certificates and permissions.

Serves gRPC and HTTP of one server. A token takes precedence over a certificate, because it comes with
the call; an unknown token is refused, whatever certificate comes with it. Without a permissions file
every authenticated caller may do everything. A refusal is `Unauthenticated`; the permissions of an
identity are told by its `Caller`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from spoolrack_store.model.errors import StoreError, Unauthenticated

from ..app.caller import Caller, Identity, Permission
from .file_format import is_identity
from .permissions_file import Rules
from .sqs_keys import SqsKeys
from .tokens import Tokens
from .watched_files import WatchedFiles

ANONYMOUS: Final = Identity()
CHALLENGE: Final = 'Bearer realm="spoolrack"'
"""The `WWW-Authenticate` header of a 401."""
_SCHEME: Final = "bearer"
_NO_TOKEN: Final = (
    "send a token (HTTP and gRPC: the header Authorization: Bearer TOKEN; Python: token=; "
    "command line: SPOOLRACK_TOKEN)"
)


class AccessControl:
    """Authentication by tokens and certificates, and `caller.Access`. For any thread, but for the
    checks of calls that run, which are the event loop's."""

    def __init__(
        self,
        *,
        tokens: WatchedFiles[Tokens] | None = None,
        rules: WatchedFiles[Rules] | None = None,
        sqs_keys: WatchedFiles[SqsKeys] | None = None,
        asks_for_certificates: bool = False,
    ) -> None:
        self._tokens = tokens
        self._rules = rules
        self._sqs_keys = sqs_keys
        self.asks_for_certificates = asks_for_certificates
        """Whether who comes by TLS has shown a certificate."""
        self._checks: dict[asyncio.Task[Any], Callable[[], None]] = {}
        """By task, whether the call that it runs may go on."""

    @property
    def is_open(self) -> bool:
        """Whether callers need no credentials. With permissions they do, also if only clients of SQS
        can show any."""
        return not self._knows_callers and self._rules is None

    @property
    def _knows_callers(self) -> bool:
        return self._tokens is not None or self.asks_for_certificates

    # Authentication.

    def identify(self, authorization: str | None, certificate: str | None) -> Identity:
        """Return the caller of this header, or of this certificate name, which TLS has verified.

        Raises `Unauthenticated`.
        """
        if self.is_open:
            return ANONYMOUS
        if not self._knows_callers:
            raise Unauthenticated(
                why="here this server can't tell callers apart, and it has permissions: start it with "
                "--tokens or --tls-client-ca, or call it over SQS"
            )
        if authorization is not None:
            return self._bearer(authorization)
        if certificate is not None:
            if not is_identity(certificate):
                raise Unauthenticated(why="the name in the certificate can't be an identity's")
            return Identity(certificate)
        if self._tokens is None:
            raise Unauthenticated(
                why="its certificate names no identity, by a URI, a DNS name or a common name"
            )
        raise Unauthenticated(why=_NO_TOKEN)

    def _bearer(self, authorization: str) -> Identity:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME or not token:
            raise Unauthenticated(why=f"its authorization is no Bearer token; {_NO_TOKEN}")
        identity = None if self._tokens is None else self._tokens.current.identity_of(token.strip())
        if identity is None:
            raise Unauthenticated(
                why="its token is not in the server's tokens file: ask the server's operator for one "
                "(spoolrack tokens new)"
            )
        return identity

    def caller(self, authorization: str | None, certificate: str | None) -> Caller:
        """Return the caller that `identify` finds, with its permissions; raise `Unauthenticated`."""
        return self.caller_of(self.identify(authorization, certificate))

    def caller_of(self, identity: Identity) -> Caller:
        return Caller(identity, None if self._rules is None else self)

    # Authorization.

    def may_send(self, identity: str, queue: str) -> bool:
        """Return whether an identity that isn't calling may send to a queue: it still has a token or a
        key, or may have a certificate, and the permission."""
        if self.is_open:
            return True
        is_known = (
            self.asks_for_certificates
            or (self._tokens is not None and identity in self._tokens.current.names)
            or (self._sqs_keys is not None and identity in self._sqs_keys.current.names)
        )
        return is_known and self.allows(Identity(identity), Permission.SEND, queue)

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        """Return whether `identity` has this permission on `queue`; "*": on all queues."""
        return self._rules is None or self._rules.current.allows(identity, permission, queue)

    def allows_somewhere(self, identity: Identity, permission: Permission) -> bool:
        """Return whether `identity` can have this permission on any queue."""
        return self._rules is None or self._rules.current.allows_somewhere(identity, permission)

    def cancel_unless(self, check: Callable[[], None]) -> None:
        """Cancel the current task as soon as `check` raises a `StoreError`, because what the files
        permit has changed. For calls that may run for long."""
        task = asyncio.current_task()
        assert task is not None
        self._checks[task] = check
        task.add_done_callback(lambda task: self._checks.pop(task, None))

    def recheck(self) -> None:
        """Apply changed files: cancel the tasks of calls that may not go on."""
        for task, check in list(self._checks.items()):
            try:
                check()
            except StoreError:
                task.cancel()
