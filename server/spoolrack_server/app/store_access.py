"""Access of the use cases to the store.

Nothing waits for a disk in the event loop: changes are submitted and awaited, and reads run in a few
threads of their own, so that they don't wait behind a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spoolrack_store.model.operations import OpenMessage, Request
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
    """The store as one front's use cases call it. Lives in one event loop."""

    def __init__(self, store: Store, workers: ConcurrencyLimit | None = None) -> None:
        self.store = store
        self.workers = workers or ConcurrencyLimit(None)
        self._readers = ThreadPoolExecutor(READERS, "spoolrack-read")

    async def submit(self, request: Request[T]) -> T:
        """Return the store's answer; raise its `StoreError`."""
        return await answer(self.store.submit(request))

    async def read(self, read: Callable[..., T], *of: Any) -> T:
        """Return the result of `read` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, *of)

    async def open(self, queue: str, id: str) -> OpenMessage:
        """Open a message's file, which the caller gives to `close_message`."""
        opening = self._readers.submit(self.store.open_message, queue, id)
        try:
            return await answer(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    def close_message(self, message: OpenMessage) -> None:
        """Close a message's file. Returns at once: closing the last handle of a removed file waits for
        the disk."""
        self._readers.submit(message.file.close)

    def close(self) -> None:
        """Close: no call may follow."""
        self._readers.shutdown(wait=False)


def _close_opened(opening: Future[OpenMessage]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()
