"""Reads one direction of an HTTP/2 connection (RFC 9113) that carries gRPC: the messages, and which
streams end. The talk about the connection itself, such as SETTINGS and PING, is passed over. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client; a connection that begins otherwise isn't HTTP/2."""
DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
END_STREAM: Final = 0x1
_PADDED: Final = 0x8
_HEAD: Final = 9
_PREFIX: Final = 5
"""Of a message of gRPC: whether it is compressed, and its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something on a stream: that it is begun, a whole message, that it ends, or two of these."""

    stream: int
    message: bytes | None = None
    ends: bool = False
    is_reset: bool = False


class Direction:
    """One direction of a connection, whose bytes come in any pieces."""

    def __init__(self) -> None:
        self._left = b""
        self._parts: dict[int, bytes] = {}
        """By stream, the beginning of a message whose end hasn't come."""

    def feed(self, piece: bytes) -> Iterator[Said]:
        self._left = (self._left + piece).removeprefix(PREFACE)
        while len(self._left) >= _HEAD:
            head = self._left[:_HEAD]
            end = _HEAD + int.from_bytes(head[:3], "big")
            if len(self._left) < end:
                return
            content, self._left = self._left[_HEAD:end], self._left[end:]
            yield from self._frame(head[3], head[4], int.from_bytes(head[5:], "big"), content)

    def _frame(self, kind: int, flags: int, stream: int, content: bytes) -> Iterator[Said]:
        if kind == RST_STREAM:
            yield Said(stream=stream, ends=True, is_reset=True)
        if kind not in (DATA, HEADERS):
            return
        if kind == DATA:
            if flags & _PADDED:
                content = content[1 : len(content) - content[0]]
            yield from self._messages(stream, content)
        yield Said(stream=stream, ends=bool(flags & END_STREAM))

    def _messages(self, stream: int, content: bytes) -> Iterator[Said]:
        left = self._parts.pop(stream, b"") + content
        while len(left) >= _PREFIX:
            end = _PREFIX + int.from_bytes(left[1:_PREFIX], "big")
            if len(left) < end:
                break
            yield Said(stream=stream, message=left[_PREFIX:end])
            left = left[end:]
        if left:
            self._parts[stream] = left


def frame(kind: int, stream: int, content: bytes = b"", *, flags: int = 0) -> bytes:
    """Return the bytes of one frame, for a trace that is written by hand."""
    head = len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + content


def message(stream: int, content: bytes, *, ends: bool = False) -> bytes:
    """Return the bytes of a DATA frame with one message of gRPC."""
    prefixed = b"\0" + len(content).to_bytes(4, "big") + content
    return frame(DATA, stream, prefixed, flags=END_STREAM if ends else 0)
