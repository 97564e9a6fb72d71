"""Just enough of HTTP/2 and gRPC framing, by hand, to break off wherever no library would."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
HUNG_UP: Final = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN})
"""Errors of the system when the server has hung up, which is its right."""
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """Return a literal of HPACK without indexing or Huffman's code."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(method: str) -> bytes:
    """Return all that comes before the messages of a call of QueueService, on a new connection."""
    headers = b"".join(
        header(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", f"/spoolrack.v1.QueueService/{method}".encode()),
            (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
    )
    return PREFACE + frame(SETTINGS) + frame(HEADERS, headers, flags=END_HEADERS, stream=1)


def message(content: bytes, *, length: int | None = None, compressed: int = 0) -> bytes:
    """Return a message of a call; `length` is what its prefix says."""
    return struct.pack(">BI", compressed, len(content) if length is None else length) + content


def data(payload: bytes, *, ends: bool = False) -> bytes:
    return frame(DATA, payload, flags=END_STREAM if ends else 0, stream=1)


def speak(port: int, words: bytes, *, reset: bool) -> bytes:
    """Connect, say this, hang up, and return what was answered.

    With `reset` the connection is torn down without a word and without listening.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        heard = b""
        try:
            connection.sendall(words)
            if reset:
                # Zero seconds of lingering: the system sends a reset instead of an end.
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return heard
            connection.shutdown(socket.SHUT_WR)
            while some := connection.recv(65_536):
                heard += some
        except OSError as error:
            if error.errno not in HUNG_UP:
                raise
        return heard


def ask(port: int, words: bytes) -> bytes:
    """Connect, make a whole call, and return all up to its status."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(words)
        heard = b""
        while b"grpc-status" not in heard:
            some = connection.recv(65_536)
            if not some:
                raise ConnectionError(f"the server hung up after {heard!r}")
            heard += some
        return heard
