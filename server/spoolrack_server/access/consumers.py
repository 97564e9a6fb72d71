"""Names of consumers, as the oldest leases of a queue show them: identity, address and user agent.

A name is for people: the user agent is whatever the client says. No credential is part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc

from ..app.caller import Caller
from ..system.addresses import address_text
from .authorization import current_caller

if TYPE_CHECKING:
    from aiohttp import web  # A server without HTTP doesn't load it.

LONGEST: Final = 200
"""Characters of a user agent that are shown."""


def consumer_of_call(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """Return the name of a gRPC call's consumer."""
    kind, _, address = context.peer().partition(":")
    agent: str | bytes = ""
    for key, value in context.invocation_metadata() or ():
        if key == "user-agent":
            agent = value
    # gRPC appends what it is made of to the name that a program gives itself.
    own = str(agent).partition(" grpc-")[0]
    return _name(current_caller().name, unquote(address) if kind in ("ipv4", "ipv6") else kind, own)


def consumer_of_request(request: web.BaseRequest, caller: Caller) -> str:
    """Return the name of an HTTP request's consumer."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    address = address_text(*peer[:2]) if peer else ""
    return _name(caller.name, address, request.headers.get("User-Agent", ""))


def _name(identity: str, address: str, agent: str) -> str:
    name = ", ".join(filter(None, (identity, address, agent[:LONGEST])))
    return name if name.isprintable() else "".join(each if each.isprintable() else "?" for each in name)
