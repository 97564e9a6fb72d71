"""Receives: each within the memory for responses, whichever front it comes from.

Messages are counted from their lease until the transport has taken them. The store reads bodies as it
leases, so memory, at least for the queue's largest message, is reserved before: a stream waits for it,
a single call is refused with `MemoryLimit`. A receive that waits for a send reserves nothing; if there
is no memory when it is answered, its messages are released. The queue's lease and the release of what
no client has seen are those of `Leases`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import MemoryLimit, StoreError
from spoolrack_store.model.message_content import MAX_ATTRIBUTES_SIZE
from spoolrack_store.model.operations import (
    LARGE_BODY,
    MAX_BODY_IN_MEMORY,
    Delivery,
    Receive,
)
from spoolrack_store.model.settings import MIB

from .caller import Caller, Permission, on_some_queue
from .leases import Leases, receipts_of
from .memory import Budget
from .store_access import StoreAccess

USUAL: Final = 4 * MIB
"""Bytes up to which a receive needs no room before its lease, as long as half of the budget is free."""
MEMORY_TIMEOUT: Final = 5.0
"""Seconds that a single call waits for room."""
MOST_KNOWN: Final = 10_000


class Receives:
    """The use cases of receives. Lives in one event loop."""

    def __init__(self, access: StoreAccess, leases: Leases, budget: Budget) -> None:
        """`budget` is that of all fronts of the process."""
        self._budget = budget
        self._access = access
        self._leases = leases
        self._refused: dict[str, int] = {}
        """By queue, the bytes of messages that went back for want of room: the queue's limit was lower
        then."""

    @on_some_queue(Permission.RECEIVE)
    async def stream(self, caller: Caller, request: Receive, peer: str) -> LeasedMessages | None:
        """Lease messages for a stream of the connection `peer`, when there is memory for them; None:
        try again.

        When the caller is cancelled before, nothing stays leased.
        """
        caller.require(Permission.RECEIVE, request.queue)
        size = self._size(request)
        if not self._is_free(peer, size, 1):
            await self._budget.wait_for(peer, size)
            if not self._budget.fits(peer, size):
                return None
            found = await self._lease_at_once(peer, size, 1, request)
            if found is not None:
                return found
        return await self._lease_then_count(peer, 1, request)

    @on_some_queue(Permission.RECEIVE)
    async def receive(
        self, caller: Caller, request: Receive, peer: str, *, copies: int = 1
    ) -> LeasedMessages:
        """Lease messages for a single call of the connection `peer`. Raise `MemoryLimit` without memory
        for them, `copies` times.

        When the caller is cancelled before, nothing stays leased.
        """
        caller.require(Permission.RECEIVE, request.queue)
        size = self._size(request)
        if not self._is_free(peer, size, copies):
            await self._wait_for(peer, copies * size)
            leased = await self._lease_at_once(peer, size, copies, request)
            if leased is not None:
                return leased
        leased = await self._lease_then_count(peer, copies, request)
        if leased is None:
            raise self._budget.full()
        return leased

    async def room_for(self, request: Receive, peer: str, *, copies: int = 1) -> LeasedMessages:
        """Return the memory of a receive that is repeated, without messages. Raise `MemoryLimit`."""
        size = copies * self._size(request)
        await self._wait_for(peer, size)
        reserved_bytes = self._budget.reserve(peer, size)
        return LeasedMessages(self._budget, self._leases, peer, reserved_bytes, request.queue, [])

    async def _wait_for(self, peer: str, size: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(MEMORY_TIMEOUT):
                await self._budget.wait_for(peer, size)

    def _is_free(self, peer: str, size: int, copies: int) -> bool:
        """Return whether messages of at most `size` bytes need no memory before their lease."""
        half = self._budget.total // 2
        is_usual = size <= USUAL and self._budget.used <= half
        return is_usual and self._budget.fits(peer, copies * size)

    async def _lease_at_once(
        self, peer: str, size: int, copies: int, request: Receive
    ) -> LeasedMessages | None:
        """Lease ready messages in room that is taken before; None if none is. Raise `MemoryLimit`."""
        with self._budget.share(peer, copies * size):
            deliveries = await self._leases.lease(replace(request, wait=Millis(0)))
        return self._count(peer, copies, request.queue, deliveries) if deliveries else None

    async def _lease_then_count(
        self, peer: str, copies: int, request: Receive
    ) -> LeasedMessages | None:
        """Lease messages that are ready, or come; None if there is no room, and they go back."""
        deliveries = await self._leases.lease(request)
        try:
            return self._count(peer, copies, request.queue, deliveries)
        except MemoryLimit:
            return None

    def _count(self, peer: str, copies: int, queue: str, deliveries: list[Delivery]) -> LeasedMessages:
        """Take room for what was leased. Raise `MemoryLimit`, and then the messages go back."""
        size = _size_of(deliveries)
        try:
            reserved_bytes = self._budget.reserve(peer, copies * size)
        except MemoryLimit:
            self._leases.give_back(queue, receipts_of(deliveries))
            # A queue may hold messages that are larger than its limit is now.
            if len(self._refused) >= MOST_KNOWN:
                self._refused.clear()
            self._refused[queue] = size
            raise
        self._refused.pop(queue, None)
        return LeasedMessages(self._budget, self._leases, peer, reserved_bytes, queue, deliveries)

    def _size(self, request: Receive) -> int:
        """Return the bytes that the messages of a receive may have together."""
        try:
            largest = self._access.store.settings(request.queue).max_message_size
        except StoreError:
            return 0  # The receive itself says what is wrong.
        most = MAX_BODY_IN_MEMORY if request.with_large_bodies else LARGE_BODY
        largest = min(largest, most) + MAX_ATTRIBUTES_SIZE
        # One message is always leased, and more only within `max_bytes`.
        return max(
            largest,
            self._refused.get(request.queue, 0),
            min(request.max_bytes, request.max_messages * largest),
        )


class LeasedMessages:
    """The messages leased for a call, and their share of the memory until `free`."""

    def __init__(
        self,
        budget: Budget,
        leases: Leases,
        peer: str,
        reserved_bytes: int,
        queue: str,
        deliveries: list[Delivery],
    ) -> None:
        self._budget = budget
        self._leases = leases
        self._peer = peer
        self._reserved_bytes = reserved_bytes
        self._queue = queue
        self.deliveries = deliveries
        self.receipts = receipts_of(deliveries)

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Free the memory at the end; if that is an error, undo the leases."""
        try:
            yield
        except BaseException:
            self.give_back()
            raise
        finally:
            self.free()

    def resize(self, size: int) -> None:
        """Count `size` bytes from now on, which the response has."""
        self.free()
        self._reserved_bytes = self._budget.count(self._peer, size)

    def free(self) -> None:
        """Free the memory, once the transport has the messages, or they go back."""
        self._budget.free(self._peer, self._reserved_bytes)
        self._reserved_bytes = 0

    def give_back(self) -> None:
        """Undo the leases, which no transport took."""
        if self.receipts:
            self._leases.give_back(self._queue, self.receipts)


def _size_of(deliveries: Iterable[Delivery]) -> int:
    """Return the bytes of bodies and attributes."""
    size = 0
    for delivery in deliveries:
        size += sum(map(len, delivery.bodies))
        for attributes in delivery.attributes.values():
            size += sum(len(name) + len(value) for name, value in attributes.items())
    return size
