"""Access of the HTTP endpoints to the store, and their shared objects.

Nothing waits for a disk in the event loop: changes are submitted and awaited, and reads run in a few
threads of their own, so that they don't wait behind a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from spoolrack_store.model.errors import Draining
from spoolrack_store.model.operations import OpenMessage, Request
from spoolrack_store.store import Store

from ..access.access_control import AccessControl
from ..concurrency import ConcurrencyLimit
from ..lease_requests import LeaseRequests
from ..logs import Log
from ..loop_answers import answer
from ..memory import MemoryLimiter
from .request_bodies import HttpLimits, UploadMemory

T = TypeVar("T")

READERS: Final = 4


class GatewayContext:
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
        self.store = store
        self.guard = guard or AccessControl()
        self.memory = memory or MemoryLimiter(log)
        self.http_limits = http_limits
        self.upload_memory = UploadMemory(http_limits.memory)
        self.workers = workers or ConcurrencyLimit(None)
        self.leases = LeaseRequests(store, log, self.workers)
        self._readers = ThreadPoolExecutor(READERS, "spoolrack-http")
        self._draining = asyncio.Event()

    async def submit(self, request: Request[T]) -> T:
        """Return the store's answer; raise its `StoreError`."""
        return await answer(self.store.submit(request))

    def drain(self) -> None:
        """End the waits of requests."""
        self._draining.set()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; raise `Draining` if the server shuts down before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
            raise Draining

    async def read(self, read: Callable[..., T], *of: Any) -> T:
        """Return `read()`, run in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, *of)

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
        self._readers.shutdown(wait=False)


def _shut(opening: Future[OpenMessage]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()
