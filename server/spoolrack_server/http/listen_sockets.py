"""Listening sockets, and the connections that come of them, within a bound.

Connections are counted from accept to close, so that one in its TLS handshake counts, too. One above
the bound takes the place of a stranger, a connection without a request of a known caller so far, as
with sshd's MaxStartups: idle connections close a port to no caller. Of the address that has the most
strangers the oldest one goes. Where there is none, the new one is closed at once: a client learns more
from that than from a backlog that never moves.

TLS begins with the first byte of a client, in a buffer of one record. asyncio's own listener has no
bound, allocates 256 KiB for each TLS connection before its first byte, and logs each failed accept.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..system.logs import Log

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted, and that are accepted in a row."""
REST: Final = 1.0
"""Seconds without accepting, after the process or the machine ran out of descriptors or memory."""
NOTHING_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
TLS_BUFFER: Final = 17 * 1024
"""Bytes that a TLS connection reads at a time: a record has up to 16 KiB, and a little around it."""


class _TlsProtocol(sslproto.SSLProtocol):
    max_size = TLS_BUFFER


class _ConnectionLimit:
    """For connections at one port."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size
        self.strangers: dict[int, _CountedSocket] = {}
        """By their descriptors, in the order of their coming."""

    def longest_stranger(self) -> _CountedSocket | None:
        """Return the oldest stranger of the address that has the most of them; None if all of those are
        between two states: no other address makes room for them."""
        counts = Counter(each.address for each in self.strangers.values())
        most = max(counts.values(), default=0)
        for each in self.strangers.values():
            if each.end is not None and counts[each.address] == most:
                return each
        return None


class _CountedSocket(socket.socket):
    """One that gives its place back when it is closed."""

    _limit: _ConnectionLimit | None = None
    address = ""
    end: Callable[[], object] | None = None
    """Closes the connection; None: it is between two states."""

    def occupy(self, limit: _ConnectionLimit, address: str) -> None:
        limit.free -= 1
        self._limit = limit
        self.address = address
        limit.strangers[self.fileno()] = self

    def close(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.free += 1
            limit.strangers.pop(self.fileno(), None)
        super().close()


class Acceptor:
    """Accepts the connections at one port. Lives in one event loop, and is started once."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        log: Log,
        *,
        connections: int,
        handshake: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`protocol` makes that of one connection. `handshake` is in seconds, from the accept to the
        end of the TLS handshake. `close` closes the sockets."""
        self._listening = listening
        self._protocol = protocol
        self._log = log
        self._limit = _ConnectionLimit(connections)
        self._handshake = handshake
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._silent: dict[_CountedSocket, asyncio.TimerHandle] = {}
        """Connections that have sent no byte of TLS, and the end of each."""
        self._beginning: set[asyncio.Task[Any]] = set()
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._is_full_told = False
        self._is_rest_told = False

    def start(self) -> None:
        for listening in self._listening:
            listening.listen(BACKLOG)
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accept no more, and close the connections that have sent nothing yet."""
        for rest in self._resting.values():
            rest.cancel()
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        for connection in list(self._silent):
            self._drop(connection)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                accepted_socket, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NOTHING_LEFT:
                    raise
                self._rest(listening, error)
                return
            self._is_rest_told = False
            is_full = self._limit.free <= 0
            if is_full:
                self._tell_full(listening)
                stranger = self._limit.longest_stranger()
                if stranger is None or stranger.end is None:
                    accepted_socket.close()
                    continue
                end, stranger.end = stranger.end, None
                end()
            if self._limit.free > self._limit.size // 2:
                self._is_full_told = False
            connection = _CountedSocket(
                accepted_socket.family,
                accepted_socket.type,
                accepted_socket.proto,
                fileno=accepted_socket.detach(),
            )
            connection.setblocking(False)
            connection.occupy(self._limit, address[0] if address else "")
            if self._tls is None:
                self._begin(connection, self._protocol)
            else:
                connection.end = partial(self._drop, connection)
                self._silent[connection] = self._loop.call_later(
                    self._handshake, self._drop, connection
                )
                self._loop.add_reader(connection, self._begin_tls, connection, self._tls)
            if is_full:
                return  # The next one when the place of this one's predecessor is free.

    def know(self, transport: asyncio.BaseTransport) -> None:
        """Note that a known caller has made a request: its connection gives its place to no other."""
        self._limit.strangers.pop(transport.get_extra_info("socket").fileno(), None)

    def _begin_tls(self, connection: _CountedSocket, context: ssl.SSLContext) -> None:
        """Begin the handshake of a connection that has sent a byte, or has ended."""
        try:
            if not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError
        except BlockingIOError:
            return
        except ConnectionError:
            self._drop(connection)
            return
        end = self._stop_waiting(connection)
        tls = _TlsProtocol(
            self._loop,
            self._protocol(),
            context,
            None,  # type: ignore[arg-type] # Nothing waits for the end of the handshake.
            server_side=True,
            ssl_handshake_timeout=max(end.when() - self._loop.time(), 0.001),  # type: ignore[arg-type]
        )
        self._begin(connection, lambda: tls)

    def _begin(self, connection: _CountedSocket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        connection.end = None
        task = self._loop.create_task(self._connect(connection, protocol))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _connect(
        self, connection: _CountedSocket, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        try:
            transport, _ = await self._loop.connect_accepted_socket(protocol, connection)
            connection.end = transport.abort
        except OSError:
            connection.close()  # The client has gone.

    def _drop(self, connection: _CountedSocket) -> None:
        self._stop_waiting(connection)
        connection.close()

    def _stop_waiting(self, connection: _CountedSocket) -> asyncio.TimerHandle:
        self._loop.remove_reader(connection)
        end = self._silent.pop(connection)
        end.cancel()
        return end

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a while: the kernel would report the same connection at once."""
        self._loop.remove_reader(listening)
        self._resting[listening] = self._loop.call_later(
            REST, self._loop.add_reader, listening, self._accept, listening
        )
        if not self._is_rest_told:
            self._is_rest_told = True
            self._log.error(
                "no connection can be accepted: new ones wait", port=_port(listening), why=str(error)
            )

    def _tell_full(self, listening: socket.socket) -> None:
        if not self._is_full_told:
            self._is_full_told = True
            self._log.warning(
                "the port has as many connections as it may: those without a request of a known caller "
                "make room for new ones, and where there are none, new ones are closed",
                port=_port(listening),
                connections=self._limit.size,
            )


def _port(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def listen(host: str, port: int, *, shares_port: bool = False) -> list[socket.socket]:
    """Return one socket for each address of `host`, all at one port. Raises `OSError`."""
    addresses = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    with contextlib.ExitStack() as undo:
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listening = undo.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                # Alone, [::] is every address of both kinds, as it is for gRPC.
                is_one_of_both = len(addresses) > 1
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_one_of_both)
            bound_port = sockets[0].getsockname()[1] if sockets else port
            listening.bind((address[0], bound_port, *address[2:]))
            listening.setblocking(False)
            sockets.append(listening)
        undo.pop_all()
    return sockets
