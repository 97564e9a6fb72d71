"""Memory of TLS connections that are silent, or stop in their handshake: docs/how-to/security.md.

From outside, at the ports of HTTP and SQS, by a server with a process of its own.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trustme

from tests.support.access_rig import Files
from tests.support.real_server import RealServer

CONNECTIONS: Final = 200
KIB: Final = 1024
SILENT: Final = 8 * KIB
OPEN: Final = 80 * KIB
"""Bytes a connection, at most, before and after its first byte."""


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _anonymous(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * KIB


@pytest.mark.parametrize(
    ("words", "most"),
    [(lambda: b"", SILENT), (lambda: _client_hello()[:20], OPEN), (_client_hello, OPEN)],
    ids=["silent", "slow", "half open"],
)
def test_a_connection_in_its_handshake_costs_little_memory(
    tmp_path: Path, words: Callable[[], bytes], most: int
) -> None:
    ca, files = trustme.CA(), Files(tmp_path)
    tls = files.write_certificate(ca)
    ca.cert_pem.write_to_path(tmp_path / "ca")
    context = ssl.create_default_context(cafile=tmp_path / "ca")
    server = RealServer(
        tmp_path / "root",
        tmp_path / "log",
        after=("--tls-certificate", tls.certificate, "--tls-key", tls.key),
    )
    server.start()
    address = ("127.0.0.1", server.http_port)

    def serves() -> None:
        # The server accepts in order: those before this one are accepted, too.
        with context.wrap_socket(
            socket.create_connection(address), server_hostname="localhost"
        ) as made:
            made.sendall(b"GET /-/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while made.recv(65_536):
                pass

    try:
        for _ in range(3):
            serves()
        before = _anonymous(server.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(address)).sendall(words())
            serves()
            assert _anonymous(server.pid) - before < CONNECTIONS * most
    finally:
        server.kill()
