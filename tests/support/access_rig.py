"""Servers that ask who calls, over real TLS where a test wants it, and what their callers need."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import trustme
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack_server.access.security import Security
from spoolrack_server.access.tls import TlsFiles
from spoolrack_server.access.tokens import line_of, new_token
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support import STUCK
from tests.support.server_rig import UNLIMITED, Client

MANY = 10_000


class Files:
    """An operator's access files for one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens: dict[str, str] = {}
        """The token of each identity."""
        self._clients = 0

    def write(self, name: str, content: str | bytes, mode: int = 0o600) -> str:
        """Return a file that is there at once and as a whole, as an operator's tools make it."""
        path = self.folder / name
        fresh = self.folder / f"{name}.new"
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.chmod(mode)
        fresh.rename(path)
        return os.fspath(path)

    def write_tokens(self, *identities: str) -> str:
        """Tokens for these identities alone; an identity keeps the token that it had."""
        for identity in identities:
            self.tokens.setdefault(identity, new_token())
        lines = [line_of(identity, self.tokens[identity]) for identity in identities]
        return self.write("tokens", "\n".join(["# who may come", *lines, ""]))

    def write_permissions(self, *rules: str) -> str:
        return self.write("permissions", "\n".join([*rules, ""]))

    def write_certificate(
        self, ca: trustme.CA, *names: str, lives: tuple[datetime, datetime] | None = None
    ) -> TlsFiles:
        """Return a server's, for the loopback and `names`."""
        begin, end = lives or (None, None)
        made = ca.issue_cert("127.0.0.1", "localhost", *names, not_before=begin, not_after=end)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        return TlsFiles(
            certificate=self.write("server.pem", chain),
            key=self.write("server.key", made.private_key_pem.bytes()),
        )

    def write_client(self, ca: trustme.CA, *names: str, common_name: str | None = None) -> ClientFiles:
        """Return a client's."""
        made = ca.issue_cert(*names, common_name=common_name)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        self._clients += 1
        name = f"client-{self._clients}"
        return ClientFiles(
            certificate=self.write(f"{name}.pem", chain),
            key=self.write(f"{name}.key", made.private_key_pem.bytes()),
        )

    def write_ca(self, ca: trustme.CA, name: str = "ca.pem") -> str:
        return self.write(name, ca.cert_pem.bytes())


@dataclass(frozen=True)
class ClientFiles:
    certificate: str
    key: str


class _Saying:
    """A channel that says with each call who makes it."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]) -> None:
        self._channel = channel
        self._metadata = metadata

    def __getattr__(self, kind: str) -> Any:
        def method(*arguments: Any, **options: Any) -> Any:
            call = getattr(self._channel, kind)(*arguments, **options)
            return lambda *request, **more: call(*request, metadata=self._metadata, **more)

        return method


@asynccontextmanager
async def as_caller(server: Server, *headers: str) -> AsyncIterator[Client]:
    """Open a client whose calls carry these authorizations."""
    metadata = tuple(("authorization", header) for header in headers)
    async with grpc.aio.insecure_channel(server.grpc_address, options=UNLIMITED) as channel:
        client = Client(channel)
        client.stub = Stubs(_Saying(channel, metadata))  # type: ignore[no-untyped-call]
        yield client


@asynccontextmanager
async def serving(
    root: Path, security: Security, health: tuple[str, int] | None = None, **options: Any
) -> AsyncIterator[Server]:
    settings = ServeSettings(root=str(root), health=health)
    async with Server(settings, clock=ManualClock(), security=security, **options) as server:
        yield server


@contextmanager
def in_a_thread(root: Path, security: Security) -> Iterator[str]:
    """Run a server beside the test; yield its address."""
    addresses: list[str] = []
    ready = threading.Event()
    end: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with Server(ServeSettings(root=str(root), http=None), security=security) as server:
            addresses.append(server.grpc_address)
            end.append((asyncio.get_running_loop(), asyncio.Event()))
            ready.set()
            await end[0][1].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(STUCK)
    try:
        yield addresses[0]
    finally:
        loop, event = end[0]
        loop.call_soon_threadsafe(event.set)
        thread.join(STUCK)


def reads_again(server: Server) -> bool:
    """Let the server look at its files now; whether something has changed."""
    assert server._access_files is not None
    return server._access_files.reload()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def looks() -> Iterator[int]:
    yield from range(MANY)
