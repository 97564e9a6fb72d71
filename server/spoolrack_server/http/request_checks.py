"""Checks of a request before its endpoint: its head, its origin, its caller, its parameters.

Cross-site requests (CSRF) and DNS rebinding: a page in a browser may reach this server where its author
can't, and must change nothing here. Only authenticated callers learn that a path isn't served.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11
from spoolrack_store.model.errors import InvalidRequest, Unauthenticated
from spoolrack_store.model.shards import Shard

from ..access.access_control import AccessControl
from ..app.bounds import SHARD_KEY, require_shard
from ..app.caller import Caller, consumer_name
from ..system.addresses import address_text
from ..system.request_ids import IDENTITY
from .http_errors import CrossOrigin, UnknownParameter, UnreadableBody, WrongHost

if TYPE_CHECKING:
    from .route import Route

_ADDRESSES: Final = 256
"""Texts of which is remembered what address they are."""
CALLER: Final = web.RequestKey("caller", Caller)
"""The key of a request's caller."""


def check(request: web.Request, route: Route | None, access_control: AccessControl) -> None:
    """Check a request, and name its caller; `route`: None if its path isn't served. Raise `WrongHost`,
    `CrossOrigin`, `Unauthenticated`, `PermissionDenied`, `InvalidQueueName` or `UnknownParameter`."""
    request[CALLER] = Caller()
    if route is not None and route.changes:
        require_own_origin(request)
    if route is not None and route.is_open:
        return
    if not access_control.is_open:
        _authorize(request, route, access_control)
        if request.method == "GET" or "wait" in request.query or (route and route.leases):
            access_control.cancel_unless(partial(_authorize, request, route, access_control))
    elif route is not None:
        require_own_name(request)
    if route is not None:
        _require_known_parameters(request, route)


def _authorize(request: web.Request, route: Route | None, access_control: AccessControl) -> None:
    request[CALLER] = caller = access_control.caller(_authorization(request), _name(request))
    IDENTITY.set(caller.name)
    if route is not None:
        route.require(caller, request.match_info.get("queue"))


def consumer_of_request(request: web.BaseRequest, caller: Caller) -> str:
    """Return the name of a request's consumer."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    address = address_text(*peer[:2]) if peer else ""
    return consumer_name(caller, address, request.headers.get("User-Agent", ""))


def peer_of(request: web.BaseRequest) -> str:
    """Return which connection a request came over."""
    transport = request.transport
    return "" if transport is None else str(transport.get_extra_info("peername"))


def require_own_name(
    request: web.Request, others: Collection[str] = (), options: str = "--tokens"
) -> None:
    """Refuse DNS rebinding: without authentication, `Host` must be a loopback name, an address or one
    of `others`; of these, a name that begins with a dot stands for all names below it, too.

    A page of another site may let its own name stand for 127.0.0.1, and is then of one origin with
    this server: its requests carry that name, and never an address. No header tells such a request, not
    even a signature or X-Amz-Target: a page may send any to its own origin. `options` are those that
    the refusal recommends.
    """
    host = _host(request)
    name = (host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host).lower()
    if name in ("", "localhost") or name.endswith(".localhost") or _is_address(name):
        return
    if any(name == each or (each[0] == "." and f".{name}".endswith(each)) for each in others):
        return
    transport = request.transport
    own = None if transport is None else transport.get_extra_info("sockname")
    if own and _is_address(own[0]) and _address(own[0]).is_loopback:
        raise WrongHost(host=name, options=options)


def _host(request: web.Request) -> str:
    """Return the host and port that the request is for; empty if it names none."""
    # In a target that is a whole URL, the host stands before the header's.
    return request.host if "Host" in request.headers else ""


def require_own_origin(request: web.Request) -> None:
    """Raise `CrossOrigin` for a request of a browser on behalf of another server's page.

    No page can change Sec-Fetch-Site. Browsers leave it out over HTTP to other machines: then Origin
    counts, against the host that was asked for. No page of another site can set X-Forwarded-Host, so a
    proxy's word is taken for that. Programs send none of these.
    """
    headers = request.headers
    sites, origins = headers.getall("Sec-Fetch-Site", []), headers.getall("Origin", [])
    if sites:
        if {site.strip().lower() for site in sites} <= {"same-origin", "none"}:
            return
        raise CrossOrigin(origin=", ".join(origins) or ", ".join(sites))
    forwarded = ",".join(headers.getall("X-Forwarded-Host", [])).split(",")
    own = {host.strip().lower() for host in (_host(request), *forwarded)} - {""}
    for origin in origins:
        if origin.partition("://")[2].lower() not in own:
            raise CrossOrigin(origin=origin)


def require_own_shard(request: web.Request, own: Shard | None) -> None:
    """Raise `WrongShard` for a request that names another shard than the server's `own`."""
    for named in request.headers.getall(SHARD_KEY, []):
        require_shard(own, named)


def _require_known_parameters(request: web.Request, route: Route) -> None:
    names = route.parameters
    for name in request.query:
        if name not in names:
            remedy = f"use {', '.join(sorted(names))}" if names else "there are none here"
            raise UnknownParameter(name=name, remedy=remedy)
        if len(request.query.getall(name)) > 1 and name not in route.repeatable:
            values = ", ".join(request.query.getall(name))
            raise InvalidRequest(what=f"the parameter {name}", value=values, rule="must be given once")


def require_sane_head(request: web.BaseRequest) -> None:
    """Raise `InvalidRequest` or `UnreadableBody` for a head that aiohttp accepts and misreads."""
    version, headers = request.version, request.headers
    if request.path.startswith("/-/") and not _is_written(request.raw_path):
        # A proxy's rule for /-/ wouldn't match it.
        raise InvalidRequest(
            what="the path", value=request.raw_path[:200], rule='must begin with "/-/" as it is written'
        )
    if version < HttpVersion10:
        raise InvalidRequest(
            what="the version of HTTP",
            value=f"{version.major}.{version.minor}",
            rule="must be 1.0 or 1.1",
        )
    expected = headers.getall("Expect", [])
    if any(each.strip().lower() != "100-continue" for each in expected):
        raise InvalidRequest(
            what="the header Expect", value=", ".join(expected), rule='must be "100-continue"'
        )
    codings = headers.getall("Transfer-Encoding", [])
    if codings and (
        version < HttpVersion11 or [each.strip().lower() for each in codings] != ["chunked"]
    ):
        # A coding that is passed over would be stored as if it were the body.
        why = f"its Transfer-Encoding must be chunked alone, in HTTP/1.1, not {codings}"
        raise UnreadableBody(why=why)


@lru_cache(_ADDRESSES)
def _is_written(target: str) -> bool:
    """Return whether a request's target, which may be a whole URL, has a path that begins with /-/."""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    return target.startswith("/-/")


def _is_address(text: str) -> bool:
    try:
        _address(text)
    except ValueError:
        return False
    return True


@lru_cache(_ADDRESSES)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _authorization(request: web.Request) -> str | None:
    found = request.headers.getall("Authorization", [])
    if len(found) > 1:
        raise Unauthenticated(why="there are two authorizations")
    return found[0] if found else None


def _name(request: web.Request) -> str | None:
    transport = request.transport
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    if certificate is None:
        return None
    from ..access.certificate_names import name_in_der  # Loaded only where clients have certificates.

    return name_in_der(certificate)
