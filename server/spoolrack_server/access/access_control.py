"""Authentication and authorization of callers, by tokens, certificates and permissions.

Serves gRPC and HTTP of one server. A token takes precedence over a certificate, because it comes with
the call; an unknown token is refused, whatever certificate comes with it. Without a
permissions file everybody who is known may do everything. All that is refused is a `StoreError`:
`Unauthenticated` or `PermissionDenied`, and whether there is such a queue has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from spoolrack_store.model.errors import PermissionDenied, Unauthenticated

from ..convert import queue_name
from .file_format import is_identity
from .permissions import Identity, Permission
from .permissions_file import ALL_QUEUES, Rules
from .tokens import Tokens
from .watched_files import WatchedFiles

NOBODY: Final = Identity()
CHALLENGE: Final = 'Bearer realm="spoolrack"'
"""The `WWW-Authenticate` header of a 401."""
_SCHEME: Final = "bearer"


class AccessControl:
    """`permissions.Access`, and what finds out who asks. For any thread."""

    def __init__(
        self,
        *,
        tokens: WatchedFiles[Tokens] | None = None,
        rules: WatchedFiles[Rules] | None = None,
        asks_for_certificates: bool = False,
    ) -> None:
        self._tokens = tokens
        self._rules = rules
        self.asks_for_certificates = asks_for_certificates
        """Whether who comes by TLS has shown a certificate."""

    @property
    def is_open(self) -> bool:
        """Whether callers need no credentials. With permissions they do, also if only clients of SQS
        can show any."""
        return not self._knows_callers and self._rules is None

    @property
    def _knows_callers(self) -> bool:
        return self._tokens is not None or self.asks_for_certificates

    # Who.

    def identify(self, authorization: str | None, certificate: str | None) -> Identity:
        """Return the caller of this header, or of this certificate name, which TLS has verified.

        Raises `Unauthenticated`.
        """
        if self.is_open:
            return NOBODY
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
            raise Unauthenticated(why="the client's certificate names no identity")
        raise Unauthenticated(why="send a token, as authorization: Bearer <token>")

    def _bearer(self, authorization: str) -> Identity:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME or not token:
            raise Unauthenticated(why="the authorization must be Bearer <token>")
        found = None if self._tokens is None else self._tokens.current.identity_of(token.strip())
        if found is None:
            raise Unauthenticated(why="the token is not one that this server knows")
        return found

    # What.

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        """Whether `identity` may do it; `queue` of "*" asks for all queues."""
        return self._rules is None or self._rules.current.allows(identity, permission, queue)

    def allows_somewhere(self, identity: Identity, permission: Permission) -> bool:
        """Whether there can be a queue to which `identity` may do it."""
        return self._rules is None or self._rules.current.allows_somewhere(identity, permission)

    def require(self, identity: Identity, permission: Permission, queue: str) -> None:
        """Raises `PermissionDenied`; or `InvalidQueueName`, so that only names are looked for."""
        if not self.allows(identity, permission, queue_name(queue)):
            raise _denied(identity, permission, queue)

    def require_everywhere(self, identity: Identity, permission: Permission) -> None:
        if not self.allows(identity, permission, ALL_QUEUES):
            raise _denied(identity, permission, ALL_QUEUES)

    def require_somewhere(self, identity: Identity, permission: Permission) -> None:
        if not self.allows_somewhere(identity, permission):
            raise _denied(identity, permission, ALL_QUEUES)

    def queues_for(self, identity: Identity, permission: Permission) -> Callable[[str], bool] | None:
        """Return a test of queues in which `identity` may do it; None: all."""
        if self.allows(identity, permission, ALL_QUEUES):
            return None
        return lambda queue: self.allows(identity, permission, queue)


def _denied(identity: Identity, permission: Permission, queue: str) -> PermissionDenied:
    return PermissionDenied(identity=identity.name, permission=permission.value, queue=queue)


# The name in a client's certificate, which the handshake has proven already. It is the first URI among
# the certificate's alternative names (as SPIFFE has it), else the first DNS name, else the subject's
# common name. gRPC and Python's `ssl` tell of a certificate in their own ways.


def name_in_grpc(properties: Mapping[str, Iterable[bytes]]) -> str | None:
    """By what `ServicerContext.auth_context()` says; None if there is no certificate, or no name."""
    for key in ("peer_uri", "peer_dns", "x509_common_name"):
        for value in properties.get(key, ()):
            return value.decode(errors="replace")
    return None


def name_in_ssl(certificate: Mapping[str, Any] | None) -> str | None:
    """By what `SSLSocket.getpeercert()` says; None if there is no certificate, or no name."""
    if not certificate:
        return None
    alternatives: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())
    for wanted in ("URI", "DNS"):
        for kind, value in alternatives:
            if kind == wanted:
                return value
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return None
