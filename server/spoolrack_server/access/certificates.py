"""The name in a client's certificate, which the handshake has proven already.

It is the first URI among the certificate's alternative names (as SPIFFE has it), else the first DNS
name, else the subject's common name. gRPC and Python's `ssl` tell of a certificate in their own ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


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
