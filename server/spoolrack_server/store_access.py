"""Access of the handlers to the store.

Nothing waits for a disk in the event loop: changes are submitted and awaited, and reads run in a few
threads of their own, so that they don't wait behind a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spoolrack_store.model.operations import Request
from spoolrack_store.store import Store

from .concurrency import ConcurrencyLimit
from .loop_answers import answer

T = TypeVar("T")

FRAME_BYTES: Final = 2 * 1024 * 1024
"""Of bodies and attributes in one frame of a stream or one page of a list, but always one message. Half
of a gRPC client's default limit."""

READERS: Final = 4


@dataclass(frozen=True, slots=True)
class SubmittedRequest:
    """A request in the store."""

    futures: Sequence[Future[Any]]
    encoded: Callable[[], bytes]
    """Returns the response of a unary call, once the store has answered; raises the `StoreError` of the
    whole request."""

    async def answered(self) -> bytes:
        """Return the response, once the store has answered; raise the `StoreError` of the whole
        request."""
        for future in self.futures:
            await answer(future)
        return self.encoded()


class StoreAccess:
    """The store as the handlers call it. Lives in one event loop."""

    def __init__(
        self, store: Store, workers: ConcurrencyLimit | None = None, name: str = "spoolrack-read"
    ) -> None:
        """`name` is that of the threads that read."""
        self.store = store
        self.workers = workers or ConcurrencyLimit(None)
        self._readers = ThreadPoolExecutor(READERS, name)

    async def submit(self, request: Request[T]) -> T:
        """Return the store's answer; raise its `StoreError`."""
        return await answer(self.store.submit(request))

    async def read(self, read: Callable[..., T], *of: Any) -> T:
        """Return the result of `read` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, *of)

    async def close(self) -> None:
        """Close: no call may follow."""
        self._readers.shutdown(wait=False)
