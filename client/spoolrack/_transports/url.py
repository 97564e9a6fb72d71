"""Transports by URL: the one place that knows the schemes.

Each transport is imported on demand: a program that works on folders needs no gRPC, and the other way
round.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, Unpack

from .. import _arguments as arguments
from .._credentials import CredentialOptions, credentials_for, refuse_credentials
from .._runtime import Runtime
from .._threads import no_fork
from ..errors import InvalidRequest, InvalidUrl
from . import ClientTransport

DEFAULT_PORT: Final = 50051
_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]@?#,]+)(:(?P<port>[0-9]{1,5}))?/?"
)
_HTTP: Final = ("http", "https")
_KNOWN: Final = (
    "use host:port, grpc://host:port or grpcs://host:port, the addresses of all shards with commas "
    "between them, file:///root, or vsqs:///folder"
)
Routing = Literal["header"]
SHARD: Final = "x-spoolrack-shard"
"""Metadata of a call: the shard that the client takes its server for, as `2/8`."""
TAG: Final = "x-spoolrack-queue"
"""Metadata of a call: the tag of its queue, for a proxy that routes by it."""


def open_transport(
    url: str,
    runtime: Runtime,
    routing: Routing | None = None,
    **credentials: Unpack[CredentialOptions],
) -> ClientTransport:
    """Return the transport for `url`. Makes no connection yet; raises `InvalidUrl`, or
    `InvalidCredentials`."""
    arguments.check_options(credentials, CredentialOptions)
    if not isinstance(url, str):
        raise InvalidUrl(f"{url!r} names no server and no folder, as it is no str: {_KNOWN}.")
    if routing not in (None, "header"):
        raise InvalidRequest(f"routing can't be {routing!r}: use 'header', or leave it out.")
    with no_fork:
        return _opened(url, runtime, routing, credentials)


def _opened(
    url: str, runtime: Runtime, routing: Routing | None, credentials: CredentialOptions
) -> ClientTransport:
    scheme = url.partition("://")[0]
    if routing is not None and (scheme in ("file", "vsqs") or "," in url):
        raise InvalidUrl(
            f"routing='header' is for one proxy, and {_shown(url)} is not one: leave routing out."
        )
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
    from .grpc_transport import GrpcTransport

    servers = []
    for each in addresses_of(url):
        address, host, is_secure = server_of(each)
        checked = credentials_for(address, host, is_secure=is_secure, **credentials)
        servers.append((address, checked))
    if len(servers) == 1 and routing is None:
        return GrpcTransport(address, runtime, checked)
    from .grpc_calls import open_calls
    from .routed_transport import HeaderTransport, ShardedTransport

    routed: Any
    if routing is not None:
        calls = open_calls(address, runtime, checked)

        def open_tag(tag: str) -> GrpcTransport:
            return GrpcTransport(address, runtime, checked, ((TAG, tag),), calls)

        routed = HeaderTransport(open_tag, calls.close, url, runtime)
    else:
        count = len(servers)
        shards = [
            GrpcTransport(address, runtime, checked, ((SHARD, f"{number}/{count}"),))
            for number, (address, checked) in enumerate(servers)
        ]
        routed = ShardedTransport(shards, runtime)
    return routed  # type: ignore[no-any-return]


def addresses_of(url: str) -> list[str]:
    """Return the URL of each shard: between commas, the scheme of the first is that of all. Raise
    `InvalidUrl` for an address that is empty, there twice, or has another scheme."""
    first, *others = url.split(",")
    scheme, separator, _ = first.rpartition("://")
    addresses = [first]
    for each in map(str.strip, others):
        addresses.append(each if "://" in each else f"{scheme}{separator}{each}")
    if others:
        places, _, is_secure = zip(*map(server_of, addresses), strict=True)
        if len({*is_secure}) > 1:
            raise InvalidUrl(
                f"{_shown(url)} mixes grpc:// and grpcs://: the scheme of all shards is the same, that "
                "of the first."
            )
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise InvalidUrl(
                f"{_shown(url)} names {twice} twice: name each shard's server once, in order."
            )
    return addresses


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
    return repr(re.sub(r"^(\w*://)?.*@", r"\1…@", url))
