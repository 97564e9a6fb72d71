"""The name in a client's certificate, which the handshake has proven: the same at every port.

It is the first URI among the certificate's alternative names (as SPIFFE has it), else the first DNS
name, else the subject's first common name (RFC 5280). It is read from the certificate as it was sent,
because gRPC cuts a name at its first NUL. A certificate that can't be read names no caller:
`Unauthenticated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID
from spoolrack_store.model.errors import Unauthenticated

_UNREADABLE = (
    ValueError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def name_in_grpc(properties: Mapping[str, Iterable[bytes]]) -> str | None:
    """Return the name in `ServicerContext.auth_context()`; None without a certificate, or without a
    name in it."""
    for pem in properties.get("x509_pem_cert", ()):
        return _name_in_pem(pem)
    return None


@lru_cache(1_000)
def _name_in_pem(pem: bytes) -> str | None:
    try:
        return _name(x509.load_pem_x509_certificate(pem))
    except _UNREADABLE as error:
        raise _unreadable(error) from error


def name_in_der(certificate: bytes) -> str | None:
    """Return the name in a certificate; None without one in it."""
    try:
        return _name(x509.load_der_x509_certificate(certificate))
    except _UNREADABLE as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> Unauthenticated:
    return Unauthenticated(why=f"its certificate can't be read: {error}")


def _name(certificate: x509.Certificate) -> str | None:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names: list[str] = []
    else:
        names = [
            *found.get_values_for_type(x509.UniformResourceIdentifier),
            *found.get_values_for_type(x509.DNSName),
        ]
    names += [
        str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    return names[0] if names else None
