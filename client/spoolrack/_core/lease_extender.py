"""Extends leases in the background, for messages that wait or are being handled.

All leases of one stream are extended together, in one call, at a random fraction of the visibility
timeout, so that many consumers don't all come at once. What can fail: an extension that comes too
late, or not at all while the program is stopped or the server away; the message is then lost to this
consumer and is not handed out any more.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from .._call_values import GetQueue
from .._runtime import Started
from .._values import MAX_BATCH, Envelope, LeaseExtension
from ..errors import SpoolrackError
from . import outages
from .client_context import ClientContext

log = logging.getLogger("spoolrack")

_LOST: Final = -math.inf


def next_round(visibility_timeout: float, random: Random) -> float:
    """Return the seconds until the next extension: early enough that one may fail and the next still
    succeeds."""
    return visibility_timeout * random.uniform(0.3, 0.45)


class LeaseExtender:
    """The leases of one stream. Thread-safe."""

    def __init__(
        self,
        context: ClientContext,
        queue: str,
        visibility_timeout: float | None,
        on_round: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_round` is called before each round of extensions."""
        self._on_round = on_round
        self._context = context
        self._queue = queue
        self._visibility_timeout = visibility_timeout
        self._has_own_timeout = visibility_timeout is not None
        """Whether the stream has a visibility timeout of its own."""
        self._lock = context.runtime.lock()
        self._extended_at: dict[str, float] = {}
        """Receipts, with the moment at which each lease was last known to hold, or `_LOST`."""
        self._stopped = context.runtime.signal()
        self._stops_when_empty = False
        self._keeper: Started | None = None

    def add(self, envelopes: Iterable[Envelope]) -> None:
        now = self._context.runtime.elapsed()
        with self._lock:
            for envelope in envelopes:
                self._extended_at[envelope.receipt] = now
                if not self._has_own_timeout and envelope.visibility_timeout is not None:
                    # A consumer that may only receive can't ask for the queue's settings.
                    self._visibility_timeout = envelope.visibility_timeout
            if self._keeper is None and not self._stopped.is_set():
                self._keeper = self._context.runtime.start(self._keep(), "spoolrack-leases")

    def drop(self, receipt: str) -> None:
        """Stop extending a lease."""
        with self._lock:
            self._extended_at.pop(receipt, None)
            if self._stops_when_empty and not self._extended_at:
                self._stopped.set()

    def hand_out(self, envelopes: Iterable[Envelope], *, keep: bool) -> list[Envelope]:
        """Return the messages whose leases are not lost; stop extending them, unless `keep`."""
        now = self._context.runtime.elapsed()
        # After a stop of the whole program (SIGSTOP), or of the machine, no extension has failed, and
        # yet the lease is over.
        since = _LOST if self._visibility_timeout is None else now - self._visibility_timeout
        held_envelopes = []
        with self._lock:
            for envelope in envelopes:
                receipt = envelope.receipt
                known = self._extended_at.get(receipt) if keep else self._extended_at.pop(receipt, None)
                if known is not None and known <= since:
                    self._extended_at.pop(receipt, None)
                else:
                    held_envelopes.append(envelope)
        return held_envelopes

    def stop(self) -> None:
        """Stop extending all leases. May be repeated."""
        self._stopped.set()

    def stop_when_empty(self) -> None:
        """Stop once the last lease is dropped."""
        with self._lock:
            self._stops_when_empty = True
            if not self._extended_at:
                self._stopped.set()

    async def _keep(self) -> None:
        random = self._context.random
        try:
            while not await self._stopped.wait(next_round(await self._visibility(), random)):
                self._on_round()
                await self.extend_all(await self._visibility())
        except SpoolrackError as error:
            log.warning("the leases of %s are not extended: %s", self._queue, error)
        except Exception:
            log.exception("the leases of %s are extended no more", self._queue)

    async def _visibility(self) -> float:
        """Return the seconds of a lease: those of the stream, those sent with its messages, or the
        queue's."""
        if self._visibility_timeout is not None:
            return self._visibility_timeout
        context = self._context
        info = await context.ask(GetQueue(name=self._queue), None)
        self._visibility_timeout = info.settings.visibility_timeout
        return self._visibility_timeout

    async def extend_all(self, visibility: float) -> None:
        """Extend all held leases to `visibility` seconds from now."""
        with self._lock:
            receipts = [receipt for receipt, moment in self._extended_at.items() if moment > _LOST]
        for start in range(0, len(receipts), MAX_BATCH):
            chunk = receipts[start : start + MAX_BATCH]
            try:
                await self._extend(chunk, visibility)
            except SpoolrackError as error:
                log.log(
                    outages.level(self._context.transport.home(self._queue)),
                    "%d leases of %s could not be extended: %s",
                    *(len(chunk), self._queue, error),
                )

    async def _extend(self, receipts: Sequence[str], visibility: float) -> None:
        context = self._context
        changes = [LeaseExtension(receipt, visibility) for receipt in receipts]
        asked_at = context.runtime.elapsed()
        results = await context.call(
            context.transport.extend,
            # Retried for no longer than until the next round is due.
            visibility * 0.3,
            self._queue,
            changes,
        )
        with self._lock:
            for receipt, result in zip(receipts, results, strict=True):
                if receipt not in self._extended_at:
                    continue  # Dropped while the call was in flight.
                if result.error is None:
                    self._extended_at[receipt] = asked_at
                else:
                    self._extended_at[receipt] = _LOST
                    log.info("a lease of %s is lost: %s", self._queue, result.error)
