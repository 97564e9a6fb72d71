"""Bodies of any size over a server's HTTP port, in constant memory at both ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, BinaryIO, Final
from urllib.parse import quote, urlsplit

import aiohttp
import click
from spoolrack import CredentialOptions, Outgoing
from spoolrack._credentials import is_loopback

from ...app.bounds import MAX_WAIT
from ...gateway import headers
from .exit_codes import BAD_CONTENT, INPUT_OUTPUT, NO_PERMISSION, NOTHING, UNAVAILABLE, USAGE, Failed
from .progress import Advance

PIECE: Final = 1024 * 1024
STALL: Final = 60.0
"""Seconds without a byte after which a connection counts as broken."""
_CODES: Final = {401: NO_PERMISSION, 403: NO_PERMISSION, 404: NOTHING, 503: UNAVAILABLE}


class HttpBodies:
    """The HTTP port of one server."""

    def __init__(self, url: str, credentials: CredentialOptions) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError(f"--http-url: {url!r} is not http://HOST:PORT or https://HOST:PORT.")
        token = credentials.get("token")
        if callable(token):
            token = token()
        is_open = parts.scheme == "http" and not is_loopback(parts.hostname)
        if token and is_open and not credentials.get("insecure"):
            raise Failed(
                "--http-url: a token may only go to other machines by https://, or with --insecure",
                USAGE,
            )
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cafile=credentials.get("ca"))
        if certificate := credentials.get("certificate"):
            self._tls.load_cert_chain(certificate, credentials.get("key"))

    def send(
        self, queue: str, path: str, message: Outgoing, advance: Advance, *, wait: float = 0.0
    ) -> str:
        """Send a file; return the message's id. `advance` is called with the bytes sent.

        A full queue is waited for, up to `wait` seconds."""
        return asyncio.run(self._send(queue, path, message, advance, min(wait, MAX_WAIT / 1_000)))

    def save(self, queue: str, id: str, file: IO[bytes]) -> None:
        """Write the body of a message into a file."""
        asyncio.run(self._save(queue, id, file))

    async def _send(
        self, queue: str, path: str, message: Outgoing, advance: Advance, wait: float
    ) -> str:
        size = Path(path).stat().st_size
        sent = {**headers.headers_of(message.attributes), "Content-Length": str(size)}
        if message.delay is not None:
            sent["X-Message-Delay"] = str(message.delay)
        if message.deliver_at is not None:
            sent[headers.DELIVER_TIME] = message.deliver_at.isoformat()
        if message.deduplication_id:
            sent[headers.DEDUPLICATION] = quote(message.deduplication_id)
        if message.group:
            sent[headers.GROUP] = quote(message.group)
        if message.priority:
            sent[headers.PRIORITY] = str(message.priority)
        with open(path, "rb") as file:
            exchange = self._request(
                "POST",
                f"/{quote(queue)}/messages?wait={wait:f}",
                _pieces(file, advance),
                sent,
                STALL + wait,
            )
            async with exchange as response:
                return response.headers["X-Message-Id"]

    async def _save(self, queue: str, id: str, file: IO[bytes]) -> None:
        async with self._request("GET", f"/{quote(queue)}/messages/{quote(id)}") as response:
            async for piece in response.content.iter_chunked(PIECE):
                file.write(piece)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        body: AsyncIterator[bytes] | None = None,
        more: dict[str, str] | None = None,
        stall: float = STALL,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer of a call that the server has taken; raise `Failed`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=STALL, sock_read=stall)
        session = aiohttp.ClientSession(timeout=timeout, headers=self._headers, auto_decompress=False)
        try:
            async with (
                session,
                session.request(
                    method, self._url + path, data=body, headers=more, ssl=self._tls
                ) as response,
            ):
                if response.status >= 300:
                    raise await _failure(response)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            raise Failed(f"{self._url} can't be reached: {why}", UNAVAILABLE) from error


async def _pieces(file: BinaryIO, advance: Advance) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece
        advance(0, len(piece))


async def _failure(response: aiohttp.ClientResponse) -> Failed:
    try:
        why = str((await response.json())["message"])
    except (aiohttp.ClientError, ValueError, KeyError, TypeError):
        why = (
            f"{response.url.origin()} answered {response.status} {response.reason}, and not as "
            "Spoolrack does: check --http-url, which is the server's HTTP port"
        )
    code = _CODES.get(response.status, INPUT_OUTPUT if response.status >= 500 else BAD_CONTENT)
    return Failed(why, code)
