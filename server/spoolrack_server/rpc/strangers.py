"""Strangers at the gRPC port: connections without a call of a known caller so far. Linux only.

gRPC refuses a connection above its limit, and closes none for another, so that idle connections would
close the port. Once a second the connections are counted, and while less than a tenth of the limit is
free, strangers are shut down: of the address that has the most of them the oldest one first, and none
before its second look. gRPC tells neither its connections nor closes one: they are found among the
descriptors of this process.
"""

from __future__ import annotations

import os
import socket
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

FREE: Final = 10
"""A tenth of the limit is kept free for new connections."""
MANY: Final = 4
"""Multiple of the limit: so many noted peers are compared with the connections that are still there."""
DESCRIPTORS: Final = "/proc/self/fd"

_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

Peer = tuple[str, int]


class Strangers:
    """The strangers at one port. A caller may be added to `known` while a thread looks."""

    def __init__(self, port: int, limit: int) -> None:
        self._port = port
        self._limit = limit
        self._most = limit - max(1, limit // FREE)
        self.known: set[str] = set()
        """Peers of known callers since the last look, as gRPC names them: a call adds its own."""
        self._known_peers: set[Peer] = set()
        self._seen: set[Peer] = set()
        """The strangers of the last look."""
        self.shut_down = 0
        """Connections so far."""

    def look(self) -> None:
        """Count the connections, and shut strangers down if there are too many. For a thread."""
        descriptors = list(map(int, os.listdir(DESCRIPTORS)))
        if len(descriptors) <= self._most and len(self.known) <= MANY * self._limit:
            self._seen.clear()
            return
        known, self.known = self.known, set()
        there = self._connections(descriptors)
        self._known_peers = (self._known_peers | set(map(peer_of, known))) & there.keys()
        # A socket's inode has a higher number than those of older ones.
        strangers = sorted(there.keys() - self._known_peers, key=lambda peer: there[peer])
        counts = Counter(host for host, _ in strangers)
        found = [peer for peer in strangers if peer in self._seen]
        self._seen = set(strangers)
        missing = len(there) - self._most
        while missing > 0 and found:
            peer = max(found, key=lambda peer: counts[peer[0]])
            found.remove(peer)
            counts[peer[0]] -= 1
            missing -= self._shut_down(there[peer][1], peer)

    def _connections(self, descriptors: Iterable[int]) -> dict[Peer, tuple[int, int]]:
        """Return the connections at the port, with inode and descriptor of each."""
        found: dict[Peer, tuple[int, int]] = {}
        for descriptor in descriptors:
            with suppress(OSError):
                facts = os.fstat(descriptor)
                if stat.S_ISSOCK(facts.st_mode):
                    with _copy(descriptor) as connection:
                        peer = self._peer(connection)
                    if peer is not None:
                        found[peer] = facts.st_ino, descriptor
        return found

    def _shut_down(self, descriptor: int, wanted: Peer) -> bool:
        with suppress(OSError), _copy(descriptor) as connection:
            if self._peer(connection) == wanted:  # Else it has ended meanwhile.
                connection.shutdown(socket.SHUT_RDWR)
                self.shut_down += 1
                return True
        return False

    def _peer(self, connection: socket.socket) -> Peer | None:
        """Return the peer of a connection at the port; None for any other socket."""
        if connection.family not in _FAMILIES or connection.getsockname()[1] != self._port:
            return None
        host, port, *_ = connection.getpeername()
        return _plain(host), port


def _copy(descriptor: int) -> socket.socket:
    """Return a socket by a descriptor of its own, which no other thread closes meanwhile."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def peer_of(text: str) -> Peer:
    """Return the address and the port in gRPC's name of a peer, such as `ipv6:%5B::1%5D:41234`."""
    host, _, port = unquote(text.partition(":")[2]).rpartition(":")
    return _plain(host.strip("[]")), int(port) if port.isdigit() else 0


def _plain(host: str) -> str:
    """Return an address without its scope, and an IPv4 one as itself."""
    return host.partition("%")[0].removeprefix("::ffff:")
