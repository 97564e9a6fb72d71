"""Memory of the process: the watermark, and the bounds on the bytes of requests and responses.

gRPC core buffers a request before its size is known here, so a count of bytes can't bound it. The
watermark does: the resident memory is measured once a second, and every `FAST` seconds while many
requests are being read. Past it sends are refused, and their requests that are still being read end;
past `HARD` times the watermark so do all other requests that are being read. Complete requests and
responses are bounded by `Budget`. Linux only: elsewhere there is no watermark.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import grpc
from spoolrack_store.model.errors import MemoryLimit, StoreError
from spoolrack_store.model.settings import MIB

from .limits import LARGEST_CALL
from .logs import Log

HARD: Final = 1.15
"""Multiple of the watermark past which no request is read further, of any kind."""
LOW: Final = 0.95
"""Below this part of the watermark, sends are taken again."""
SLOW: Final = 1.0
FAST: Final = 0.02
"""Seconds between two measurements; `FAST` while more than `FEW` requests are being read."""
FEW: Final = 3
LARGE: Final = MIB
"""Bytes from which a complete request is weighed against the watermark by itself."""
COPIES: Final = 3
"""Of a large request, until it is stored: the bytes, the message parsed from them, its body."""
SMALL: Final = 64 * 1024
"""Bytes up to which a request or response isn't counted."""
BYTES: Final = 256 * MIB
"""Of the requests, and of the responses, of one process that are counted at a time, at most."""
SHARE: Final = 4
"""A budget is this part of the watermark, if that is less than `BYTES`."""

Context = grpc.aio.ServicerContext[Any, Any]

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryLimiter:
    """The watermark, the requests that are being read, and both budgets. Lives in one event loop."""

    def __init__(
        self,
        log: Log,
        watermark: int | None = None,
        measure: Callable[[], int] | None = None,
    ) -> None:
        """`watermark` in bytes; None: there is none."""
        self._log = log
        self.watermark = watermark
        self._measure = measure or resident
        self.is_over = False
        size = BYTES if watermark is None else max(LARGEST_CALL, min(BYTES, watermark // SHARE))
        self.requests = Budget("requests", size)
        self.responses = Budget("responses", size)
        self._reading: set[RequestReader] = set()
        self._many = asyncio.Event()
        self._freed = 0
        """Bytes of large requests and responses since memory was last returned to the system."""

    # Requests.

    async def read(self, reader: RequestReader, context: Context) -> Any:
        """Return the next request of a call, as bytes, or gRPC's EOF.

        Raises `MemoryLimit` when the memory that is left is needed.
        """
        if reader.sends:
            self.require()
        self._reading.add(reader)
        if len(self._reading) > FEW:
            self._many.set()
        try:
            raw = await context.read()
        finally:
            self._reading.discard(reader)
        if raw is not grpc.aio.EOF and len(raw) >= LARGE:
            self._freed += len(raw)
            self.check()
            self.require(COPIES * len(raw))
        return raw

    def refuse(
        self, error: StoreError, wanted: Callable[[RequestReader], bool] = lambda reader: True
    ) -> None:
        """End with `error` the `wanted` calls that read a request."""
        for reader in list(self._reading):
            if wanted(reader):
                reader.refuse(error)

    def require(self, more: int = 0) -> None:
        """Raise `MemoryLimit` past the watermark, or if `more` bytes would reach it."""
        if self.watermark is None:
            return
        if self.is_over or (more and self._measure() + more > self.watermark):
            raise self._limit()

    def _limit(self) -> MemoryLimit:
        return MemoryLimit(why=f"its memory is at the watermark of {(self.watermark or 0) // MIB} MiB")

    # The watermark.

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            if len(self._reading) > FEW:
                await asyncio.sleep(FAST)
            else:
                self._many.clear()
                try:
                    async with asyncio.timeout(SLOW):
                        await self._many.wait()
                except TimeoutError:
                    pass
            self.check()
            if self.is_over or (self._freed and not self._reading):
                self._freed = 0
                await asyncio.to_thread(trim)
                if self.is_over:
                    self.check()

    def check(self) -> None:
        """Measure now, and end incoming requests if there is too much."""
        if self.watermark is None:
            return
        found = self._measure()
        if found > self.watermark:
            if not self.is_over:
                self.is_over = True
                self._log.warning(
                    "sends are refused: the memory is at the watermark",
                    resident=found,
                    watermark=self.watermark,
                )
            self.refuse(self._limit(), lambda reader: reader.sends)
            if found > HARD * self.watermark:
                self.refuse(self._limit())
        elif self.is_over and found < LOW * self.watermark:
            self.is_over = False
            self._log.info("sends are taken again", resident=found, watermark=self.watermark)


class RequestReader(Protocol):
    """A call whose request is being read."""

    sends: bool
    """Whether its requests bring messages."""

    @property
    def ends_itself(self) -> bool:
        """Whether this is a stream that ends by itself when the server drains."""

    def refuse(self, error: StoreError) -> None:
        """End the call, whose request is not complete.

        The read itself must not be cancelled: grpc.aio would never free what has come of the request.
        """


class Budget:
    """Bytes in flight, in all and for each connection. Lives in one event loop."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self.total = total
        self.connection = max(LARGEST_CALL, total // 2)
        self.used = 0
        self._held: dict[str, int] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._has_ended = False

    def fits(self, peer: str, size: int) -> bool:
        """Return whether `reserve` would succeed."""
        return (
            size <= SMALL
            or not self.used
            or (self.used + size <= self.total and self._held.get(peer, 0) + size <= self.connection)
        )

    def reserve(self, peer: str, size: int) -> int:
        """Count `size` bytes of the connection `peer`, and return what `free` must be given.

        Raises `MemoryLimit` if they don't fit. One request or response always fits alone.
        """
        if size <= SMALL:
            return 0
        if not self.fits(peer, size):
            raise self.full()
        self.used += size
        self._held[peer] = self._held.get(peer, 0) + size
        return size

    def full(self) -> MemoryLimit:
        return MemoryLimit(why=f"the {self._what} under way fill their {self.total // MIB} MiB")

    def free(self, peer: str, taken: int) -> None:
        if not taken:
            return
        self.used -= taken
        left = self._held.pop(peer) - taken
        if left:
            self._held[peer] = left
        self._wake()

    @contextmanager
    def share(self, peer: str, size: int) -> Iterator[None]:
        """Reserve `size` bytes while they are in flight; raise `MemoryLimit`."""
        taken = self.reserve(peer, size)
        try:
            yield
        finally:
            self.free(peer, taken)

    async def wait_for(self, peer: str, size: int) -> None:
        """Return when `size` bytes fit, or after `end`."""
        while not self._has_ended and not self.fits(peer, size):
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)

    def end(self) -> None:
        """End all waits."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


# The system.


def resident() -> int:
    """Return the resident bytes of this process; 0 where the system doesn't report them."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(200).split()[1]) * _PAGE
    except OSError:
        return 0


def trim() -> None:
    """Return freed memory to the system: malloc keeps it otherwise. In any thread."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)
