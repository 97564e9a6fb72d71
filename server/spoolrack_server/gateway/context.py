"""Access of the HTTP endpoints to the store, and their shared objects."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress

from spoolrack_store.model.errors import Draining
from spoolrack_store.model.operations import OpenMessage
from spoolrack_store.store import Store

from ..access.access_control import AccessControl
from ..concurrency import ConcurrencyLimit
from ..lease_requests import LeaseRequests
from ..logs import Log
from ..loop_answers import answer
from ..memory import MemoryLimiter
from ..store_access import StoreAccess
from .request_bodies import HttpLimits, UploadMemory


class GatewayContext(StoreAccess):
    """The store and the shared objects of all endpoints. Lives in one event loop."""

    def __init__(
        self,
        store: Store,
        log: Log,
        http_limits: HttpLimits,
        workers: ConcurrencyLimit | None = None,
        guard: AccessControl | None = None,
        memory: MemoryLimiter | None = None,
    ) -> None:
        super().__init__(store, workers, "spoolrack-http")
        self.guard = guard or AccessControl()
        self.memory = memory or MemoryLimiter(log)
        self.http_limits = http_limits
        self.upload_memory = UploadMemory(http_limits.memory)
        self.leases = LeaseRequests(store, log, self.workers)
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """End the waits of requests."""
        self._draining.set()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; raise `Draining` if the server shuts down before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
            raise Draining

    async def open(self, queue: str, id: str) -> OpenMessage:
        """Open a message's file, which the caller gives to `shut`."""
        opening = self._readers.submit(self.store.open_message, queue, id)
        try:
            return await answer(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_shut)
            raise

    def close_message(self, message: OpenMessage) -> None:
        """Close a message's file. Returns at once: closing the last handle of a removed file waits for
        the disk."""
        self._readers.submit(message.file.close)

    async def close(self) -> None:
        """Return once all releases are done. No request may follow."""
        await self.leases.close()
        await super().close()


def _shut(opening: Future[OpenMessage]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()
