"""Batching of one queue's deletes, extensions, releases and rejections: concurrent ones share a
call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial

from .. import _arguments as arguments
from .. import tracing
from .._batcher import Batcher, Item, Result
from .._client_context import ClientContext
from .._outgoing import chunks_of
from .._values import (
    ById,
    ByReceipt,
    DeleteResult,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Seconds,
    Target,
    VisibilityChange,
)
from ..errors import MessageNotFound, SpoolrackError, StaleReceipt


class LeaseBatches:
    """The batched calls of one queue. Retries are safe: each call may take place twice."""

    def __init__(self, context: ClientContext, queue: str) -> None:
        self._context = context
        self._queue = queue
        transport, runtime = context.transport, context.runtime
        self._deletes: Batcher[Target, DeleteResult] = Batcher(
            runtime, partial(transport.delete, queue), _no_size
        )
        self._changes: Batcher[VisibilityChange, LeaseResult] = Batcher(
            runtime, partial(transport.change_visibility, queue), _no_size
        )
        self._releases: Batcher[MessageRelease, LeaseResult] = Batcher(
            runtime, partial(transport.release, queue), _no_size
        )
        self._rejections: Batcher[MessageRejection, LeaseResult] = Batcher(
            runtime, partial(transport.reject, queue), _no_size
        )

    def delete(self, target: Target, timeout: Seconds | None) -> Awaitable[object]:
        # By its receipt, what is gone is a success anyhow.
        done_if = MessageNotFound if isinstance(target, ById) else None
        call = self._context.attempt(self._deletes.submit, timeout, target, done_if=done_if)
        return tracing.settling(call, "delete", self._queue, self._context.transport)

    def delete_many(
        self, targets: Iterable[Target], timeout: Seconds | None
    ) -> Awaitable[list[DeleteResult]]:
        call = self._many(self._deletes, targets, lambda error: DeleteResult(error=error), timeout)
        return tracing.settling(call, "delete", self._queue, self._context.transport)

    async def extend(self, target: ByReceipt, seconds: Seconds, timeout: Seconds | None) -> datetime:
        """Extend a lease; return the time at which it expires now."""
        change = _extended(target, _extension(seconds))
        result = await self._context.attempt(self._changes.submit, timeout, change)
        return result.lease_expires_at  # type: ignore[union-attr, return-value]  # one without an error

    def extend_many(
        self, targets: Iterable[ByReceipt], seconds: Seconds, timeout: Seconds | None
    ) -> Awaitable[list[LeaseResult]]:
        extension = _extension(seconds)
        changes = (_extended(target, extension) for target in targets)
        return self._many(self._changes, changes, _failed_lease, timeout)

    def release(self, release: MessageRelease, timeout: Seconds | None) -> Awaitable[object]:
        call = self._context.attempt(self._releases.submit, timeout, release, done_if=StaleReceipt)
        return tracing.settling(call, "release", self._queue, self._context.transport)

    def release_many(
        self, releases: Iterable[MessageRelease], timeout: Seconds | None
    ) -> Awaitable[list[LeaseResult]]:
        call = self._many(self._releases, releases, _failed_lease, timeout)
        return tracing.settling(call, "release", self._queue, self._context.transport)

    def reject(self, rejection: MessageRejection, timeout: Seconds | None) -> Awaitable[object]:
        call = self._context.attempt(self._rejections.submit, timeout, rejection, done_if=StaleReceipt)
        return tracing.settling(call, "reject", self._queue, self._context.transport)

    def reject_many(
        self, rejections: Iterable[MessageRejection], timeout: Seconds | None
    ) -> Awaitable[list[LeaseResult]]:
        call = self._many(self._rejections, rejections, _failed_lease, timeout)
        return tracing.settling(call, "reject", self._queue, self._context.transport)

    def _many(
        self,
        batcher: Batcher[Item, Result],
        items: Iterable[Item],
        failed: Callable[[SpoolrackError], Result],
        timeout: Seconds | None,
    ) -> Awaitable[list[Result]]:
        chunks = chunks_of(items, _no_size)
        return self._context.in_chunks(chunks, batcher.submit_many, failed, timeout)


def _failed_lease(error: SpoolrackError) -> LeaseResult:
    return LeaseResult(error=error)


def _extension(seconds: Seconds) -> float:
    # To end a lease is a release.
    return arguments.span("seconds", seconds, is_positive=True)


def _extended(target: ByReceipt, seconds: float) -> VisibilityChange:
    return VisibilityChange(target.receipt, seconds, last_receive=target.last_receive)


def _no_size(_: object) -> int:
    return 0
