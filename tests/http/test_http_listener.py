"""A listener for which the system has nothing left rests, says so once, and accepts again by itself."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import socket
import time
from itertools import pairwise
from typing import ClassVar

import pytest
from spoolrack_server.http import listen_sockets
from spoolrack_server.http.listen_sockets import Acceptor
from spoolrack_server.system.logs import make_log


class Starved(socket.socket):
    """A listening socket without descriptors for its connections."""

    refusals = 0
    moments: ClassVar[list[float]] = []
    """Of the refused accepts of one starvation."""

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            self.moments.append(time.monotonic())
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello")
        transport.close()


async def test_a_listener_without_descriptors_rests_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen_sockets, "REST", 0.02)
    said = io.StringIO()
    listening = Starved()
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    acceptor = Acceptor([listening], Greeting, make_log(stream=said), connections=10, handshake=1.0)
    acceptor.start()
    try:
        for episode in (1, 2):
            listening.refusals = 5
            listening.moments.clear()
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            assert await reader.read() == b"hello"
            writer.close()
            assert listening.refusals == 0
            assert all(later - one > 0.015 for one, later in pairwise(listening.moments))
            assert said.getvalue().count("no connection can be accepted") == episode
    finally:
        acceptor.close()
