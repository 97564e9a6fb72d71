"""An HTTP server that answers as a test says, and isn't one of ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support import STUCK

Answer = tuple[int, str, bytes]
"""Status, content type and body."""


@contextmanager
def answering(answer_to: Callable[[str], Answer]) -> Iterator[int]:
    """Serve on the loopback until the context ends, each path by its answer; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            # Closed on unread bytes, the connection would be reset before the answer is read (RFC 9112,
            # 9.6).
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, kind, body = answer_to(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(STUCK)
