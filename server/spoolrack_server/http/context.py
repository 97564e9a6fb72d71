"""The shared objects of an HTTP front: its use cases, and the bounds of its requests."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from spoolrack_store.model.errors import Draining

from ..app.application import Application
from ..app.memory import MemoryLimiter
from ..system.logs import Log
from . import request_bodies
from .request_bodies import HttpLimits, UploadMemory


class HttpContext:
    """The shared objects of all endpoints. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        log: Log,
        http_limits: HttpLimits | None = None,
        memory: MemoryLimiter | None = None,
    ) -> None:
        self.app = app
        self.memory = memory or MemoryLimiter(log)
        self.http_limits = http_limits or HttpLimits()
        self.upload_memory = UploadMemory(self.http_limits.memory)
        self._draining = asyncio.Event()

    async def body(self, request: web.Request, limit: int, queue: str = "") -> bytes:
        """Return a body of up to `limit` bytes; raise `MessageTooLarge` about `queue` for more."""
        with self.upload_memory.share() as share:
            return await request_bodies.read(
                request, queue=queue, limit=limit, http_limits=self.http_limits, share=share
            )

    def drain(self) -> None:
        """End the waits of requests."""
        self._draining.set()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; raise `Draining` if the server shuts down before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
            raise Draining
