"""A way to a server that breaks in the middle of one call: before the request has come, or after.

The first connection on which the mark is seen is cut: at once, so that the server never sees the mark;
or once the server has done what it was asked for, with the answer held back. All else goes through.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Listens from its making to the context's end."""

    def __init__(self, port: int, mark: bytes, is_done: Callable[[], bool] | None) -> None:
        """`is_done` says whether the server has done it; None: it shall not."""
        self._port = port
        self._mark = mark
        self._is_done = is_done
        self._sockets: list[socket.socket] = []
        self._has_ended = threading.Event()
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while not self._has_ended.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [near, far]
            silent = threading.Event()
            self._start(self._forth, near, far, silent)
            self._start(self._back, far, near, silent)

    def _forth(self, near: socket.socket, far: socket.socket, silent: threading.Event) -> None:
        seen = b""
        try:
            while content := near.recv(65536):
                seen = seen[-len(self._mark) :] + content
                if self._mark not in seen or self.cuts:
                    far.sendall(content)
                    continue
                self.cuts += 1
                silent.set()
                if self._is_done is not None:
                    far.sendall(content)
                    self._until(self._is_done)
                break
        except OSError:
            pass  # Cut from the other side.
        for end in (near, far):
            self._end(end)

    def _back(self, far: socket.socket, near: socket.socket, silent: threading.Event) -> None:
        try:
            while content := far.recv(65536):
                if not silent.is_set():
                    near.sendall(content)
        except OSError:
            pass  # Cut from the other side.
        if not silent.is_set():
            self._end(near)

    def _until(self, is_done: Callable[[], bool]) -> None:
        while not is_done() and not self._has_ended.wait(0.005):
            continue

    def _end(self, end: socket.socket) -> None:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It has ended already.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended.set()
        self._end(self._listener)
        for one in (self._listener, *self._sockets):
            self._end(one)
            one.close()
