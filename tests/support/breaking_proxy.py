"""An HTTP/2 proxy in front of a server that fails as proxies do.

It answers calls itself, by a page or by a status of its own, or it relays a connection and breaks all
calls of it. The frames are written by hand: no library would send half of them.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from tests.support.raw_http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    header,
)

RST_STREAM: Final = 3
GOAWAY: Final = 7
ACK: Final = 1

Answer = Callable[[int], bytes]
"""Returns the frames that answer the call on a stream, by the stream's number."""


def page(status: int) -> Answer:
    """Answer with an HTML page, which is no gRPC at all."""
    headers = header(b":status", b"%d" % status) + header(b"content-type", b"text/html")
    text = b"<html><body><h1>%d</h1></body></html>" % status
    return lambda stream: (
        frame(HEADERS, headers, flags=END_HEADERS, stream=stream) + _last_data(stream, text)
    )


def status(code: int, text: str = "") -> Answer:
    """Answer with a gRPC status without details."""
    headers = (
        header(b":status", b"200")
        + header(b"content-type", b"application/grpc")
        + header(b"grpc-status", b"%d" % code)
        + header(b"grpc-message", text.encode())
    )
    return lambda stream: frame(HEADERS, headers, flags=END_HEADERS | END_STREAM, stream=stream)


def reset(code: int) -> Answer:
    """Reset the stream, with a code of HTTP/2."""
    return lambda stream: frame(RST_STREAM, struct.pack(">I", code), stream=stream)


def cut_short(stream: int) -> bytes:
    """Begin a response and end it without a status."""
    return _begun(stream) + _last_data(stream)


def begun(answer: Answer) -> Answer:
    """Begin a response before the answer."""
    return lambda stream: _begun(stream) + answer(stream)


def go_away(code: int) -> Answer:
    """End the connection after the call was taken up, with a code of HTTP/2."""
    return lambda stream: frame(GOAWAY, struct.pack(">II", stream, code))


def hang_up(stream: int) -> bytes:
    """Say nothing before the connection ends."""
    return b""


def _begun(stream: int) -> bytes:
    headers = header(b":status", b"200") + header(b"content-type", b"application/grpc")
    return frame(HEADERS, headers, flags=END_HEADERS, stream=stream)


def _last_data(stream: int, content: bytes = b"") -> bytes:
    """End the response, and ask for no more of the request: without that gRPC waits for its end."""
    return frame(DATA, content, flags=END_STREAM, stream=stream) + reset(0)(stream)


class BreakingProxy:
    """Listens from its making to the context's end.

    As long as there are `answers`, each new call is given the first of them. After the last one the
    connection is closed, and the next ones are relayed to the server.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._answers: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._relays: list[_Relay] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self.answered = 0
        """So many calls were answered here."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def answer(self, *answers: Answer) -> None:
        """Give these answers to the next calls, and close the connections that are relayed now."""
        with self._lock:
            self._answers.extend(answers)
            relays, self._relays = self._relays, []
        for relay in relays:
            relay.close()

    def break_calls(self, answer: Answer) -> None:
        """End the relayed connections with this answer to each call in flight."""
        with self._lock:
            relays, self._relays = self._relays, []
        for relay in relays:
            relay.break_calls(answer)

    @property
    def calls(self) -> int:
        """Number of calls in flight that are relayed."""
        with self._lock:
            return sum(len(relay.open) for relay in self._relays)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(near)
            with self._lock:
                answers_itself = bool(self._answers)
            if answers_itself:
                self._start(self._answer_calls, near)
            else:
                self._relay(near)

    def _relay(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            near.close()
            return
        self._sockets.append(far)
        relay = _Relay(near, far)
        with self._lock:
            self._relays.append(relay)
        self._start(relay.forth)
        self._start(relay.back)

    def _answer_calls(self, near: socket.socket) -> None:
        try:
            near.sendall(frame(SETTINGS))
            for kind, flags, stream, _ in _frames(near, has_preface=True):
                if kind == SETTINGS and not flags & ACK:
                    near.sendall(frame(SETTINGS, flags=ACK))
                if kind != HEADERS:
                    continue
                with self._lock:
                    answer = self._answers.popleft() if self._answers else None
                    self.answered += answer is not None
                    is_last = not self._answers
                frames = b"" if answer is None else answer(stream)
                near.sendall(frames)
                if is_last or not frames or frames[3] == GOAWAY:
                    return
        except OSError:
            pass  # The client has closed it.
        finally:
            _hang_up(near)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        for one in (self._listener, *self._sockets):
            _hang_up(one)
            one.close()
        for thread in self._threads:
            thread.join(10)


class _Relay:
    """One connection of a client, and its connection to the server."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._near = near
        self._far = far
        self._lock = threading.Lock()
        self.open: set[int] = set()
        """The streams in flight."""
        self._is_broken = False

    def forth(self) -> None:
        try:
            self._far.sendall(PREFACE)
            for kind, flags, stream, content in _frames(self._near, has_preface=True):
                if kind == HEADERS:
                    self.open.add(stream)
                self._far.sendall(frame(kind, content, flags=flags, stream=stream))
        except OSError:
            pass  # Closed from the other side.
        self.close()

    def back(self) -> None:
        try:
            for kind, flags, stream, content in _frames(self._far, has_preface=False):
                with self._lock:
                    if self._is_broken:
                        return
                    if kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM):
                        self.open.discard(stream)
                    self._near.sendall(frame(kind, content, flags=flags, stream=stream))
        except OSError:
            pass  # Closed from the other side.
        self.close()

    def break_calls(self, answer: Answer) -> None:
        with self._lock, contextlib.suppress(OSError):  # The client may be gone.
            self._is_broken = True
            for stream in sorted(self.open):
                self._near.sendall(answer(stream))
        self.close()

    def close(self) -> None:
        _hang_up(self._far)
        _hang_up(self._near)


def _frames(source: socket.socket, *, has_preface: bool) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the frames that a peer sends: kind, flags, stream and content."""
    with source.makefile("rb") as file:
        if has_preface and file.read(len(PREFACE)) != PREFACE:
            return
        while len(head := file.read(9)) == 9:
            content = file.read(int.from_bytes(head[:3], "big"))
            yield head[3], head[4], int.from_bytes(head[5:], "big"), content


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # It has ended already.
