"""Listen addresses: parsing, formatting, and a check that a port is free.

Knows nothing of gRPC or HTTP: a process that only reserves a port needs neither.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress


class AddressUnusable(Exception):
    """The server can't listen at an address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"Can't listen at {address} ({why}): stop what listens there, or choose another address."
        )


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def names_loopback(host: str) -> bool:
    """Return whether this is a loopback address or its usual name, without asking the resolver."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def reserve(host: str, port: int, *, shares: bool = False) -> socket.socket:
    """Take an address without serving it; port 0 takes a free one. Raises `AddressUnusable`.

    gRPC knows why it can't listen, and tells only its own log: so this is tried first. With `shares`
    other processes of this user may listen there as long as the socket is open, and no others.
    """
    reserved_socket: socket.socket | None = None
    try:
        if not 0 <= port <= 65_535:
            # Or else only its lower 16 bits would be taken.
            raise OverflowError("a port is from 0 to 65535")
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
        family, kind, protocol, _, address = found[0]
        reserved_socket = socket.socket(family, kind, protocol)
        # Connections of the process that listened here before may linger.
        reserved_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
        reserved_socket.bind(address)
        if shares:
            # Nothing listens here yet: with this, any other program could.
            reserved_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        else:
            # A bind alone succeeds beside a process that listens.
            reserved_socket.listen(1)
    except (OSError, OverflowError) as error:
        if reserved_socket is not None:
            reserved_socket.close()
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AddressUnusable(address_text(host, port), why) from error
    return reserved_socket
