"""Frames of messages, written within the memory for responses.

A frame is counted from the lease of its messages until the transport has taken it. The store reads
bodies as it leases, so memory for a frame, at least for the queue's largest message, is reserved
before: a stream waits for it, a single call is refused with `MemoryLimit`. A receive that waits for a
send reserves nothing; if there is no memory when it is answered, its messages are released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from google.protobuf.message import Message as Response
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import Draining, MemoryLimit, StoreError
from spoolrack_store.model.operations import MAX_BODY_IN_MEMORY, Delivery, Receive
from spoolrack_store.model.settings import MAX_ATTRIBUTES_SIZE, MIB

from ..app.caller import Caller
from ..app.leases import Leases, receipts_of
from ..app.memory import Budget
from ..app.store_access import StoreAccess
from ..wire import encoding
from .authorized_calls import Context
from .calls import CallIsOver, put, write

USUAL: Final = 4 * MIB
"""Bytes up to which a frame needs no room before its lease, as long as half of the budget is free."""
MEMORY_TIMEOUT: Final = 5.0
"""Seconds that a single call waits for room."""
MOST_KNOWN: Final = 10_000


class FrameWriter:
    """The writer of all streams' frames. Lives in one event loop."""

    def __init__(self, budget: Budget, access: StoreAccess, leases: Leases, clock: Clock) -> None:
        self.clock = clock
        self._budget = budget
        self._access = access
        self._leases = leases
        self._refused: dict[str, int] = {}
        """By queue, the bytes of messages that went back for want of room: the queue's limit was lower
        then."""

    def drain(self) -> None:
        """End all waits for memory."""
        self._budget.end()

    async def lease(self, context: Context, caller: Caller, wanted: Receive) -> LeasedFrame | None:
        """Lease messages for a stream, when there is memory for them; None: try again.

        Raises what `Leases.receive` raises. When the caller is cancelled before, nothing stays
        leased.
        """
        peer, size = context.peer(), self._size(wanted)
        if not self._is_free(peer, size):
            await self._budget.wait_for(peer, size)
            if not self._budget.fits(peer, size):
                return None
            found = await self._lease_at_once(context, peer, size, caller, wanted)
            if found is not None:
                return found
        return await self._lease_then_count(context, peer, caller, wanted)

    async def lease_now(self, context: Context, caller: Caller, wanted: Receive) -> LeasedFrame:
        """Lease messages for a single call. Raise `MemoryLimit` without memory for them."""
        peer, size = context.peer(), self._size(wanted)
        if not self._is_free(peer, size):
            with suppress(TimeoutError):
                async with asyncio.timeout(MEMORY_TIMEOUT):
                    await self._budget.wait_for(peer, size)
            found = await self._lease_at_once(context, peer, size, caller, wanted)
            if found is not None:
                return found
        found = await self._lease_then_count(context, peer, caller, wanted)
        if found is None:
            raise self._budget.full()
        return found

    async def put(self, context: Context, response: Response) -> None:
        """Write a frame that can be read again, once there is memory; raises `CallIsOver`,
        `Draining`."""
        peer, size = context.peer(), response.ByteSize()
        await self._budget.wait_for(peer, size)
        if not self._budget.fits(peer, size):
            raise Draining
        with self._budget.share(peer, size):
            await put(context, response.SerializeToString())

    def _is_free(self, peer: str, size: int) -> bool:
        """Return whether a frame of at most `size` bytes needs no reserved memory before its lease."""
        half = self._budget.total // 2
        return size <= USUAL and self._budget.used <= half and self._budget.fits(peer, size)

    async def _lease_at_once(
        self, context: Context, peer: str, size: int, caller: Caller, wanted: Receive
    ) -> LeasedFrame | None:
        """Lease ready messages in room that is taken before; None if none is. Raise `MemoryLimit`."""
        with self._budget.share(peer, size):
            deliveries = await self._leases.receive(caller, replace(wanted, wait=Millis(0)))
        return self._counted(context, peer, wanted.queue, deliveries) if deliveries else None

    async def _lease_then_count(
        self, context: Context, peer: str, caller: Caller, wanted: Receive
    ) -> LeasedFrame | None:
        """Lease messages that are ready, or come; None if there is no room, and they go back."""
        deliveries = await self._leases.receive(caller, wanted)
        try:
            return self._counted(context, peer, wanted.queue, deliveries)
        except MemoryLimit:
            return None

    def _counted(
        self, context: Context, peer: str, queue: str, deliveries: list[Delivery]
    ) -> LeasedFrame:
        """Take room for what was leased. Raise `MemoryLimit`, and then the messages go back."""
        size = _size_of(deliveries)
        try:
            taken = self._budget.reserve(peer, size)
        except MemoryLimit:
            self._leases.give_back(queue, receipts_of(deliveries))
            # A queue may hold messages that are larger than its limit is now.
            if len(self._refused) >= MOST_KNOWN:
                self._refused.clear()
            self._refused[queue] = size
            raise
        self._refused.pop(queue, None)
        return LeasedFrame(self, context, peer, taken, queue, deliveries)

    def _size(self, wanted: Receive) -> int:
        """Return the bytes that the messages of a receive may have together."""
        try:
            largest = self._access.store.settings(wanted.queue).max_message_size
        except StoreError:
            return 0  # The receive itself says what is wrong.
        largest = min(largest, MAX_BODY_IN_MEMORY) + MAX_ATTRIBUTES_SIZE
        # One message is always leased, and more only within `max_bytes`.
        return max(
            largest,
            self._refused.get(wanted.queue, 0),
            min(wanted.max_bytes, wanted.max_messages * largest),
        )


class LeasedFrame:
    """The messages leased for a call, and their share of the memory."""

    def __init__(
        self,
        frames: FrameWriter,
        context: Context,
        peer: str,
        taken: int,
        queue: str,
        deliveries: list[Delivery],
    ) -> None:
        self._frames = frames
        self._context = context
        self._peer = peer
        self._taken = taken
        self._queue = queue
        self._deliveries = deliveries

    async def hand_over(self, writes: asyncio.Lock | None = None) -> None:
        """Write the messages in one response; return the leases that the transport didn't take.

        Of a stream, which takes one response at a time, `writes` is held meanwhile; the task that
        hands over must be no call's, which is cancelled.
        """
        response = encoding.deliveries(
            self._deliveries, self._frames.clock.wall(), in_stream=writes is not None
        )
        receipts = receipts_of(self._deliveries)
        # The bodies are in the response now.
        self._deliveries = []
        try:
            if writes is not None:
                async with writes:
                    await put(self._context, response)
            elif receipts:
                await write(self._context, response)
            else:
                await put(self._context, response)  # Nothing has to go back.
        except CallIsOver:
            if receipts:
                self._frames._leases.give_back(self._queue, receipts)
            raise
        finally:
            self._frames._budget.free(self._peer, self._taken)


def _size_of(deliveries: Iterable[Delivery]) -> int:
    """Return the bytes of bodies and attributes."""
    size = 0
    for delivery in deliveries:
        size += sum(map(len, delivery.bodies))
        for attributes in delivery.attributes.values():
            size += sum(len(name) + len(value) for name, value in attributes.items())
    return size
