"""Memory of the process: the watermark, and the bounds on the bytes of requests and responses.

gRPC core buffers a request before its size is known here, so a count of bytes can't bound it. The
watermark does: the memory is measured once a second, and every `FAST` seconds while many requests are
being read. Past it garbage is collected. If that isn't enough, sends are refused, and those end whose
requests are still being read; past `HARD` times the watermark so do all other calls whose requests are.
Complete requests and responses are bounded by `Budget`. Linux only: elsewhere there is no watermark.

Anonymous memory is measured: the mapped files of libraries are shared, and the kernel drops them when a
container needs the room.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol

from spoolrack_store.model.clock import stopwatch
from spoolrack_store.model.errors import Draining, MemoryLimit, StoreError
from spoolrack_store.model.settings import MIB

from ..system.cgroup import machine_memory, memory_limit
from ..system.limits import LARGEST_CALL
from ..system.logs import Log

HARD: Final = 1.15
"""Multiple of the watermark past which no request is read further, of any kind."""
LOW: Final = 0.95
"""Below this part of the watermark, sends are taken again."""
SLOW: Final = 1.0
FAST: Final = 0.02
"""Seconds between two measurements; `FAST` while more than `FEW` requests are being read."""
FEW: Final = 3
COLLECT_SHARE: Final = 100
"""Garbage is collected for a hundredth of the time at most: each time takes the longer the more there
is."""
LASTING: Final = 60.0
"""Seconds after which a refusal says that it won't end by itself."""
IDLE: Final = 64 * MIB
"""Bytes that a server takes for itself, at most."""
LEAST_LIMIT: Final = 2 * IDLE
"""Bytes of a container for one server, at least."""
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

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryLimiter:
    """The watermark, the requests that are being read, and both budgets. Lives in one event loop."""

    def __init__(
        self,
        log: Log,
        watermark: int | None = None,
        measure: Callable[[], int | None] | None = None,
        now: Callable[[], float] = stopwatch,
    ) -> None:
        """`watermark` in bytes; None: there is none."""
        self._log = log
        self.watermark = watermark
        self._measure = measure or anonymous
        self._now = now
        self._over_since: float | None = None
        self._next_collection = 0.0
        size = BYTES if watermark is None else max(LARGEST_CALL, min(BYTES, watermark // SHARE))
        self.requests = Budget("requests", size)
        self.responses = Budget("responses", size)
        self._reading: set[RequestReader] = set()
        self._many = asyncio.Event()
        self._freed = 0
        """Bytes of large requests and responses since memory was last returned to the system."""

    @property
    def is_over(self) -> bool:
        """Whether sends are refused."""
        return self._over_since is not None

    @property
    def used(self) -> int:
        """Bytes that are compared with the watermark."""
        return self._measure() or 0

    def warn_if_too_small(self, limit: int | None) -> None:
        """Log which of the watermark and the container's `limit` leaves no memory for messages."""
        if self.watermark is not None and self.watermark < IDLE:
            self._log.warning(
                "the memory watermark is too small: a server takes more that has no messages",
                watermark=self.watermark,
                least=IDLE,
            )
        if limit is not None and limit < LEAST_LIMIT:
            self._log.warning(
                "the memory limit of this container is too small", limit=limit, least=LEAST_LIMIT
            )

    # Requests.

    async def read(self, reader: RequestReader, call: IncomingCall) -> Any:
        """Return the next request of a call, as bytes, or what the transport returns at the end.

        Raises `MemoryLimit` when the memory that is left is needed.
        """
        if reader.sends:
            self.require()
        self._reading.add(reader)
        if len(self._reading) > FEW:
            self._many.set()
        try:
            raw = await call.read()
        finally:
            self._reading.discard(reader)
        if isinstance(raw, bytes) and len(raw) >= LARGE:
            self._freed += len(raw)
            self.check()
            self.require(COPIES * len(raw))
        return raw

    def refuse(
        self, error: StoreError, matches: Callable[[RequestReader], bool] = lambda reader: True
    ) -> None:
        """End with `error` the calls that read a request, and match."""
        for reader in list(self._reading):
            if matches(reader):
                reader.refuse(error)

    def require(self, more: int = 0) -> None:
        """Raise `MemoryLimit` past the watermark, or if `more` bytes would reach it."""
        if self.watermark is None:
            return
        if self.is_over or (more and self.used + more > self.watermark):
            raise self._limit()

    def _limit(self) -> MemoryLimit:
        why = f"its memory is at the watermark of {(self.watermark or 0) // MIB} MiB"
        since = self._over_since
        if since is not None and (span := self._now() - since) > LASTING:
            why += (
                f" for {span // 60:.0f} min, and stays there until messages are received and deleted "
                "or the server gets more"
            )
        return MemoryLimit(why=why)

    # The watermark.

    async def watch(self) -> None:
        """Measure once, when it is time."""
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
        used = self._measure()
        if used is None:
            return
        # Many requests at once are no garbage: don't wait for a collection.
        if used > self.watermark and len(self._reading) <= FEW and self._collect():
            used = self.used
        if used > self.watermark:
            if self._over_since is None:
                self._over_since = self._now()
                self._log.warning(
                    "sends are refused: the memory is at the watermark",
                    used=used,
                    watermark=self.watermark,
                )
            self.refuse(self._limit(), lambda reader: reader.sends)
            if used > HARD * self.watermark:
                self.refuse(self._limit())
        elif self.is_over and used < LOW * self.watermark:
            self._over_since = None
            self._log.info("sends are taken again", used=used, watermark=self.watermark)

    def _collect(self) -> bool:
        """Free what only cycles refer to, unless that was done lately; return whether it was done.

        The oldest garbage, such as that of a thousand connections, is collected by itself only when as
        much again has been allocated.
        """
        began = self._now()
        if began < self._next_collection:
            return False
        gc.collect()
        trim()
        ended = self._now()
        self._next_collection = ended + COLLECT_SHARE * (ended - began)
        return True


class IncomingCall(Protocol):
    """A call as its transport has it."""

    async def read(self) -> Any:
        """Return the next request, as bytes, or what marks the end."""


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
        self._by_peer: dict[str, int] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._has_ended = False

    def fits(self, peer: str, size: int) -> bool:
        """Return whether `reserve` would succeed."""
        return (
            size <= SMALL
            or not self.used
            or (self.used + size <= self.total and self._by_peer.get(peer, 0) + size <= self.connection)
        )

    def reserve(self, peer: str, size: int) -> int:
        """Count `size` bytes of the connection `peer`, and return what `free` must be given.

        Raises `MemoryLimit` if they don't fit. One request or response always fits alone.
        """
        if not self.fits(peer, size):
            raise self.full()
        return self.count(peer, size)

    def count(self, peer: str, size: int) -> int:
        """Count bytes that can't be refused any more, as `reserve` does: no others fit meanwhile."""
        if size <= SMALL:
            return 0
        self.used += size
        self._by_peer[peer] = self._by_peer.get(peer, 0) + size
        return size

    def full(self) -> MemoryLimit:
        return MemoryLimit(why=f"the {self._what} under way fill their {self.total // MIB} MiB")

    def free(self, peer: str, size: int) -> None:
        if not size:
            return
        self.used -= size
        left = self._by_peer.pop(peer) - size
        if left:
            self._by_peer[peer] = left
        self._wake()

    @contextmanager
    def share(self, peer: str, size: int) -> Iterator[None]:
        """Reserve `size` bytes while they are in flight; raise `MemoryLimit`."""
        taken = self.reserve(peer, size)
        try:
            yield
        finally:
            self.free(peer, taken)

    @asynccontextmanager
    async def awaited_share(self, peer: str, size: int) -> AsyncIterator[None]:
        """Reserve `size` bytes, once they fit, while in flight; raise `Draining` after `end`."""
        await self.wait_for(peer, size)
        if not self.fits(peer, size):
            raise Draining
        with self.share(peer, size):
            yield

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


def default_watermark(part: float, processes: int) -> int:
    """Return the watermark of each of `processes`: a `part` of the memory that idle ones leave."""
    limit = memory_limit()
    memory = machine_memory() if limit is None else min(limit, machine_memory())
    if processes > 1:
        memory -= IDLE  # The supervisor's.
    return IDLE + max(0, int(part * (memory // processes - IDLE)))


def anonymous() -> int | None:
    """Return the bytes of this process that are no mapped files; None: the system doesn't tell, or not
    now, without a descriptor.

    The file stays open: the event loop reads it ten times a second, also where no descriptor is left.
    """
    process = os.getpid()
    try:
        file = _STATM.get(process)
        if file is None:
            file = _STATM[process] = os.open("/proc/self/statm", os.O_RDONLY)
        _, resident, files, *_ = os.pread(file, 200, 0).split()
    except OSError:
        return None
    return (int(resident) - int(files)) * _PAGE


_STATM: Final[dict[int, int]] = {}
"""The descriptor of a process: one that was forked reads its own."""


def trim() -> None:
    """Return freed memory to the system: malloc keeps it otherwise. In any thread."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)
