"""Listening sockets with a bound on connections.

asyncio accepts every connection, and one in its TLS handshake has no protocol yet; so connections are
counted from accept to close. One above the bound is closed at once: a client learns more from that than
from a backlog that never moves.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any


class _ConnectionLimit:
    """For connections."""

    def __init__(self, size: int) -> None:
        self.left = size


class _CountedSocket(socket.socket):
    """One that gives its place back when it is closed."""

    _limit: _ConnectionLimit | None = None

    def occupy(self, limit: _ConnectionLimit) -> None:
        limit.left -= 1
        self._limit = limit

    def close(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.left += 1
        super().close()


class _ListenSocket(socket.socket):
    _limit: _ConnectionLimit

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raise `BlockingIOError` if there is none, or the limit is reached."""
        # As Python's own does it, but for the kind of socket that comes of it.
        made, address = socket.socket.accept(self)
        if self._limit.left <= 0:
            made.close()
            raise BlockingIOError
        connection = _CountedSocket(made.family, made.type, made.proto, fileno=made.detach())
        connection.setblocking(False)
        connection.occupy(self._limit)
        return connection, address


def listen(host: str, port: int, connections: int, *, shares_port: bool = False) -> list[socket.socket]:
    """Return one socket for each address of `host`, all at one port; `connections` is for each. Raises
    `OSError`."""
    found = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    with contextlib.ExitStack() as undo:
        made: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = undo.enter_context(_ListenSocket(family, kind, protocol))
            listening._limit = _ConnectionLimit(connections)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                # Alone, [::] is every address of both kinds, as it is for gRPC.
                is_one_of_both = len(found) > 1
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_one_of_both)
            taken = made[0].getsockname()[1] if made else port
            listening.bind((address[0], taken, *address[2:]))
            listening.setblocking(False)
            made.append(listening)
        undo.pop_all()
    return made
