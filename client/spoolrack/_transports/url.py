"""Transports by URL: the one place that knows the schemes.

Each transport is imported on demand: a program that works on folders needs no gRPC, and the other way
round.
"""

from __future__ import annotations

import re
from typing import Final, Unpack

from .._credentials import CredentialOptions, credentials_for, refuse_credentials
from .._runtime import Runtime
from ..errors import InvalidUrl
from . import ClientTransport

DEFAULT_PORT: Final = 50051
_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]@?#,]+)(:(?P<port>[0-9]{1,5}))?/?"
)
_HTTP: Final = ("http", "https")
_KNOWN: Final = "use host:port, grpc://host:port or grpcs://host:port, file:///root, or vsqs:///folder"


def open_transport(
    url: str, runtime: Runtime, **credentials: Unpack[CredentialOptions]
) -> ClientTransport:
    """Return the transport for `url`. Makes no connection yet; raises `InvalidUrl`, or
    `InvalidCredentials`."""
    if not isinstance(url, str):
        raise InvalidUrl(f"{url!r} names no server and no folder, as it is no str: {_KNOWN}.")
    scheme = url.partition("://")[0]
    if scheme == "vsqs":
        from .vsqs_transport import VsqsTransport
        from .vsqs_values import parse_vsqs_url

        refuse_credentials(url, credentials)
        return VsqsTransport(parse_vsqs_url(url), runtime)
    if scheme == "file":
        from .folder_transport import FolderTransport
        from .folder_values import parse_folder_url

        refuse_credentials(url, credentials)
        return FolderTransport(parse_folder_url(url), runtime)
    address, host, is_secure = server_of(url)
    from .grpc_transport import GrpcTransport

    checked = credentials_for(address, host, is_secure=is_secure, **credentials)
    return GrpcTransport(address, runtime, checked)


def server_of(url: str) -> tuple[str, str, bool]:
    """Return the address `host:port` of the server that `url` names, its host, and whether TLS is
    spoken there; raise `InvalidUrl`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "grpc", url
    if scheme not in ("grpc", "grpcs"):
        told = "is the HTTP port's, and this client speaks gRPC" if scheme in _HTTP else "is not known"
        raise InvalidUrl(f"{_shown(url)} can't be opened: {scheme}:// {told}; {_KNOWN}.")
    if "@" in rest:
        raise InvalidUrl(f"{_shown(url)} names a user: give token= instead, and {_KNOWN}.")
    parts = _AUTHORITY.fullmatch(rest)
    if parts is None or not rest.isprintable() or not 0 < int(parts["port"] or DEFAULT_PORT) < 65536:
        raise InvalidUrl(f"{url!r} names no server: {_KNOWN}.")
    return f"{parts['host']}:{parts['port'] or DEFAULT_PORT}", parts["host"], scheme == "grpcs"


def _shown(url: str) -> str:
    """Return a URL as an error shows it: without a password."""
    return repr(re.sub(r"(?<=://)[^/@]*@", "…@", url))
