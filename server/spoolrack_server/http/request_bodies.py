"""Bodies of requests and responses: a slow client can't occupy the server, or fill its memory.

Uploads: the deadline moves on with the bytes received, and all concurrent uploads share one bound of
bytes. Downloads: a write is awaited until the kernel has taken all of the body, so that the caller
knows whether it was sent; large bodies are sent by the kernel from the file (sendfile). With TLS they
pass through this process, and up to 64 KiB may still wait for the kernel when the write returns. A
client that is too slow is disconnected.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError
from spoolrack_store.model.errors import MessageTooLarge
from spoolrack_store.model.settings import MIB

from .http_errors import TooManyUploads, UnreadableBody, UploadTooSlow

BLOCK: Final = 256 * 1024
"""Bytes that a slow reader must take within `stall` seconds, and of a piece of an upload at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds on the slowness of a client."""

    idle: float = 75.0
    """Seconds for a request's head, and for a connection between two requests."""
    stall: float = 30.0
    """Seconds without a byte of a body; or for a block of one, on the way out."""
    bytes_per_second: int = 4 * 1024
    """The least, over all of a body that comes, after the first `stall` seconds."""
    memory: int = 256 * MIB
    """Bytes of all bodies together that have begun to come and aren't stored yet."""


class UploadMemory:
    """The memory that all request bodies share. Lives in one event loop."""

    def __init__(self, size: int, *, evicts: bool = False) -> None:
        """`evicts`: a body that finds no memory ends the one that has been arriving the longest."""
        self._free_bytes = size
        self._evicts = evicts
        self._shares: dict[UploadShare, None] = {}
        """The oldest first."""

    def share(self) -> UploadShare:
        return UploadShare(self)

    def add(self, share: UploadShare) -> None:
        self._shares[share] = None

    def remove(self, share: UploadShare) -> None:
        self.free(share.size)
        self._shares.pop(share, None)

    def reserve(self, size: int, share: UploadShare) -> None:
        if self._evicts:
            for oldest in list(self._shares):
                if size <= self._free_bytes:
                    break
                if oldest is not share:
                    oldest.evict()
        if size > self._free_bytes:
            raise TooManyUploads
        self._free_bytes -= size

    def free(self, size: int) -> None:
        self._free_bytes += size


class UploadShare:
    """The memory of one body, as a context that frees it at its end."""

    def __init__(self, memory: UploadMemory) -> None:
        self._memory = memory
        self.size = 0
        self.is_evicted = False
        self.deadline: asyncio.Timeout | None = None
        """Of the read that waits for the next piece."""

    def __enter__(self) -> UploadShare:
        self._memory.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.remove(self)

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes; raise `TooManyUploads` if there is no memory for them."""
        if self.is_evicted:
            raise TooManyUploads
        self._memory.reserve(size, self)
        self.size += size

    def free(self, size: int) -> None:
        """Free a part before the end."""
        self._memory.free(size)
        self.size -= size

    def evict(self) -> None:
        """End the body: its read raises `TooManyUploads`."""
        self._memory.remove(self)
        self.size = 0
        self.is_evicted = True
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time())


async def read(
    request: web.Request, *, queue: str, limit: int, http_limits: HttpLimits, share: UploadShare
) -> bytes:
    """Return the request's body; raise what `pieces` raises."""
    found = pieces(request, queue=queue, limit=limit, http_limits=http_limits, share=share)
    return b"".join([piece async for piece in found])


async def pieces(
    request: web.Request, *, queue: str, limit: int, http_limits: HttpLimits, share: UploadShare
) -> AsyncIterator[bytes]:
    """Yield the pieces of the request's body. The share is charged with each piece: the caller frees
    the memory of pieces that it drops.

    Raises `MessageTooLarge` as soon as it is known to have more than `limit` bytes, `UploadTooSlow`,
    `TooManyUploads`, `UnreadableBody`; and `ConnectionError` if the client went away.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise MessageTooLarge(queue=queue, size=length, limit=limit)
    if request.headers.get("Expect", "").lower() == "100-continue":
        # Only now: a client whose request is refused anyway needn't send the body.
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    loop = asyncio.get_running_loop()
    latest = loop.time() + http_limits.stall
    received = 0
    try:
        while True:
            if request.content.is_eof():
                part = request.content.read_nowait(BLOCK)  # All has come.
            else:
                now = loop.time()
                end = min(now + http_limits.stall, latest + received / http_limits.bytes_per_second)
                try:
                    async with asyncio.timeout_at(end) as share.deadline:
                        part = await request.content.read(BLOCK)
                finally:
                    share.deadline = None
            if not part:
                return
            share.reserve(len(part))
            received += len(part)
            if received > limit:
                raise MessageTooLarge(queue=queue, size=received, limit=limit)
            began = loop.time()
            yield part
            latest += loop.time() - began  # The server's own work is not the client's time.
    except TimeoutError as error:
        raise (TooManyUploads() if share.is_evicted else UploadTooSlow(size=received)) from error
    except (HttpProcessingError, RequestPayloadError) as error:
        # What aiohttp says of it may repeat what follows the body: the next request's head.
        raise UnreadableBody(why="it isn't coded as its head says") from error


async def write(
    request: web.Request, response: web.Response, http_limits: HttpLimits
) -> web.StreamResponse:
    """Return the response once the kernel has taken all of it; `CancelledError` if it never will."""
    body = response.body
    _flush_all(request)
    if not isinstance(body, bytes) or len(body) <= BLOCK:
        async with _cut_off_after(request, http_limits):
            await response.prepare(request)
            await response.write_eof()
        return response
    # The transport copies what the kernel doesn't take at once.
    in_blocks = web.StreamResponse(status=response.status, headers=response.headers)
    in_blocks.content_length = len(body)
    if response.keep_alive is False:
        in_blocks.force_close()
    async with _cut_off_after(request, http_limits):
        await in_blocks.prepare(request)
    with memoryview(body) as view:
        for first in range(0, len(view), BLOCK):
            async with _cut_off_after(request, http_limits):
                await in_blocks.write(view[first : first + BLOCK])
    async with _cut_off_after(request, http_limits):
        await in_blocks.write_eof()
    return in_blocks


async def send(
    request: web.Request,
    response: web.StreamResponse,
    file: BinaryIO,
    first: int,
    count: int,
    http_limits: HttpLimits,
) -> None:
    """Write a response whose body is `count` bytes of `file` from `first` on, with the same
    deadline."""
    response.content_length = count
    transport = _flush_all(request)
    async with _cut_off_after(request, http_limits):
        await response.prepare(request)
    if request.method != "HEAD":
        end = first + count
        # With TLS the bytes on the wire are not those of the file.
        send = _by_kernel if transport.get_extra_info("sslcontext") is None else _by_us
        while first < end:
            size = min(BLOCK, end - first)
            async with _cut_off_after(request, http_limits):
                if transport.is_closing():
                    raise ConnectionResetError
                if await send(transport, response, file, first, size) != size:
                    raise ConnectionAbortedError("the file is shorter than it was")
            first += size
    async with _cut_off_after(request, http_limits):
        await response.write_eof()


async def _by_kernel(
    transport: asyncio.WriteTransport,
    response: web.StreamResponse,
    file: BinaryIO,
    first: int,
    size: int,
) -> int:
    return await asyncio.get_running_loop().sendfile(transport, file, first, size)


async def _by_us(
    transport: asyncio.WriteTransport,
    response: web.StreamResponse,
    file: BinaryIO,
    first: int,
    size: int,
) -> int:
    block = await asyncio.to_thread(os.pread, file.fileno(), size, first)
    await response.write(block)
    return len(block)


def _flush_all(request: web.Request) -> asyncio.WriteTransport:
    """Let every write to the connection wait until nothing is left in our own buffer."""
    transport = request.transport
    if transport is None:
        raise asyncio.CancelledError
    if transport.get_extra_info("sslcontext") is None:
        transport.set_write_buffer_limits(0)
    else:
        # asyncio's TLS takes a bound of 0 for one that is always reached, and then nothing goes on.
        transport.set_write_buffer_limits(1, 0)
    return transport


@asynccontextmanager
async def _cut_off_after(request: web.Request, http_limits: HttpLimits) -> AsyncIterator[None]:
    """End the connection if what is done meanwhile takes longer than a stall, or fails with it."""
    transport = request.transport
    try:
        async with asyncio.timeout(http_limits.stall):
            yield
    except (TimeoutError, OSError) as error:
        if transport is not None:
            transport.abort()
        # The client is gone, which aiohttp expects as this error.
        raise asyncio.CancelledError from error
