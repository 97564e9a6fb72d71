"""A TCP relay that can fall silent, as a middlebox does that loses its table: it forwards nothing more
of the connections that it has, and closes none of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class SilentRelay:
    """Listens from its making to the context's end, and relays each connection to a port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._silence = threading.Event()
        """Of the connections that there are now; the next ones get another."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def fall_silent(self) -> None:
        """Drop whatever comes by the present connections, in both directions; relay new ones."""
        self._silence.set()
        self._silence = threading.Event()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # It is closed at the end.
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += near, far
                self._start(_forward, near, far, self._silence)
                self._start(_forward, far, near, self._silence)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)


def _forward(source: socket.socket, target: socket.socket, silence: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if not silence.is_set():
                target.sendall(data)
        if not silence.is_set():
            target.shutdown(socket.SHUT_WR)
