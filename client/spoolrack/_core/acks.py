"""Acks: deletes and releases in the background, which the program doesn't wait for.

Acks are batched: the first one waits for others as long as `linger` says, unless a quarter of what
the consumer may hold is acked before. A few deletions in large calls cost the server a fraction of
what many small ones do, and leave its disk to the sends. No thread or task is kept between two acks.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from .. import tracing
from .._runtime import Signal
from .._values import ByReceipt, DeleteResult, LeaseResult, MessageRelease
from ..errors import ClientClosed, SpoolrackError, StaleReceipt
from .batcher import ItemResult
from .client_context import ClientContext
from .outgoing import chunks_of

log = logging.getLogger("spoolrack")

Item = TypeVar("Item")
Result = TypeVar("Result", bound=ItemResult)

LINGER: Final = 0.01
"""Seconds."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds for each call after the client was closed."""


class Ack(NamedTuple):
    """The end of a lease, which a program has decided on."""

    receipt: str
    release: MessageRelease | None = None
    """None: the message is deleted."""
    ended: Callable[[SpoolrackError | None], None] | None = None
    """Called with what has prevented it, or None; without it an error is logged."""


class Acks:
    """The acks of one consumer: a stream, a worker, or what a queue's handle has received."""

    def __init__(
        self,
        context: ClientContext,
        queue: str,
        *,
        max_in_flight: int,
        linger: float = LINGER,
        calls: int = 1,
        on_ended: Callable[[], None] = lambda: None,
    ) -> None:
        """`calls`: how many may be in flight at one time. `on_ended` is called after each."""
        self._context = context
        self._runtime = context.runtime
        self._queue = queue
        self._linger = linger
        self._calls = calls
        self._on_ended = on_ended
        self._enough = max(1, max_in_flight // 4)
        """Acks in a full call, which is sent at once."""
        self._lock = self._runtime.lock()
        self.pending = 0
        """Accepted acks that have not ended."""
        self._waiting_acks: list[Ack] = []
        self._running = 0
        """Threads, or tasks, that have begun to gather acks or to make a call."""
        self._is_gathering = False
        """Whether one of them gathers, or was started for it."""
        self._full: Signal = self._runtime.signal()
        """There are `_enough`, or it is the end."""
        self._is_over = False
        self._end: Signal = self._runtime.signal()

    def add(self, ack: Ack) -> None:
        """End a lease soon. Raise `ClientClosed` after the end."""
        self._context.check_process()
        with self._lock:
            if self._is_over:
                raise ClientClosed("The stream is closed, or the client: delete the message by itself.")
            self._waiting_acks.append(ack)
            self.pending += 1
            if len(self._waiting_acks) == self._enough:
                self._full.set()
            if self._is_gathering or self._running >= self._calls:
                return
            self._context.open.add(self)
            self._is_gathering = True
            try:
                self._runtime.start(self._run(), "spoolrack-acks")
            except BaseException:
                # Ctrl-C: the thread may run all the same, and then does no harm beside another one.
                self._is_gathering = False
                raise

    def end(self) -> None:
        """Accept no more acks; those that were accepted are still sent."""
        with self._lock:
            self._is_over = True
            self._full.set()
            self._note_end()

    async def close(self, timeout: float = 2 * CLOSE_TIMEOUT) -> None:
        """Accept no more acks; return once the accepted ones have ended, or after `timeout` seconds."""
        self.end()
        if not await self._end.wait(timeout):
            log.warning("acks of %s are still in flight: their messages may come again", self._queue)
        self._context.open.discard(self)

    async def _run(self) -> None:
        with self._lock:
            self._running += 1
        try:
            is_needed = True
            while is_needed:
                await self._full.wait(self._linger)
                with self._lock:
                    acks, self._waiting_acks = self._waiting_acks, []
                    self._is_gathering = False
                    if not self._is_over:
                        self._full = self._runtime.signal()
                await self._make(acks)
                with self._lock:
                    self.pending -= len(acks)
                    # Decided with the lock held: an ack that comes now starts another one.
                    is_needed = bool(self._waiting_acks) and not self._is_gathering
                    self._is_gathering |= is_needed
                    self._running -= not is_needed
                    self._note_end()
                self._on_ended()
        except BaseException:
            with self._lock:
                self._running -= 1
                self._note_end()
            raise

    def _note_end(self) -> None:
        """With the lock held."""
        if self._is_over and not self._running and not self._is_gathering:
            self._end.set()

    async def _make(self, acks: Sequence[Ack]) -> None:
        """End the leases; tell of each that it has ended."""
        transport = self._context.transport
        deletes = [ack for ack in acks if ack.release is None]
        await self._call(
            deletes,
            [ByReceipt(ack.receipt) for ack in deletes],
            "delete",
            partial(transport.delete, self._queue),
            lambda error: DeleteResult(error=error),
        )
        releases = [ack.release for ack in acks if ack.release is not None]
        await self._call(
            [ack for ack in acks if ack.release is not None],
            releases,
            "release",
            partial(transport.release, self._queue),
            lambda error: LeaseResult(error=error),
        )

    async def _call(
        self,
        acks: Sequence[Ack],
        items: Sequence[Item],
        name: str,
        call: Callable[..., Awaitable[Sequence[Result]]],
        failed: Callable[[SpoolrackError], Result],
    ) -> None:
        """Make a call for the items of `acks`; tell of each how it ended."""
        context = self._context
        chunks = list(chunks_of(items, lambda _: 0))
        try:
            try:
                call_of_all = context.in_chunks(chunks, call, failed, None)
                results: Sequence[Result] = await tracing.settling(
                    call_of_all, name, self._queue, context.transport
                )
            except ClientClosed:
                # The transport is closed after this.
                each_of = [await call(chunk, timeout=CLOSE_TIMEOUT) for chunk in chunks]
                results = [result for each in each_of for result in each]
        except SpoolrackError as error:
            results = [failed(error)] * len(acks)
        unheard = set()
        for ack, result in zip(acks, results, strict=True):
            # Of a release it says that the message is ready, or another consumer's: as was wanted.
            is_done = ack.release is not None and isinstance(result.error, StaleReceipt)
            failure = None if is_done else result.error
            if ack.ended is not None:
                ack.ended(failure)
            elif failure is not None:
                unheard.add(str(failure))
        for reason in unheard:
            log.warning("messages of %s that were acked may come again: %s", self._queue, reason)
