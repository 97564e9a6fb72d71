"""Acks: deletes in the background, which the program doesn't wait for.

Acks are batched: the first one waits for others as long as `LINGER` says, unless a quarter of what the
stream may hold is acked before. A few deletions in large calls cost the server a fraction of what many
small ones do, and leave its disk to the sends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ._runtime import Runtime, Signal, Started
from ._values import DeleteResult
from .errors import ClientClosed, SpoolrackError

log = logging.getLogger("spoolrack")

LINGER: Final = 0.01
"""Seconds."""


class Acks:
    """The acks of one stream."""

    def __init__(
        self,
        runtime: Runtime,
        queue: str,
        delete_many: Callable[[Sequence[str]], Awaitable[Sequence[DeleteResult]]],
        *,
        max_in_flight: int,
    ) -> None:
        """`delete_many(receipts)` answers with a result for each."""
        self._runtime = runtime
        self._queue = queue
        self._delete_many = delete_many
        self._lock = runtime.lock()
        self._waiting: list[str] = []
        self._enough = max(1, max_in_flight // 4)
        """Acks in a full call, which is sent at once."""
        self._some: Signal = runtime.signal()
        self._full: Signal = runtime.signal()
        """There are `_enough`, or it is the end."""
        self._worker: Started | None = None
        self._is_over = False

    def add(self, receipt: str) -> None:
        """Delete a message soon. Raise `ClientClosed` after the end."""
        with self._lock:
            if self._is_over:
                raise ClientClosed("The stream is closed: delete the message by itself.")
            self._waiting.append(receipt)
            if len(self._waiting) == 1:
                if self._worker is None:
                    self._worker = self._runtime.start(self._run(), "spoolrack-acks")
                self._some.set()
            if len(self._waiting) == self._enough:
                self._full.set()

    def end(self) -> None:
        """Accept no more acks; those that were accepted are still sent."""
        with self._lock:
            self._is_over = True
            self._some.set()
            self._full.set()

    async def join(self, timeout: float) -> None:
        """Wait until all acked messages are deleted, `timeout` seconds at most."""
        if self._worker is not None and not await self._worker.join(timeout):
            log.warning("acks of %s are still in flight: their messages may come again", self._queue)

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            await self._full.wait(LINGER)
            with self._lock:
                receipts, self._waiting = self._waiting, []
                if not receipts and self._is_over:
                    return
                if not self._is_over:
                    self._some, self._full = self._runtime.signal(), self._runtime.signal()
            await self._delete(receipts)

    async def _delete(self, receipts: Sequence[str]) -> None:
        try:
            errors = [each.error for each in await self._delete_many(receipts)]
        except SpoolrackError as error:
            errors = [error]
        for reason in {str(error) for error in errors if error is not None}:
            log.warning("messages of %s that were acked may come again: %s", self._queue, reason)
