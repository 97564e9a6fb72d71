"""Deletions, extensions and releases of one queue: what is asked for at one time travels together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import cast

from .._arguments import MAX_DELAY, span
from .._calling import Calling
from .._coalesce import Coalescer
from .._outgoing import chunks_of
from .._values import (
    ById,
    ByReceipt,
    DeleteResult,
    LeaseResult,
    Seconds,
    Target,
    VisibilityChange,
)
from ..errors import MessageNotFound, SpoolrackError, StaleReceipt


class Settling:
    """Those calls. They are repeated where that helps: each may take place twice."""

    def __init__(self, calling: Calling, queue: str) -> None:
        self._calling = calling
        self._queue = queue
        transport, runtime = calling.transport, calling.runtime
        self._deletes: Coalescer[Target, DeleteResult] = Coalescer(
            runtime, lambda items, left: transport.delete(queue, items, timeout=left), _no_size
        )
        self._changes: Coalescer[VisibilityChange, LeaseResult] = Coalescer(
            runtime,
            lambda items, left: transport.change_visibility(queue, items, timeout=left),
            _no_size,
        )

    async def delete(self, target: Target, timeout: Seconds | None) -> None:
        async def once(deadline: float) -> None:
            result = await self._deletes.submit(target, deadline)
            if result.error is not None:
                raise result.error

        # By its receipt, what is gone is a success anyhow.
        done_if = MessageNotFound if isinstance(target, ById) else None
        await self._calling.attempt(once, timeout, done_if=done_if)

    async def delete_many(
        self, targets: Iterable[Target], timeout: Seconds | None
    ) -> list[DeleteResult]:
        transport = self._calling.transport
        return await self._calling.in_chunks(
            chunks_of(targets, _no_size),
            lambda chunk, left: transport.delete(self._queue, chunk, timeout=left),
            lambda error: DeleteResult(error=error),
            timeout,
        )

    async def extend(self, target: ByReceipt, seconds: Seconds, timeout: Seconds | None) -> datetime:
        """The moment at which the lease ends now."""
        end = await self._change(_extended(target, _extension(seconds)), timeout, None)
        return cast(datetime, end)

    async def extend_many(
        self, targets: Iterable[ByReceipt], seconds: Seconds, timeout: Seconds | None
    ) -> list[LeaseResult]:
        extension = _extension(seconds)
        changes = (_extended(target, extension) for target in targets)
        return await self._change_many(changes, timeout)

    async def release(self, receipt: str, delay: Seconds, timeout: Seconds | None) -> None:
        await self._change(_release(receipt, _delay(delay)), timeout, StaleReceipt)

    async def release_many(
        self, receipts: Iterable[str], delay: Seconds, timeout: Seconds | None
    ) -> list[LeaseResult]:
        span = _delay(delay)
        return await self._change_many((_release(receipt, span) for receipt in receipts), timeout)

    async def _change(
        self, change: VisibilityChange, timeout: Seconds | None, done_if: type[SpoolrackError] | None
    ) -> datetime | None:
        async def once(deadline: float) -> datetime | None:
            result = await self._changes.submit(change, deadline)
            if result.error is not None:
                raise result.error
            return result.lease_expires_at

        return await self._calling.attempt(once, timeout, done_if=done_if)

    async def _change_many(
        self, changes: Iterable[VisibilityChange], timeout: Seconds | None
    ) -> list[LeaseResult]:
        transport = self._calling.transport
        return await self._calling.in_chunks(
            chunks_of(changes, _no_size),
            lambda chunk, left: transport.change_visibility(self._queue, chunk, timeout=left),
            lambda error: LeaseResult(error=error),
            timeout,
        )


def _extension(seconds: Seconds) -> float:
    # To end a lease is a release.
    return span("seconds", seconds, is_positive=True)


def _delay(seconds: Seconds) -> float:
    return span("delay", seconds, most=MAX_DELAY)


def _extended(target: ByReceipt, seconds: float) -> VisibilityChange:
    return VisibilityChange(target.receipt, seconds, last_receive=target.last_receive)


def _release(receipt: str, delay: float) -> VisibilityChange:
    # Of a release without a delay nothing is left that could count as in flight.
    return VisibilityChange(receipt, delay, is_put_off=delay > 0.0)


def _no_size(_: object) -> int:
    return 0
